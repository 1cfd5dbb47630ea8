"""The clock of a fake: schedules become due when it is moved."""

import datetime as dt

import pytest

from kiqbridge import Client, Schedule, Schedules, job
from kiqbridge.testing import EndlessJobs, fake

pytestmark = pytest.mark.usefixtures("own_jobs")

MONDAY = dt.datetime(2035, 1, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def jobs():
    with fake() as jobs:
        jobs.clock.freeze(at=MONDAY)
        yield jobs


@pytest.fixture
def note(seen):
    @job(name="Note")
    def note(text):
        seen.append(text)

    return note


def minutes(recorded):
    """When they were enqueued, after noon."""
    return [(each.payload["enqueued_at"] - MONDAY.timestamp()) / 60 for each in recorded]


def test_a_declared_schedule_fires_each_time_with_its_tick(jobs):
    @job(cron="*/15 * * * *", args=["quarter"])
    def report(text):
        pass

    jobs.clock.move(hours=1, schedules=True)

    found = jobs.enqueued(report)
    assert [each.tick["at"] - int(MONDAY.timestamp()) for each in found] == [
        *(900, 1800, 2700, 3600)
    ]
    assert minutes(found) == [15, 30, 45, 60]
    assert found[0].args == ["quarter"]
    assert jobs.drain() == 4


def test_a_saved_schedule_fires_unless_it_is_paused_or_deleted(jobs, note):
    schedules, counts = Schedules(), []
    schedules.save(Schedule("hourly", note, args=["hourly"], cron="0 * * * *"))
    for change in (
        lambda: None,
        lambda: schedules.pause("hourly", reason="test"),
        lambda: schedules.resume("hourly"),
        lambda: schedules.delete("hourly"),
    ):
        change()
        jobs.clock.move(hours=1, schedules=True)
        counts.append(len(jobs.enqueued(note)))
    assert counts == [1, 1, 2, 2]


def test_schedules_of_another_namespace_fire_there(jobs, note):
    client = Client(namespace="mine")
    Schedules(client).save(Schedule("hourly", note, args=["hourly"], cron="0 * * * *"))

    jobs.clock.move(hours=1, schedules=True)

    assert [keys.prefix for keys, *_ in jobs.memory.waiting()] == ["mine:"]


def test_schedules_fire_only_when_they_are_asked_for_and_not_too_many(jobs, monkeypatch):
    job(name="Each", cron="* * * * *")(lambda: None)
    jobs.clock.move(hours=1)
    assert jobs.jobs == []
    monkeypatch.setattr("kiqbridge.testing.passing_time.MOST_TICKS", 100)
    with pytest.raises(EndlessJobs, match=r"clock\.freeze"):
        jobs.clock.move(hours=2, schedules=True)


def test_jitter_puts_each_job_off(jobs):
    @job(cron="0 * * * *", jitter_s=600)
    def report():
        pass

    jobs.clock.move(hours=1, schedules=True)
    jobs.clock.move(minutes=20, schedules=True)
    assert jobs.drain() == 1


def test_a_job_that_is_begun_too_late_is_not_performed(jobs, seen):
    @job(cron="0 * * * *", max_age_s=600)
    def report():
        seen.append("report")

    jobs.clock.move(minutes=75, schedules=True)
    jobs.drain()
    jobs.clock.move(minutes=50, schedules=True)
    jobs.drain()

    assert seen == ["report"]
    assert [each.outcome for each in jobs.performed] == ["expired", "done"]
