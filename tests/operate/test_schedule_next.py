"""`kiqbridge schedule next` and `previous` on the command line."""

import json

import pytest

PARIS = ("--timezone", "Europe/Paris", "--from", "2026-03-28T00:00:00Z")


@pytest.fixture
def run(run):
    return lambda *words, verb="next": run("schedule", verb, *words)


@pytest.mark.parametrize(
    "what", [("--expression", "cron(0 3 * * ? *)"), ("--crontab", "0 3 * * *")]
)
def test_the_next_runs_as_json(run, what):
    status, out, _ = run(*what, *PARIS, "--count", "3", "--json")

    assert status == 0
    hours = ("28T02", "29T01", "30T01")
    assert json.loads(out) == [f"2026-03-{hour}:00:00Z" for hour in hours]


def test_the_next_runs_for_people(run):
    status, out, _ = run("--expression", "cron(30 2 * * ? *)", *PARIS, "--count", "2")

    assert status == 0
    assert out.splitlines() == [
        "Sat 2026-03-28 02:30 CET = 2026-03-28T01:30:00Z",
        "Mon 2026-03-30 02:30 CEST = 2026-03-30T00:30:00Z",
    ]


def test_five_unless_asked_otherwise_and_strictly_after(run):
    _, out, _ = run("--crontab", "* * * * *", "--from", "2026-03-28T00:00:00Z", "--json")

    assert json.loads(out) == [f"2026-03-28T00:0{minute}:00Z" for minute in range(1, 6)]


def test_a_rate_counts_from_its_start(run):
    words = ("--expression", "rate(90 minutes)", "--from", "2026-03-28T00:00:00Z", "--count", "2")

    assert json.loads(run(*words, "--json")[1]) == ["2026-03-28T01:30:00Z", "2026-03-28T03:00:00Z"]
    started = run(*words, "--start", "2026-03-27T23:30:00Z", "--json")[1]
    assert json.loads(started) == ["2026-03-28T01:00:00Z", "2026-03-28T02:30:00Z"]


def test_what_never_fires_again_is_an_empty_array(run):
    words = ("--expression", "at(2020-01-01T00:00:00)")

    assert run(*words, "--json") == (0, "[]\n", "")
    assert run(*words) == (0, "never again\n", "")
    assert run(*words, "--end", "2026-01-01T00:00:00Z", "--json")[1] == "[]\n"


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("every 5m", "2026-03-28T00:05:00Z"),
        ("every 30s", "2026-03-28T00:00:30Z"),
        ("every monday at noon", "2026-03-30T10:00:00Z"),
        ("0 0 L * * Asia/Tokyo", "2026-03-30T15:00:00Z"),
        ("*/10 * * * * *", "2026-03-28T00:00:10Z"),
        ("2026-06-01 09:00", "2026-06-01T07:00:00Z"),
    ],
)
def test_an_expression_may_have_any_form(run, text, due):
    assert json.loads(run("--expression", text, *PARIS, "--json")[1])[0] == due


def test_seconds_are_shown_where_there_are_some(run):
    _, out, _ = run("--expression", "every 30s", *PARIS, "--count", "1")

    assert out == "Sat 2026-03-28 01:00:30 CET = 2026-03-28T00:00:30Z\n"


def test_all_until_a_time(run):
    hourly = ("--crontab", "0 * * * *", "--from", "2026-03-28T00:00:00Z", "--json")

    until = (*hourly, "--until", "2026-03-28T07:00:00Z")
    assert json.loads(run(*until)[1]) == [f"2026-03-28T0{hour}:00:00Z" for hour in range(1, 8)]
    assert len(json.loads(run(*until, "--count", "3")[1])) == 3
    assert json.loads(run(*hourly, "--until", "2026-03-28T00:30:00Z")[1]) == []


def test_the_previous_runs_latest_first_and_strictly_before(run):
    words = ("--crontab", "0 3 * * *", "--timezone", "Europe/Paris", "--count", "3", "--json")

    status, out, _ = run(*words, "--from", "2026-03-30T01:00:00Z", verb="previous")

    assert status == 0
    hours = ("29T01", "28T02", "27T02")
    assert json.loads(out) == [f"2026-03-{hour}:00:00Z" for hour in hours]


def test_a_rate_has_previous_runs_from_its_start_on(run):
    words = ("--expression", "every 90m", "--from", "2026-03-28T03:00:00Z", "--json")

    started = run(*words, "--start", "2026-03-28T00:00:00Z", verb="previous")[1]
    assert json.loads(started) == ["2026-03-28T01:30:00Z", "2026-03-28T00:00:00Z"]
    status, _, err = run(*words, verb="previous")
    assert status == 2
    assert "a rate needs a StartDate" in err
    never = run("--expression", "at(2030-01-01T00:00:00)", *PARIS, verb="previous")
    assert never == (0, "never before\n", "")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--expression", "cron(61 * * * ? *)"), "minutes: '61' is out of range"),
        (("--expression", "every other day"), "is none of the forms that are understood"),
        (("--expression", "0 3 * *"), "has 4 fields"),
        (("--crontab", "0 0 L * *"), "day of month: 'L' cannot be read"),
        (("--crontab", "0 3 * * *", "--until", "x"), "--until: 'x' is no ISO 8601 time"),
        (("--crontab", "0 3 * *"), "has 4 fields"),
        (("--crontab", "0 3 * * *", "--timezone", "Paris"), "time zone 'Paris' is unknown"),
        (
            ("--crontab", "0 3 * * *", "--from", "tomorrow"),
            "--from: 'tomorrow' is no ISO 8601 time",
        ),
        (("--crontab", "0 3 * * *", "--from", "2026-01-01T00:00"), "has no time zone"),
    ],
)
def test_what_is_invalid_exits_with_2_and_the_reason(run, words, reason):
    status, out, err = run(*words, "--json")

    assert (status, out) == (2, "")
    assert reason in err


@pytest.mark.parametrize("count", ["0", "-1", "x", "1000001"])
def test_a_count_is_a_number(run, count):
    assert run("--crontab", "@daily", "--count", count)[0] == 2
