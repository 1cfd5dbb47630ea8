"""What a server answers with instead of a result, in words, and what to do about it."""

import pytest
import redis as redis_py

from kiqbridge.errors import RedisMisconfigured, RedisRefused, RedisUnavailable
from kiqbridge.store.refusals import WRONG_TYPE
from kiqbridge.store.replies import error_text, is_failover, translate, unavailable

WRONGTYPE = redis_py.ResponseError("WRONGTYPE Operation against a key holding the wrong kind")


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


@pytest.mark.parametrize(
    ("text", "command", "todo"),
    [
        (
            "User u has no permissions to run the 'zrange' command",
            ("ZRANGE", "schedule", 0, 0),
            "(ZRANGE schedule); allow it: ACL SETUSER u +zrange (docs/reference/security.md)",
        ),
        (
            "this user has no permissions to run the 'client|tracking' command",
            ("CLIENT", "TRACKING", "ON"),
            "(CLIENT); allow it: ACL SETUSER u +client|tracking (docs/reference/security.md)",
        ),
        (
            "No permissions to access a key",
            ("EXISTS", "retry", "schedule"),
            "(EXISTS retry schedule); allow it: ACL SETUSER u ~retry ~schedule (docs/reference/security.md)",
        ),
        (
            "this user has no permissions to access one of the keys used as arguments",
            ("EVALSHA", "3fa", 6, *"abcdef", b"a job"),
            "(EVALSHA a b c d and 2 more keys); allow the keys of the namespace in the ACL of u (docs/reference/security.md)",
        ),
        (
            "ACL failure in script: User u has no permissions to run the 'lpush' command script: on @user_script:1.",
            ("EVALSHA", "3fa", 1, "retry", b"a job"),
            "(EVALSHA retry); allow it: ACL SETUSER u +lpush (docs/reference/security.md)",
        ),
        (
            "ERR The user executing the script can't run this command or subcommand script: 3fa, on @user_script:1.",
            ("EVALSHA", "3fa", 0),
            "(EVALSHA); `kiqbridge doctor` names the command: allow it in the ACL of u (docs/reference/security.md)",
        ),
        (
            "ERR unknown command 'ZRANGE', with args beginning with: 'schedule' '0' '0'",
            ("ZRANGE", "schedule", 0, 0),
            (
                "ERR unknown command 'ZRANGE' (ZRANGE schedule); the server, or a proxy in front of it, does not have "
                "this command, or has renamed it (rename-command): restore it there (docs/reference/security.md)"
            ),
        ),
        (str(WRONGTYPE), ("GET", "a"), f"; {WRONG_TYPE}"),
    ],
)
def test_a_refusal_names_the_command_the_key_and_what_to_do(text, command, todo):
    translated = translate(redis_py.ResponseError(text), "redis://host", command, "u")

    assert str(translated).endswith(todo)
    assert not translated.may_pass


@pytest.mark.parametrize("code", ["LOADING", "READONLY", "OOM", "CLUSTERDOWN", "BUSY", "MISCONF"])
def test_what_a_server_cannot_do_now_may_pass(code):
    assert translate(redis_py.ResponseError(f"{code} words"), "redis://host").may_pass


@pytest.mark.parametrize("make", [translate, lambda *args: unavailable(*args, uses_tls=False)])
def test_no_error_quotes_the_password_that_a_proxy_sends_back(make):
    words = "unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'worker' 's3cret'"

    error = make(redis_py.ResponseError(words), "redis://host")

    assert "s3cret" not in str(error)
    assert "unknown command 'HELLO'" in str(error)
    assert not error.may_pass
