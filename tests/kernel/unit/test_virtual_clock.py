"""The clock of a fake: scheduled jobs, retries and schedules become due when it is moved."""

import datetime as dt
import time

import pytest

from kiqbridge import job
from kiqbridge import server as server_
from kiqbridge.middleware import Chain
from kiqbridge.testing import fake

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


class TestClock:
    def test_it_goes_with_the_wall_clock_until_it_is_frozen(self):
        with fake() as jobs:
            before = dt.datetime.now(dt.UTC).timestamp()
            assert jobs.clock.now() >= before
            assert not jobs.clock.is_frozen
            jobs.clock.move(days=1, hours=1, minutes=1, seconds=1)
            assert before + 90_061 <= jobs.clock.now() <= before + 90_061 + 600
            jobs.clock.freeze(at=MONDAY)
            assert jobs.clock.moment() == MONDAY
            jobs.clock.unfreeze()
            assert not jobs.clock.is_frozen
            assert MONDAY <= jobs.clock.moment() <= MONDAY + dt.timedelta(minutes=10)
            assert repr(jobs.clock).endswith("goes>")

    def test_it_does_not_go_back_unless_it_is_frozen_anew(self, jobs):
        with pytest.raises(ValueError, match="to: "):
            jobs.clock.travel(MONDAY.replace(tzinfo=None))
        with pytest.raises(ValueError, match="cannot go back by 60 s"):
            jobs.clock.move(-60)
        jobs.clock.freeze(at=MONDAY - dt.timedelta(days=1))
        assert jobs.clock.moment() < MONDAY

    def test_it_follows_a_library_that_changes_the_wall_clock(self, note, seen, monkeypatch):
        real = time.time
        with fake() as jobs:
            note.perform_in(60, "later")
            assert jobs.drain() == 0
            monkeypatch.setattr(time, "time", lambda: real() + 3600)

            assert jobs.drain() == 1
            note.perform_in(60, "much later")
            assert jobs.scheduled[0].at >= real() + 3600


class TestJobs:
    def test_what_is_due_goes_to_its_queue_at_its_time_in_order(self, jobs, note, seen):
        note.perform_in(dt.timedelta(minutes=3), "third")
        note.perform_in(60, "first")
        note.perform_at(MONDAY + dt.timedelta(minutes=2), "second")
        note.perform_in(3600, "later")

        jobs.clock.move(minutes=5)

        assert minutes(jobs.queues["default"]) == [1, 2, 3]
        jobs.drain()
        assert seen == ["first", "second", "third"]
        assert [each.args for each in jobs.scheduled] == [["later"]]
        jobs.clock.travel(MONDAY + dt.timedelta(hours=1))
        assert len(jobs.queues["default"]) == 1

    def test_what_a_job_schedules_counts_from_the_moved_clock(self, jobs, note):
        again = job(name="Again")(lambda: note.perform_in(60, "later"))
        jobs.clock.move(hours=1)
        again.perform_async()
        jobs.drain()
        [later] = jobs.scheduled
        assert later.at == MONDAY.timestamp() + 3660
        jobs.clock.freeze(at=MONDAY + dt.timedelta(hours=2))
        assert jobs.drain() == 1  # it moves what is due

    def test_client_middleware_of_the_worker_may_stop_what_is_moved(self, jobs, note, monkeypatch):
        stop = Chain(lambda _declared, _payload, _queue, _call_next: None)
        monkeypatch.setattr(server_, "client_middleware", stop)
        note.perform_in(60, "one")

        jobs.clock.move(hours=1)

        assert jobs.jobs == []
