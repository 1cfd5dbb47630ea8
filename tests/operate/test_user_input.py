"""A user's input that cannot be used."""

import pytest

from kiqbridge.commands.arguments import user_input
from kiqbridge.errors import ConfigError, PayloadError, RedisUnavailable


def test_a_fault_of_the_input_is_no_fault_of_the_settings():
    with pytest.raises(PayloadError, match="no time"), user_input():
        raise ConfigError("no time")


def test_other_errors_stay_what_they_are():
    with pytest.raises(RedisUnavailable), user_input():
        raise RedisUnavailable("away")


@pytest.mark.parametrize(
    "words",
    [
        ["save", "n", "--cron", "bad", "--class", "A"],
        ["save", "n", "--cron", "0 3 * * *", "--class", "A", "--timezone", "Mars/X"],
        ["apply", "/nonexistent.yml"],
        ["list", "--file", "/nonexistent.yml"],
        ["next", "--expression", "bad"],
    ],
)
def test_what_a_schedule_command_cannot_read_is_exit_2(run, words, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")

    code, _, err = run("schedule", *words)

    assert code == 2
    assert err.startswith("kiqbridge: ")


@pytest.mark.parametrize(
    "line",
    [
        *("stats", "queue list", "class pause Mail", "dead delete --all --yes", "recover"),
        *("enqueue Mail", "enqueue --event event.json", "deploy-mark v1", "schedule resume n"),
    ],
)
def test_without_redis_a_command_ends_with_3(run, line, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    monkeypatch.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Mail")
    monkeypatch.setenv("KIQBRIDGE_ALLOWED_QUEUES", "default")
    (tmp_path / "event.json").write_text('{"class": "Mail", "args": []}')

    code, out, err = run(*line.split())

    assert (code, out.partition("direct\n")[2] if "event" in line else out) == (3, "")
    assert "cannot be reached" in err
    assert "secret" not in err
