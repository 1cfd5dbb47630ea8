"""The function where there are several fleets: each record goes to that of its queue."""

import json

import pytest
import redis as redis_py
from support.enqueue_function import Context, failures, job, messages
from support.servers import embedded_server
from support.sqs import Queue, simulated_sqs

AWAY = "redis://127.0.0.1:1"


@pytest.fixture(scope="module")
def second_server():
    with embedded_server() as server:
        yield server


@pytest.fixture
def other(second_server):
    """The server of the fleet `pay`."""
    second_server.flush()
    with redis_py.Redis.from_url(second_server.url) as raw:
        yield raw


@pytest.fixture
def start(environment, load, second_server):
    """A new warm environment; `mail` lies in a namespace of the first server, `pay` on another one."""

    def start(pay_url=second_server.url):
        fleets = {
            "mail": {"namespace": "mail", "queues": ["mail"]},
            "pay": {"url": pay_url, "queues": ["pay"]},
        }
        environment.setenv("KIQBRIDGE_FLEETS", json.dumps(fleets))
        environment.setenv("KIQBRIDGE_ALLOWED_QUEUES", "*")
        return load().lambda_handler

    return start


def to(*queues):
    return messages(*(job(0, queue=queue) for queue in queues))


def test_the_records_of_a_batch_go_to_the_fleets_of_their_queues(start, redis, other):
    answer = start()(to("mail", "pay", "mail"), Context())

    assert failures(answer) == []
    assert redis.llen("mail:queue:mail") == 2
    assert other.llen("queue:pay") == 1


def test_a_fleet_that_is_away_fails_its_own_records(start, redis):
    answer = start(pay_url=AWAY)(to("pay", "mail", "pay"), Context())

    assert failures(answer) == ["m0", "m2"]
    assert redis.llen("mail:queue:mail") == 1


def test_a_fleet_that_is_away_spills_its_own_records(start, environment, monkeypatch, redis):
    with simulated_sqs(monkeypatch):
        queue = Queue("spill", receives=3)
        environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
        handler = start(pay_url=AWAY)

        assert failures(handler(to("pay", "mail"), Context())) == []
        assert failures(handler(to("mail"), Context())) == []

    assert redis.llen("mail:queue:mail") == 2


def test_a_record_of_no_fleet_fails_alone(start, redis):
    answer = start()(to("other", "mail"), Context())

    assert failures(answer) == ["m0"]
    assert redis.llen("mail:queue:mail") == 1


def test_each_fleet_gets_the_schedules_of_its_queues(start, environment, tmp_path, redis, other):
    rule = {"expression": "rate(1 hour)", "origin": "template"}
    schedules = {
        "Mail": {**rule, "jobs": [job(0, queue="mail")]},
        "Pay": {**rule, "jobs": [job(0, queue="pay")]},
        "None": {**rule, "jobs": [job(0, queue="other")]},
    }
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"version": 1, "hash": "a", "schedules": schedules}))
    environment.setattr("kiqbridge.features.publishing.function.MANIFEST", path)
    environment.setenv("KIQBRIDGE_STACK", "shop")
    handler = start()

    answer = handler({"kiqbridge": "publish"}, Context())

    assert {name: each["schedules"] for name, each in answer["fleets"].items()} == {
        "mail": 1,
        "pay": 1,
    }
    assert redis.hkeys("mail:kb:schedules") == [b"shop/Mail"]
    assert other.hkeys("kb:schedules") == [b"shop/Pay"]
