"""The reasons why a worker is not ready: when they are logged, and when they are over."""

import logging

import pytest

from kiqbridge.errors import QueueTooDeep, RedisMisconfigured, RedisRefused, RedisUnavailable
from kiqbridge.runtime import role as module
from kiqbridge.runtime.role import HINDERED_S, MOST_LOGGED, Role, Troubles, fields_of

WORK = "moving due jobs"


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "kiqbridge.runtime.role")
    return caplog


def failing(error):
    def act():
        raise error

    return act


def test_what_is_refused_is_logged_once_and_once_when_it_is_over(log):
    troubles = Troubles()
    for _ in range(3):
        assert not troubles.tried(WORK, failing(RedisRefused("NOPERM")))
    assert list(troubles) == [f"{WORK} fails: NOPERM"]
    assert WORK in troubles

    assert troubles.tried(WORK, lambda: None)
    assert troubles.tried(WORK, lambda: None)

    assert list(troubles) == []
    assert log.messages == [
        f"{WORK} fails: NOPERM; it is tried again, and until then this worker is not ready",
        f"{WORK} works again",
    ]


def test_what_each_try_finds_anew_is_logged_once_and_forgotten_a_while_after_the_last(
    log, monkeypatch
):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    troubles = Troubles()
    for _ in range(3):
        now[0] += HINDERED_S - 1
        troubles.hindered("beginning jobs", "no room")
    assert list(troubles) == ["no room"]
    assert len(log.messages) == 1

    now[0] += HINDERED_S

    assert list(troubles) == []
    assert "beginning jobs" not in troubles


def test_an_outage_is_no_trouble_and_does_not_end_one(log):
    troubles = Troubles()

    assert not troubles.tried(WORK, failing(RedisUnavailable("away")))
    assert (list(troubles), log.messages) == ([], [])
    troubles.tried(WORK, failing(RedisMisconfigured("the password is wrong")))
    troubles.tried(WORK, failing(RedisUnavailable("away")))

    assert list(troubles) == [f"{WORK} fails: the password is wrong"]
    assert len(log.messages) == 1


def test_a_push_that_may_succeed_later_is_logged_and_no_trouble(log):
    troubles = Troubles()

    assert not troubles.tried(WORK, failing(QueueTooDeep({"mail": 7})))

    assert list(troubles) == []
    assert log.messages[0].startswith(f"{WORK} waits: queue: mail (7 jobs) at its limit")


def test_reasons_that_take_turns_do_not_fill_the_log(log):
    troubles = Troubles()
    for number in range(1000):
        troubles.failed(WORK, RedisRefused(f"reason {number % 100}"))

    assert len(log.messages) == MOST_LOGGED
    assert list(troubles) == [f"{WORK} fails: reason 99"]


def test_an_error_that_nobody_expects_is_logged_with_its_traceback_and_is_a_trouble(caplog):
    troubles = Troubles()

    assert not troubles.tried(WORK, failing(KeyError("x")))
    assert list(troubles) == [f"{WORK} fails with KeyError; its log has the traceback"]
    assert "KeyError: 'x'" in caplog.text
    assert not Troubles().tried(WORK, failing(KeyError("y")), lambda: True)

    assert "'y'" not in caplog.text  # the thread was about to end


def test_a_part_of_a_role_fails_by_itself():
    role = Role("poller", lambda: None, work=WORK)

    role.tried(failing(RedisRefused("NOPERM")), "removing what is over")

    assert not role.is_refused
    assert role.tried(lambda: None)
    assert list(role.troubles) == ["removing what is over fails: NOPERM"]


def test_they_are_published_as_a_list():
    assert fields_of([]) == {"kb_troubles": ""}
    assert fields_of(["a", "é"]) == {"kb_troubles": '["a","\\u00e9"]'}
