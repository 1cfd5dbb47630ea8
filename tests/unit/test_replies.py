"""What a server answers with instead of a result, in words; and the warning of a wrong type."""

import logging

import pytest
import redis as redis_py

from kiqbridge.errors import RedisMisconfigured, RedisRefused, RedisUnavailable
from kiqbridge.store.replies import HINT, WrongTypeWarning, error_text, is_failover, translate

WRONGTYPE = redis_py.ResponseError("WRONGTYPE Operation against a key holding the wrong kind")
LOGGER = logging.getLogger("test_replies")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (WRONGTYPE, RedisRefused),
        (redis_py.ResponseError("unknown command 'NOPE'"), RedisRefused),
        (redis_py.exceptions.BusyLoadingError("LOADING dataset"), RedisUnavailable),
        (redis_py.exceptions.OutOfMemoryError("OOM command not allowed"), RedisUnavailable),
        (redis_py.exceptions.ReadOnlyError("READONLY You can't write"), RedisUnavailable),
        (redis_py.exceptions.AuthenticationError("WRONGPASS invalid"), RedisMisconfigured),
    ],
)
def test_an_answer_becomes_the_error_that_says_what_to_do(error, expected):
    translated = translate(error, "redis://host")

    assert type(translated) is expected
    assert "redis://host" in str(translated)


def test_a_failover_is_known_by_its_code():
    for code in ("READONLY", "NOREPLICAS", "UNBLOCKED"):
        assert is_failover(redis_py.ResponseError(f"{code} words"))
    for reply in (b"READONLY", 1, None, WRONGTYPE):
        assert not is_failover(reply)
    error = redis_py.ResponseError("You can't write against a read only replica")
    error.status_code = "READONLY"  # which redis-py cuts off
    assert error_text(error) == "READONLY You can't write against a read only replica"


def test_an_answer_to_our_flags_says_that_the_server_is_too_old():
    error = redis_py.ResponseError("ERR Error compiling script: unexpected symbol near '#'")

    assert "too old: upgrade to Redis 7.0" in str(translate(error, "redis://host"))


def test_a_wrong_type_is_reported_once_until_a_call_succeeds(caplog):
    warning = WrongTypeWarning(LOGGER, "the poller")
    warning.report(RedisUnavailable("away"))
    warning.report(WRONGTYPE)
    warning.report(WRONGTYPE)
    assert caplog.messages == [f"the poller waits: {WRONGTYPE}; {HINT}"]
    warning.clear()
    warning.report(translate(WRONGTYPE, "redis://host"))
    assert len(caplog.messages) == 2
    assert caplog.messages[1].count(HINT) == 1
