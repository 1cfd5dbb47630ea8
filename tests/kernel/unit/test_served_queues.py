"""Which queues a worker serves when none is named, and what is odd about those that are."""

import pytest

from kiqbridge.client.client import Client
from kiqbridge.client.job import job
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.config.merge import merge
from kiqbridge.engine.served_queues import (
    declared_queues,
    find_oddities,
    warn_of_another_client,
    warn_of_odd_queues,
    with_default_queues,
)
from kiqbridge.errors import RedisUnavailable
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.usefixtures("own_jobs")


def declare(name, **options):
    job(name=name, **options)(lambda: None)


def served(capsules=(), **layers):
    server = Server()
    for name, queues in capsules:
        server.capsule(name, queues=queues, concurrency=1)
    config = merge(**{"environ": {}, "flags": {}, **layers})
    return with_default_queues(config, default_registry, server.capsules).queues


def test_by_default_the_queues_of_the_declared_jobs_are_served_in_their_order_and_equally():
    declare("Mail", queue="mailers")
    declare("Plain")
    declare("Slow", queue="mailers", retry_queue="again")

    assert served() == (("mailers", 1), ("default", 1), ("again", 1))


def test_one_queue_needs_no_weight_and_without_jobs_it_is_default():
    assert served() == (("default", 0),)
    declare("Mail", queue="mailers", retry_queue="mailers")
    assert served() == (("mailers", 0),)
    assert declared_queues(default_registry) == {"mailers": ["Mail"]}


@pytest.mark.parametrize(
    "layers",
    [
        {"flags": {"queues": ["other"]}},
        {"environ": {"KIQBRIDGE_QUEUES": "other"}},
        {"file": {"queues": ["other"]}},
    ],
    ids=["flag", "variable", "file"],
)
def test_queues_that_are_named_stay(layers):
    declare("Mail", queue="mailers")

    assert served(**layers) == (("other", 0),)


def test_queues_of_capsules_and_of_a_route_are_left_to_them():
    for name in ("of_code", "of_file", "ruby", "mailers"):
        declare(name, queue=name)
    file = {"capsules": {"b": {"queues": ["of_file"]}}, "unknown_class": "route:ruby"}

    assert served([("a", ["of_code"])], file=file) == (("mailers", 0),)


def test_a_served_queue_that_no_job_uses_is_found_with_near_names():
    odd = find_oddities({"mailers": ["Mail"], "default": ["Plain"]}, ["mailer", "default"], set())
    assert odd.unused == {"mailer": ["mailers"]}
    assert odd.unserved == {"mailers": ["Mail"]}
    for here, elsewhere in ((["mailers"], {"x"}), ([], {"mailers"})):
        assert find_oddities({"mailers": ["Mail"]}, here, elsewhere).unserved == {}
    odd = find_oddities({}, ["default", "low"], set())  # without jobs
    assert (odd.unused, odd.unserved) == ({}, {})


def test_the_warnings_name_queues_jobs_and_the_way_out(caplog):
    for number in range(5):
        declare(f"Mail{number}", queue="mailers")

    warn_of_odd_queues(lambda *_commands: [[]], Keys(), ["mailer", "elsewhere"], default_registry)

    assert caplog.messages == [
        "queue mailer is served here, but no declared job uses it; did you mean mailers?",
        "queue elsewhere is served here, but no declared job uses it; is it for jobs that others declare?",
        (
            "no worker serves queue mailers, neither this one nor any other that runs now: jobs of Mail0, "
            "Mail1, Mail2 and 2 more wait there; name it with -q, here or in another worker"
        ),
    ]


def test_an_outage_ends_no_start(caplog):
    declare("Mail", queue="mailers")

    def run(*_commands):
        raise RedisUnavailable("away")

    warn_of_odd_queues(run, Keys(), ["other"], default_registry)

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("pushing", "warns"),
    [
        ({"url": "redis://localhost"}, False),
        ({"url": "redis://:secret@other.invalid:7000/2"}, True),
        ({"url": "redis://127.0.0.1:6379/0", "namespace": "shop"}, True),
    ],
)
def test_a_worker_says_that_its_code_pushes_to_another_server(caplog, pushing, warns):
    warn_of_another_client(Client("redis://127.0.0.1:6379/0"), Client(**pushing))

    assert [("serves redis://127.0.0.1:6379/0" in line) for line in caplog.messages] == [
        True
    ] * warns
    assert "secret" not in caplog.text
