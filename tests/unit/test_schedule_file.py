"""A YAML file of dynamic schedules: what is read, and how each fault names its line and key."""

from datetime import UTC, datetime

import pytest

from kiqbridge import ConfigError
from kiqbridge.clocks.schedule_file import read_schedule_file


def read(text):
    return {each.name: each for each in read_schedule_file(text, "schedules.yml")}


def test_names_become_definitions():
    found = read(
        """
nightly:
  cron: "0 3 * * *"
  timezone: Europe/Paris
  class: Reports::Nightly
  args: [1, {full: true}]
  queue: low
  retry: 3
  tags: [nightly]
  overlap: skip
  missed: all
  max_age_s: 600
  description: "the report"
pulse:
  every: 30s
  class: Pulse
"""
    )

    nightly, pulse = found["nightly"], found["pulse"]
    assert nightly.jobs == (
        {
            "retry": 3,
            "queue": "low",
            "class": "Reports::Nightly",
            "args": [1, {"full": True}],
            "tags": ["nightly"],
        },
    )
    assert (nightly.expression, nightly.timezone) == ("0 3 * * *", "Europe/Paris")
    assert (nightly.overlap, nightly.missed, nightly.max_age_s) == ("skip", "all", 600.0)
    assert (nightly.description, nightly.origin) == ("the report", "dynamic")
    assert (pulse.expression, pulse.jobs[0]["queue"]) == ("every 30s", "default")


def test_the_words_of_the_gems_are_known():
    found = read(
        """
old:
  cron: "0 3 * * *"
  klass: Old
  queue_name: low
  status: disabled
rails:
  cron: "0 3 * * *"
  class: RailsJob
  active_job: true
  args: [1]
"""
    )

    assert found["old"].jobs[0]["class"] == "Old"
    assert found["old"].jobs[0]["queue"] == "low"
    assert found["old"].enabled is False
    assert found["rails"].jobs == ({"active_job": "RailsJob", "args": [1]},)


def test_times_of_yaml_are_times():
    found = read(
        """
once: {at: 2027-01-31T09:00:00, timezone: Europe/Paris, class: A}
bounded: {every: 60, start: 2027-01-01T00:00:00Z, class: A}
"""
    )

    assert found["once"].expression == "at(2027-01-31T09:00:00)"
    assert found["once"].timezone == "Europe/Paris"
    assert found["bounded"].start == datetime(2027, 1, 1, tzinfo=UTC)


def test_a_file_without_schedules_has_none():
    assert read("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n  cron: '61 * * * *'\n  class: A", "schedules.yml:2: schedule 'a': .*61"),
        ("a:\n  class: A", "schedules.yml:1: schedule 'a': .*no expression given"),
        ("a:\n  class: A\n  every: 0", "schedules.yml:3: .*every: 0"),
        ("a:\n  every: 60\n  class: A\n  args: 5", "schedules.yml:4: .*args: 5 is not a list"),
        (
            "a:\n  every: 60\n  clas: A",
            "schedules.yml:3: .*clas: there is no such key; did you mean class",
        ),
        ("a:\n  every: 60\n  class: A\n  klass: A", "schedules.yml:4: .*class is given twice"),
        ("a:\n  every: 60", "class: None is not the name of a job class"),
        ("a b:\n  every: 60\n  class: A", "schedules.yml:1: schedule: 'a b' is not a name"),
        (
            "a:\n  every: 60\n  class: A\n  status: off",
            "schedules.yml:4: .*status: False is none of",
        ),
        (
            "a:\n  every: 60\n  class: A\n  kwargs: {b: 1}",
            "schedules.yml:4: .*kwargs: only an Active",
        ),
        ("a:\n  every: 60\n  class: A\n  args: [2027-01-01]", "schedules.yml:4: .*args"),
        (
            "a:\n  every: 60\n  class: A\n  args: [!!python/object:x y]",
            "schedules.yml:4: .*cannot be",
        ),
        ("a:\n  every: 60\n  active_job: B\n  class: A", "schedules.yml:.*class, active_job"),
        ("- a", "schedules.yml:1: the file must be a mapping"),
        ("a: 5", "schedules.yml:1: schedule 'a': a schedule must be a mapping"),
        ("a: [", "schedules.yml:1: this is not YAML"),
        ("a: {every: 60, class: A}\na: {every: 60, class: A}", "schedules.yml:2: "),
    ],
)
def test_a_fault_names_file_line_and_key(text, said):
    with pytest.raises(ConfigError, match=said):
        read(text)


def test_all_faults_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        read("a:\n  every: 0\n  class: A\nb:\n  every: 60\n  class: 5")

    assert str(caught.value).count("schedules.yml:") == 2
    assert str(caught.value).endswith("nothing was written; correct the file")
