"""Reading sidekiq-scheduler's schedules."""

import pytest

from kiqbridge.schedule.imports.gems import read_sidekiq_scheduler
from kiqbridge.schedule.imports.record import ImportKindError, Reading


def read(text):
    return read_sidekiq_scheduler(text, Reading(timezone="UTC"))


FILE = """\
:concurrency: 5
:scheduler:
  :enabled: true
  :schedule:
    nightly_report:
      cron: '0 0 3 * * *'
      class: Foo::BarJob
      queue: low
      args: ['*.pdf']
      description: At night
    HealthPulse:
      every: 5m
    cleaner:
      every: ['30m', {first_in: 120s}]
      class: Cleaner
      enabled: false
    once:
      at: '2031/01/31 10:00:00'
      class: Once
"""


def test_all_kinds_of_times():
    found = read(FILE)

    assert found.refused == []
    assert [(each.name, each.line, each.expression) for each in found.schedules] == [
        ("nightly_report", 5, "0 0 3 * * *"),
        ("HealthPulse", 11, "every 5m"),
        ("cleaner", 13, "every 30m"),
        ("once", 17, "2031-01-31 10:00:00"),
    ]
    assert found.schedules[0].job == {"class": "Foo::BarJob", "args": ["*.pdf"], "queue": "low"}
    assert found.schedules[0].source_expression == "0 3 * * *"
    assert found.schedules[1].job["class"] == "HealthPulse"
    assert not found.schedules[2].enabled
    assert "first_in is not carried over" in found.schedules[2].notes


@pytest.mark.parametrize("head", [":schedule:\n", "schedule:\n", "scheduler:\n  schedule:\n", ""])
def test_the_older_places_of_the_schedule(head):
    indent = " " * (2 * head.count("\n"))

    [found] = read(f"{head}{indent}a: {{cron: '@daily', class: A}}\n").schedules

    assert found.name == "a"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ("in: 5m, class: A", "each start"),
        ("every: 5 fortnights, class: A", "duration"),
        ("every: [], class: A", "empty"),
        ("every: 5m, cron: '@daily', class: A", "cron and every"),
        ("class: A", "no time"),
        ("at: soon, class: A", "expression"),
        ("cron: '0 3 * * *', class: A, include_metadata: true", "include_metadata"),
        ("cron: '0 3 * *', class: A", "fields"),
    ],
)
def test_what_cannot_be_said_is_refused(members, reason):
    found = read(f"ok: {{every: 1h, class: B}}\na: {{{members}}}\n")

    assert [each.name for each in found.schedules] == ["ok"]
    assert found.refused[0].line == 2
    assert reason in found.refused[0].reason


def test_an_interval_is_noted():
    [found] = read("a: {interval: 10m, class: A}").schedules

    assert found.expression == "every 10m"
    assert any("end of the last run" in note for note in found.notes)


def test_what_has_no_times_is_no_such_file():
    with pytest.raises(ImportKindError, match="none of cron"):
        read("production:\n  concurrency: 5\n")
