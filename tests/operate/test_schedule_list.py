"""`kiqbridge schedule list` on the command line."""

import json
from datetime import UTC, datetime

import pytest
from support.project import template_text

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState
from kiqbridge.store.ledger import read_ledgers
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

NOW = datetime(2026, 11, 22, 15, 0, tzinfo=UTC)
AT = int(NOW.timestamp())
FILE = """\
nightly:
  cron: 0 3 * * *
  timezone: Europe/Paris
  class: NightlyReport
  queue: low
over:
  at: "2020-01-01T00:00:00Z"
  class: Once
disabled:
  cron: 0 3 * * *
  class: Disabled
  enabled: false
"""


@pytest.fixture
def run(run, tmp_path):
    (tmp_path / "s.yml").write_text(FILE)

    def listed(*words):
        words = words or ("--file", tmp_path / "s.yml")
        return run("schedule", "list", "--from", NOW.isoformat(), *words)

    return listed


@pytest.fixture
def stored(redis):
    """Redis with schedules that `save` puts there."""

    class Stored:
        client = redis

        @staticmethod
        def save(name, expression="0 3 * * *", *, state=None, **more):
            definition = ScheduleDefinition(
                name=name, expression=expression, jobs=({"class": "A", "args": []},), **more
            )
            redis.hset("kb:schedules", name, json.dumps(definition.to_document()))
            if state is not None:
                redis.hset("kb:schedules:state", name, state.to_text())

        @staticmethod
        def fired(name, at, *ends, jids=("a",), **more):
            entry = {"at": at, "jids": jids, "by": "lambda:1", "enqueued_at": at + 2.5, **more}
            redis.zadd(f"kb:ticks:{name}", {json.dumps(entry): at})
            for jid, outcome, took_s in ends:
                end = JobEnd(at=at, jid=jid, outcome=outcome, ended_at=at + 9.0, took_s=took_s)
                redis.zadd(f"kb:ends:{name}", {end.to_text(): at})

    return Stored


def rows_of(run):
    return {each["name"]: each for each in json.loads(run("--redis", "--json")[1])}


def test_two_lines_a_schedule_by_the_next_firing(run):
    status, out, _ = run()

    assert status == 0
    assert out.splitlines() == [
        "SCHEDULE  NEXT",
        "nightly   in 11 h    Mon 2026-11-23 03:00 CET = 02:00 UTC",
        "  0 3 * * * Europe/Paris · NightlyReport in low · dynamic",
        "over      never again",
        "  at(2020-01-01T00:00:00) UTC · Once in default · dynamic",
        "disabled  disabled",
        "  0 3 * * * UTC · Disabled in default · dynamic",
        "3 schedules",
    ]


def test_json(run, tmp_path):
    (tmp_path / "template.yaml").write_text(template_text(), encoding="utf-8")
    status, out, _ = run("--json", "--template", tmp_path / "template.yaml")

    rows = json.loads(out)
    assert status == 0
    names = ("HealthPulse", "CloseDay", "NightlyReport", "WeekdayDigest")
    assert [row["name"] for row in rows] == [f"kiqbridge/{name}" for name in names]
    assert rows[0]["place"].startswith(f"{tmp_path / 'template.yaml'}:")
    assert {name: rows[2][name] for name in ("next", "last", "outcome", "origin", "job")} == {
        "next": "2026-11-23T02:00:00Z",
        "last": None,
        "outcome": None,
        "origin": "template",
        "job": "NightlyReport in low",
    }


def test_the_last_firing_and_its_outcome(run, stored):
    for name in ("done", "open", "dead", "mixed", "paused", "never"):
        stored.save(name)
    at = AT - 12 * 3600
    stored.fired("done", at - 86_400, ("a", "dead", 1.0))
    stored.fired("done", at, ("a", "done", 3.14))
    stored.fired("open", at)
    stored.fired("dead", at, ("a", "dead", 1.0))
    stored.fired("mixed", at, ("a", "done", 1.0), jids=("a", "b"))
    stored.fired("paused", at, jids=(), paused=True)
    stored.fired("never", AT + 60)  # placed ahead

    rows = rows_of(run)

    outcomes = {name: row["outcome"] for name, row in rows.items()}
    same = {name: name for name in ("done", "open", "dead", "paused")}
    assert outcomes == {**same, "mixed": "open", "never": None}
    assert (rows["done"]["last"], rows["done"]["late_s"]) == ("2026-11-22T03:00:00Z", 2.5)
    assert (rows["done"]["took_s"], rows["done"]["by"]) == (3.14, "lambda:1")
    lines = run("--redis")[1].splitlines()
    assert lines[0].split() == ["SCHEDULE", "NEXT", "LAST"]
    assert any(
        line.startswith("done ") and line.endswith("  done 12 h ago, 3.1 s") for line in lines
    )


def test_pauses_and_what_is_skipped(run, stored):
    until = AT + 86_400 + 11 * 3600
    pause = SchedulePause(reason="migration", by="ana", until=float(until))
    stored.save("for-now", state=ScheduleState(paused=pause))
    stored.save("for-good", state=ScheduleState(paused=SchedulePause()))
    stored.save("over", state=ScheduleState(paused=SchedulePause(until=float(AT - 1))))
    stored.save("skipped", state=ScheduleState(skipped=(AT + 12 * 3600,)))

    rows = rows_of(run)

    assert {
        name: (row["state"], row["next"], row["note"], row["detail"]) for name, row in rows.items()
    } == {
        "for-now": (
            "paused",
            "2026-11-24T03:00:00Z",
            "paused until 2026-11-24 02:00 UTC",
            "by ana: migration",
        ),
        "for-good": ("paused", None, "paused", ""),
        "over": ("enabled", "2026-11-23T03:00:00Z", "", ""),
        "skipped": ("enabled", "2026-11-24T03:00:00Z", "", "1 skipped before that"),
    }
    out = run("--redis")[1]
    assert "for-now   paused until 2026-11-24 02:00 UTC\n" in out
    assert "\n  by ana: migration\n" in out


def test_an_expression_that_cannot_be_read(run, stored):
    stored.save("bad", "every now and then")

    row = rows_of(run)["bad"]

    assert (row["state"], row["next"]) == ("unreadable", None)
    assert row["note"] == "cannot be read"
    assert "every now and then" in row["detail"]


def test_colours_on_a_terminal_only(run, stored, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    stored.save("done")
    stored.fired("done", AT - 60, ("a", "done", 1.0))
    assert "\033[" not in run("--redis")[1]

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    shown = run("--redis")[1]

    assert "\033[1mdone" in shown
    assert "\033[32mdone 60 s ago, 1.0 s\033[0m" in shown


def test_what_cannot_be_read_exits_with_2(run):
    assert run("--file", "/nowhere.yml")[0] == 2


def test_many_ledgers_in_few_round_trips(stored, redis_url):
    for number in range(1200):
        stored.fired(f"s{number}", AT - number, ("a", "done", 1.0))

    names = [f"s{number}" for number in range(1300)]
    found = read_ledgers(RedisPool(redis_url), Keys(), names, most=1, until=float(AT))

    assert [each.at for name in names for each in found[name]] == [AT - n for n in range(1200)]
    assert all(each.outcome == "done" for name in names for each in found[name])


def test_a_name_of_any_bytes(run, stored):
    definition = {"expression": "30 2 * * *", "timezone": "Europe/Paris", "jobs": [{"class": "A"}]}
    stored.client.hset("kb:schedules", b"\xff", json.dumps(definition))

    status, out, _ = run("--redis")

    assert status == 0
    assert r"\xff" in out
