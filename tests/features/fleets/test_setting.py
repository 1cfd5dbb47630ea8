"""The setting `fleets`: what it means, and what of it is refused with which words."""

import json

import pytest
from support.processes import run_python

from kiqbridge.config.client_settings import read_access, read_namespace
from kiqbridge.config.merge import merge
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.features.fleets.fleets import Fleets, read_fleets

PAY_URL = "redis://pay:6379/0"
TWO = {
    "mail": {"namespace": "mail", "queues": ["mail", "mail-*"]},
    "pay": {"namespace": "pay", "url": PAY_URL, "queues": ["*"]},
}


def fleets(given=None, *, own="", **environ) -> Fleets:
    given = TWO if given is None else given
    return read_fleets(
        {"KIQBRIDGE_FLEETS": json.dumps(given), "KIQBRIDGE_FLEET": own, **environ},
    )


def refusal(given, **environ) -> str:
    with pytest.raises(ConfigError) as refused:
        fleets(given, **environ)
    return str(refused.value)


@pytest.mark.parametrize(
    ("queue", "name"), [("mail", "mail"), ("mail-eu", "mail"), ("default", "pay"), ("", "pay")]
)
def test_the_first_glob_that_matches_names_the_fleet_of_a_queue(queue, name):
    assert fleets().name_of(queue) == name


def test_a_queue_of_no_fleet_is_refused_with_the_fleets_and_an_unknown_fleet_too():
    only = {"mail": {"queues": ["mail-?"]}}
    with pytest.raises(PayloadError, match=r"queue: 'pay' is matched by no fleet \(mail\)"):
        fleets(only).name_of("pay")
    assert not fleets(only, own="mail").has("pay")
    with pytest.raises(ConfigError, match=r"'mial' .* is not in the setting fleets; did you mean"):
        fleets(own="mial")
    with pytest.raises(ConfigError, match=r"'mail' .*; KIQBRIDGE_FLEETS is not set"):
        read_access({"KIQBRIDGE_FLEET": "mail"})
    with pytest.raises(ConfigError, match=r"fleets: is no JSON \(from KIQBRIDGE_FLEETS\)"):
        read_fleets({"KIQBRIDGE_FLEETS": "mail: pay"})


def test_a_fleet_has_the_address_of_the_environment_unless_it_names_a_server():
    found = fleets(
        {
            "here": {"namespace": "a", "queues": ["a"]},
            "there": {"namespace": "a", "provider": "OTHER_URL", "queues": ["b"]},
            "secret": {"namespace": "a", "secret_arn": "arn:pay", "queues": ["c"]},
        },
        REDIS_URL="redis://base:6379/0",
        REDIS_SSM_PARAMETER="/redis",
        OTHER_URL="redis://other:6379/0",
    ).fleets

    assert found["here"].access.url == "redis://base:6379/0"
    assert found["here"].access.ssm_parameter == "/redis"
    assert found["there"].access.url == "redis://other:6379/0"
    assert found["there"].access.ssm_parameter == ""
    assert found["secret"].access.secret_arn == "arn:pay"
    assert found["secret"].access.url_is_default


def test_the_chosen_fleet_replaces_address_and_namespace():
    environ = {
        "KIQBRIDGE_FLEETS": json.dumps(TWO),
        "KIQBRIDGE_FLEET": "pay",
        "KIQBRIDGE_NAMESPACE": "app",
        "REDIS_URL": "redis://base",
        "REDIS_SSM_PARAMETER": "/redis",
    }

    access, config = read_access(environ), merge(environ=environ, flags={})

    assert (access.url, access.namespace, access.ssm_parameter) == (PAY_URL, "pay", "")
    assert read_namespace(environ) == "pay"
    assert config.redis == access
    assert config.fleets.name_of("mail") == "mail"


def test_a_worker_reads_fleets_and_address_of_its_file_and_serves_one():
    file = {"fleets": TWO, "redis_url": "redis://base", "redis_secret_arn": "arn:base"}
    mail, pay = (
        merge(file=file, environ={"KIQBRIDGE_FLEET": name}, flags={}) for name in ("mail", "pay")
    )
    assert (mail.redis.url, mail.redis.secret_arn) == ("redis://base", "arn:base")
    assert (pay.redis.url, pay.redis.secret_arn) == (PAY_URL, "")
    assert pay.fleets.fleets["mail"].access.url == "redis://base"
    with pytest.raises(ConfigError, match=r"choose it with --fleet or KIQBRIDGE_FLEET: mail, pay"):
        merge(file=file, environ={}, flags={})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "fleets: a list is no mapping (from KIQBRIDGE_FLEETS)"),
        ({"mail": []}, "fleets.mail: is no mapping"),
        ({"mail": {"queue": ["mail"]}}, "fleets.mail: 'queue' is not known"),
        (
            {"mail": {"namespace": ["m"], "queues": ["mail"]}},
            "fleets.mail.namespace: a list is not",
        ),
        ({"mail": {"queues": [{"a": 1}]}}, "fleets.mail.queues: a dict is not a text"),
        ({"mail": {"queues": []}}, "fleets.mail.queues: has no queue"),
        ({"mail": {"namespace": "m"}}, "fleets.mail.queues: has no queue"),
        ({"mail": {"queues": ["mail", ""]}}, "fleets.mail.queues: has no queue"),
        (
            {"mail": {"url": "redis://a", "provider": "A", "queues": ["*"]}},
            "fleets.mail: url and provider are both an address",
        ),
        (
            {"mail": {"provider": "NO_URL", "queues": ["*"]}},
            "fleets.mail: REDIS_PROVIDER names NO_URL, which is not set",
        ),
        (
            {"all": {"queues": ["*"]}, "mail": {"namespace": "m", "queues": ["mail"]}},
            "fleets.mail: no queue can come to 'mail', since '*' of all before it takes all of them",
        ),
        (
            {"a": {"queues": ["mail*"]}, "b": {"namespace": "m", "queues": ["x", "mail-?*"]}},
            "fleets.b: no queue can come to 'mail-?*', since 'mail*' of a",
        ),
        (
            {"a": {"queues": ["mail", "mail"]}},
            "fleets.a: no queue can come to 'mail', since 'mail'",
        ),
        (
            {"a": {"namespace": "m", "queues": ["a"]}, "b": {"namespace": "m:", "queues": ["b"]}},
            "fleets.b: namespace and address are those of a",
        ),
        (
            {"a": {"queues": ["a"]}, "b": {"url": "redis://:pw@localhost:6379", "queues": ["b"]}},
            "fleets.b: namespace and address are those of a",
        ),
        (
            {"mail": {"url": "redis+cluster://a,b", "namespace": "mail", "queues": ["*"]}},
            "keep all keys in one slot of a cluster; write a name in braces, such as {mail}",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(given, words):
    assert words in refusal(given)


@pytest.mark.parametrize(
    ("earlier", "later"), [("mail?", "mail*"), ("?*", "*"), ("mail", "mail?"), ("*-eu", "mail-*")]
)
def test_a_glob_that_an_earlier_one_takes_a_part_of_may_stand(earlier, later):
    found = fleets({"a": {"queues": [earlier]}, "b": {"namespace": "b", "queues": [later]}})

    assert list(found.fleets) == ["a", "b"]


def test_without_the_setting_no_code_of_fleets_is_loaded():
    script = (
        "import sys; from kiqbridge import Client; from kiqbridge.config.merge import merge; Client(); "
        "merge(environ={}, flags={}); print([each for each in sys.modules if each.endswith('.fleets')])"
    )

    assert run_python(script).stdout == "[]\n"
