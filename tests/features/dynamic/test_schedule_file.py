"""A YAML file of dynamic schedules: what is read, and how each fault names its line and key."""

from datetime import UTC, datetime

import pytest

from kiqbridge import ConfigError
from kiqbridge.features.dynamic.schedule_file import read_schedule_file


def read(text):
    return {each.name: each for each in read_schedule_file(text, "schedules.yml")}


def test_names_become_definitions():
    found = read("""
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
pulse: {every: 30s, class: Pulse}
old: {cron: "0 3 * * *", klass: Old, queue_name: low, status: disabled}
rails: {cron: "0 3 * * *", class: RailsJob, active_job: true, args: [1]}
once: {at: 2027-01-31T09:00:00, timezone: Europe/Paris, class: A}
bounded: {every: 60, start: 2027-01-01T00:00:00Z, class: A}
""")
    nightly, pulse, old, rails, once, bounded = found.values()
    options = {"retry": 3, "queue": "low", "tags": ["nightly"]}
    assert nightly.jobs == ({**options, "class": "Reports::Nightly", "args": [1, {"full": True}]},)
    assert (nightly.expression, nightly.timezone) == ("0 3 * * *", "Europe/Paris")
    assert (nightly.overlap, nightly.missed, nightly.max_age_s) == ("skip", "all", 600.0)
    assert (nightly.description, nightly.origin) == ("the report", "dynamic")
    assert (pulse.expression, pulse.jobs[0]["queue"]) == ("every 30s", "default")
    # The words of the gems are known, and times of YAML are times.
    assert (old.jobs[0]["class"], old.jobs[0]["queue"], old.enabled) == ("Old", "low", False)
    assert rails.jobs == ({"active_job": "RailsJob", "args": [1]},)
    assert (once.expression, once.timezone) == ("at(2027-01-31T09:00:00)", "Europe/Paris")
    assert bounded.start == datetime(2027, 1, 1, tzinfo=UTC)
    assert read("") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cron: '61 * * * *'\n  class: A", "2: schedule 'a': .*61"),
        ("class: A", "1: schedule 'a': .*no expression given"),
        ("class: A\n  every: 0", "3: .*every: 0"),
        ("every: 60\n  class: A\n  args: 5", "4: .*args: 5 is not a list"),
        ("every: 60\n  clas: A", "3: .*clas: there is no such key; did you mean class"),
        ("every: 60\n  class: A\n  klass: A", "4: .*class is given twice"),
        ("every: 60", ".*class: None is not the name of a job class"),
        ("every: 60\n  class: A\n  status: off", "4: .*status: False is none of"),
        ("every: 60\n  class: A\n  kwargs: {b: 1}", "4: .*kwargs: only an Active"),
        ("every: 60\n  class: A\n  args: [2027-01-01]", "4: .*args"),
        ("every: 60\n  class: A\n  args: [!!python/object:x y]", "4: .*cannot be"),
        ("every: 60\n  active_job: B\n  class: A", ".*class, active_job"),
    ],
)
def test_a_fault_names_file_line_and_key(text, said):
    with pytest.raises(ConfigError, match=f"schedules.yml:{said}"):
        read(f"a:\n  {text}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b:\n  every: 60\n  class: A", "1: schedule: 'a b' is not a name"),
        ("- a", "1: the file must be a mapping"),
        ("a: 5", "1: schedule 'a': a schedule must be a mapping"),
        ("a: [", "1: this is not YAML"),
        ("a: {every: 60, class: A}\na: {every: 60, class: A}", "2: "),
    ],
)
def test_what_is_no_file_of_schedules_is_refused(text, said):
    with pytest.raises(ConfigError, match=f"schedules.yml:{said}"):
        read(text)


def test_all_faults_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        read("a:\n  every: 0\n  class: A\nb:\n  every: 60\n  class: 5")

    assert str(caught.value).count("schedules.yml:") == 2
    assert str(caught.value).endswith("nothing was written; correct the file")
