"""`kiqbridge queue` and `kiqbridge class`: what they do, say and answer."""

import argparse
import json
import time

import pytest

from kiqbridge.commands.arguments import duration


def answer(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


class TestQueues:
    @pytest.fixture(autouse=True)
    def known(self, redis):
        redis.sadd("queues", "default", "mail")
        redis.lpush("queue:mail", "a", "b")

    def test_pausing_and_resuming(self, run, redis):
        assert run("queue", "pause", "mail", "default", "--reason", "provider is down") == (
            0,
            "paused queue mail\npaused queue default\n",
            "",
        )
        assert redis.smembers("paused") == {b"mail", b"default"}
        assert json.loads(redis.hget("kb:paused", "queue:mail"))["reason"] == "provider is down"

        assert run("queue", "resume", "mail", "default", "other") == (
            0,
            "resumed queue mail\nresumed queue default\nqueue other was not paused\n",
            "",
        )
        assert not redis.exists("paused", "kb:paused")

    def test_for_a_while(self, run):
        told = answer(run("queue", "pause", "mail", "--for", "2h", "--by", "ada", "--json"))

        [pause] = told["paused"]
        assert pause["until"] == pytest.approx(time.time() + 7200, abs=60)
        assert (pause["kind"], pause["name"], pause["by"]) == ("queue", "mail", "ada")
        assert told["dry_run"] is False

    def test_who_did_it_is_whoever_runs_the_command(self, run):
        [pause] = answer(run("queue", "pause", "mail", "--json"))["paused"]

        user, at, machine = pause["by"].partition("@")
        assert user and at and machine

    def test_a_dry_run_changes_nothing(self, run, redis):
        code, out, _ = run("queue", "pause", "mail", "--for", "90", "--dry-run")
        assert (code, out) == (0, "would pause queue mail for 90 s\n")
        assert not redis.exists("paused", "kb:paused")

        redis.sadd("paused", "mail")
        code, out, _ = run("queue", "resume", "mail", "default", "--dry-run")
        assert (code, out) == (0, "would resume queue mail\nqueue default was not paused\n")
        assert redis.smembers("paused") == {b"mail"}

    def test_a_name_that_is_misspelt_is_told(self, run, redis):
        code, _, err = run("queue", "pause", "mial")

        assert code == 0
        assert err == ("kiqbridge: no job was ever pushed to queue mial; did you mean mail?\n")

    def test_listing_all(self, run, redis):
        run("queue", "pause", "mail", "--reason", "provider is down", "--by", "ada")
        redis.sadd("paused", "foreign")

        code, out, _ = run("queue", "list")

        assert code == 0
        assert out.splitlines() == [
            "default  0 jobs",
            "foreign  0 jobs  paused",
            "mail  2 jobs  paused by ada: provider is down",
        ]

    def test_listing_some_as_json(self, run):
        run("queue", "pause", "mail", "--for", "1d", "--by", "ada")

        [row] = answer(run("queue", "list", "mail", "--json"))["queues"]

        assert row.pop("until") - row.pop("at") == pytest.approx(86_400)
        assert row == {"name": "mail", "size": 2, "paused": True, "reason": "", "by": "ada"}

    def test_the_end_is_told(self, run):
        _, out, _ = run("queue", "pause", "mail", "--for", "1d")

        day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))
        assert out.startswith(f"paused queue mail until {day} ")
        assert out.endswith(" UTC\n")

    def test_in_a_namespace(self, run, redis, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "shop")
        redis.sadd("shop:queues", "own")

        run("queue", "pause", "own")

        assert redis.smembers("shop:paused") == {b"own"}
        assert [row["name"] for row in answer(run("queue", "list", "--json"))["queues"]] == ["own"]


def test_an_empty_database_has_no_queues(run):
    assert run("queue", "list") == (0, "no queue is known\n", "")


class TestClasses:
    def test_pausing_listing_and_resuming(self, run, redis):
        assert run("class", "list") == (0, "no class is paused\n", "")
        assert run("class", "pause", "Shop::Mail", "--by", "ada")[:2] == (
            0,
            "paused class Shop::Mail\n",
        )
        assert redis.hkeys("kb:paused") == [b"class:Shop::Mail"]
        assert run("class", "list")[1] == "Shop::Mail  paused by ada\n"
        assert run("class", "list", "Other")[1] == "no class is paused\n"

        told = answer(run("class", "resume", "Shop::Mail", "--json"))
        assert told == {
            "dry_run": False,
            "resumed": [{"name": "Shop::Mail", "was_paused": True}],
        }
        assert not redis.exists("kb:paused")


class TestBadInput:
    @pytest.mark.parametrize(
        "args",
        [
            ["queue"],
            ["queue", "pause"],
            ["queue", "pause", "mail", "--for", "soon"],
            ["class", "pause", "Mail", "--for", "0"],
        ],
    )
    def test_usage(self, run, args):
        with pytest.raises(SystemExit) as ended:
            run(*args)

        assert ended.value.code == 2

    def test_an_empty_name(self, run):
        code, _, err = run("class", "pause", "")

        assert code == 2
        assert "class: '' is not the name of a class" in err

    def test_no_redis(self, run, monkeypatch):
        monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")

        code, out, err = run("queue", "list")

        assert (code, out) == (3, "")
        assert "cannot be reached" in err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("0.5h", 1800)],
)
def test_durations(text, seconds):
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1", "1w", "1 h", "0", "0m", "1h30m", "inf", "\u0661"])
def test_what_is_no_duration(text):
    with pytest.raises(
        argparse.ArgumentTypeError, match="is no duration; write 90, 90s, 15m, 2h or 1d"
    ):
        duration(text)
