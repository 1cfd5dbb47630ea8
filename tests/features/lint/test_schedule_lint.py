"""`kiqbridge schedule lint` on the command line."""

import json

import pytest

from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.wire.tick_mark import JobEnd

FILE = """\
# lint: ignore KB108
half:
  expression: cron(30 2 * * ? *)
  timezone: Europe/Paris
  class: Half
"""


@pytest.fixture
def run(run, tmp_path):
    def lint(text, *words):
        (tmp_path / "s.yml").write_text(text)
        sources = ("--file", tmp_path / "s.yml") if text else ()
        return run("schedule", "lint", "--from", "2026-11-22", *sources, *words)

    return lint


def test_findings_for_people(run, tmp_path):
    status, out, _ = run(FILE)

    assert status == 0
    assert out.splitlines() == [
        f"warning KB107  half  {tmp_path}/s.yml:2",
        "  cron(30 2 * * ? *): 02:30 on 2027-03-28 and 2028-03-26 does not exist in Europe/Paris",
        "  why  it is left out on that day, since the clock goes forward",
        "  do   write a time outside of 02:00-02:59, or use UTC if the hour does not matter",
        "",
        "1 schedule: 1 warning",
    ]


def test_findings_as_json(run):
    status, out, _ = run(FILE.replace("lint:", ""), "--json")

    found = json.loads(out)
    assert status == 0
    assert [(each["code"], each["severity"], each["schedule"]) for each in found] == [
        ("KB107", "warning", "half"),
        ("KB108", "note", "half"),
    ]
    assert set(found[0]) == {
        *("code", "severity", "schedule", "place"),
        *("what", "why", "advice", "details"),
    }


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        (FILE, ("--strict",), 1),
        (FILE.replace("2 * *", "3 * *"), ("--strict",), 0),
        (FILE.replace("30 2 * *", "30 2 30 2"), (), 1),
        ("half: 5", (), 2),
        ("", ("--template", "/nowhere.yaml"), 2),
        (FILE, ("--from", "soon"), 2),
    ],
)
def test_exit_codes(run, text, words, expected):
    assert run(text, *words)[0] == expected


def test_nothing_to_say(run):
    assert run(FILE.replace("2 * *", "3 * *"))[1] == "1 schedule: nothing to say\n"


def test_the_size_of_a_crowd(run):
    text = "\n".join(f"s{n}: {{expression: '0 3 * * *', class: A{n}}}" for n in range(3))

    assert run(text)[1] == "3 schedules: nothing to say\n"
    assert "s2  0 3 * * * -> 40 3 * * *" in run(text, "--crowd", "3")[1]
    assert run(text, "--crowd", "1")[0] == 2


def test_the_ledger_says_how_long_jobs_take(run, redis):
    definition = ScheduleDefinition(
        name="pulse", expression="*/5 * * * *", jobs=({"class": "A", "args": []},)
    )
    redis.hset("kb:schedules", "pulse", json.dumps(definition.to_document()))
    at = 1_700_000_100
    entry = {"at": at, "jids": ["a"], "by": "lambda:1", "enqueued_at": at + 1.0}
    redis.zadd("kb:ticks:pulse", {json.dumps(entry): at})
    assert json.loads(run("", "--redis", "--json")[1]) == []

    end = JobEnd(at=at, jid="a", outcome="done", ended_at=at + 400.0, took_s=398.0)
    redis.zadd("kb:ends:pulse", {end.to_text(): at})

    [found] = json.loads(run("", "--redis", "--json")[1])
    assert found["code"] == "KB109"
    assert found["what"] == "it fires every 300 s, and its jobs take 398 s (1 runs)"
