"""`kiqbridge queue`, `class` and `schedule`: pausing, resuming, and what is paused."""

import argparse
import json
import time

import pytest

from kiqbridge import Schedule
from kiqbridge.commands.arguments import duration


def answer(result):
    code, out, err = result
    assert (code, err) == (0, "")
    return json.loads(out)


@pytest.fixture(autouse=True)
def known(redis, schedules):
    redis.sadd("queues", "default", "mail")
    redis.lpush("queue:mail", "a", "b")
    schedules.save(Schedule("mail", "A", every=3600))


@pytest.fixture
def paused(redis, schedules):
    """Of a kind the pause of `mail` as it is kept, None if there is none."""

    def paused(kind):
        if kind == "schedule":
            pause = schedules.get("mail").state.paused
            return pause and {"reason": pause.reason, "by": pause.by, "until": pause.until}
        text = redis.hget("kb:paused", f"{kind}:mail")
        assert redis.sismember("paused", "mail") == (kind == "queue" and text is not None)
        return text and json.loads(text)

    return paused


@pytest.mark.parametrize(
    ("kind", "label"), [("queue", "queue mail"), ("class", "class mail"), ("schedule", "mail")]
)
class TestPause:
    def test_pausing_and_resuming(self, run, paused, kind, label):
        words = ("mail", "--reason", "provider is down", "--by", "ada")
        assert run(kind, "pause", *words, "--dry-run") == (0, f"would pause {label}\n", "")
        assert paused(kind) is None
        assert run(kind, "pause", *words) == (0, f"paused {label}\n", "")
        assert (paused(kind)["reason"], paused(kind)["by"]) == ("provider is down", "ada")

        assert run(kind, "resume", "mail", "--dry-run") == (0, f"would resume {label}\n", "")
        assert paused(kind) is not None
        assert answer(run(kind, "resume", "mail", "--json")) == {
            "dry_run": False,
            "resumed": [{"name": "mail", "was_paused": True}],
        }
        assert paused(kind) is None
        assert run(kind, "resume", "mail")[:2] == (0, f"{label} was not paused\n")

    def test_for_a_while_and_until_a_time(self, run, paused, kind, label):
        [pause] = answer(run(kind, "pause", "mail", "--for", "2h", "--json"))["paused"]

        user, _, machine = pause["by"].partition("@")
        assert user and machine
        assert pause["until"] == pytest.approx(time.time() + 7200, abs=60)
        assert (pause["kind"], pause["name"]) == (kind, "mail")
        code, out, _ = run(kind, "pause", "mail", "--for", "90", "--dry-run")
        assert (code, out) == (0, f"would pause {label} for 90 s\n")
        until = "2198-01-01T00:00:00Z"
        assert run(kind, "pause", "mail", "--until", until) == (
            0,
            f"paused {label} until {until}\n",
            "",
        )

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            ([], "required: VERB"),
            (["pause"], "required: NAME"),
            (["pause", "mail", "--for", "soon"], "is no duration"),
            (["pause", "mail", "--for", "0"], "is no duration"),
            (["pause", "mail", "--until", "soon"], "is no ISO 8601 time"),
            (["pause", "mail", "--until", "2020-01-01T00:00:00Z"], "is over"),
            (["pause", ""], "''"),
        ],
    )
    def test_bad_input(self, run, paused, args, said, kind, label):  # noqa: PLR0917 - fixtures
        code, _, err = run(kind, *args)

        assert code == 2
        assert said in err
        assert paused(kind) is None


@pytest.mark.parametrize(
    ("kind", "said"),
    [("queue", "no job was ever pushed to queue mial"), ("schedule", "schedule mial is not known")],
)
def test_a_name_that_is_misspelt_is_told(run, kind, said):
    assert run(kind, "pause", "mial")[::2] == (0, f"kiqbridge: {said}; did you mean mail?\n")


class TestList:
    def test_queues(self, run, redis):
        run("queue", "pause", "mail", "--reason", "provider is down", "--by", "ada")
        redis.sadd("paused", "foreign")

        assert run("queue", "list")[1].splitlines() == [
            "default  0 jobs",
            "foreign  0 jobs  paused",
            "mail  2 jobs  paused by ada: provider is down",
        ]
        run("queue", "resume", "mail")
        assert "mail  2 jobs  no process serves it\n" in run("queue", "list")[1]
        redis.delete("queues", "paused", "kb:paused")
        assert run("queue", "list") == (0, "no queue is known\n", "")

    def test_some_as_json(self, run):
        run("queue", "pause", "mail", "--for", "1d", "--by", "ada")

        [row] = answer(run("queue", "list", "mail", "--json"))["queues"]

        assert row.pop("until") - row.pop("at") == pytest.approx(86_400)
        assert row == {
            "name": "mail", "size": 2, "served": 0, "paused": True, "reason": "", "by": "ada",
        }  # fmt: skip

    def test_classes(self, run):
        assert run("class", "list") == (0, "no class is paused\n", "")
        run("class", "pause", "Shop::Mail", "--by", "ada")

        assert run("class", "list")[1] == "Shop::Mail  paused by ada\n"
        assert run("class", "list", "Other")[1] == "no class is paused\n"

    def test_in_a_namespace(self, run, redis, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "shop")
        redis.sadd("shop:queues", "own")

        run("queue", "pause", "own")

        assert redis.smembers("shop:paused") == {b"own"}
        assert [each["name"] for each in answer(run("queue", "list", "--json"))["queues"]] == [
            "own"
        ]


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
