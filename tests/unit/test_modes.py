"""`kiqbridge.testing.inline`: jobs are performed where they are pushed; and what `fake` and `inline` leave behind."""

import asyncio
import threading

import pytest

from kiqbridge import Client, RedisUnavailable, job
from kiqbridge.testing import EndlessJobs, drain, fake, inline

pytestmark = pytest.mark.usefixtures("own_jobs")


@pytest.fixture
def note(seen):
    @job(name="Note")
    def note(text):
        seen.append(text)

    return note


class TestInline:
    def test_a_job_is_performed_before_its_push_returns(self, note, seen):
        with inline() as jobs:
            jid = note.perform_async({"a": [1]})
            assert seen == [{"a": [1]}]
            Client().push({"class": note, "args": [2]})
            note.perform_bulk([[3], [4]])

            assert seen[1:] == [2, 3, 4]
            assert jobs.assert_performed(note, count=4).job.jid == jid
            assert jobs.jobs == []

    def test_jobs_of_jobs_are_performed_within_them(self, note, seen):
        @job
        def outer():
            note.perform_async("inner")
            seen.append("outer")

        with inline():
            outer.perform_async()

        assert seen == ["inner", "outer"]

    def test_coroutines_may_enqueue_coroutines(self, seen):
        @job
        async def inner(text):
            await asyncio.sleep(0)
            seen.append(text)

        @job
        async def outer():
            inner.perform_async("inner")
            await asyncio.sleep(0)
            seen.append("outer")

        with inline():
            outer.perform_async()
            outer.perform_async()

        assert seen == ["inner", "outer"] * 2

    def test_its_error_is_raised_by_the_push_unless_that_is_not_wanted(self):
        @job
        def failing():
            raise ValueError("no")

        with inline() as jobs:
            with pytest.raises(ValueError, match="no"):
                failing.perform_async()
            assert len(jobs.retries) == 1
        with inline(raise_errors=False) as jobs:
            jobs.clock.freeze()
            assert failing.perform_async()
            jobs.clock.move(seconds=30)
            assert [each.retry_count for each in jobs.retries] == [1]

    def test_what_is_due_later_is_performed_when_its_time_has_come(self, note, seen):
        with inline() as jobs:
            note.perform_in(60, "later")
            assert seen == []
            jobs.clock.move(minutes=1)

        assert seen == ["later"]

    def test_a_job_that_enqueues_itself_is_stopped(self, monkeypatch):
        monkeypatch.setattr("kiqbridge.testing.fake_jobs.MOST_NESTED", 3)

        @job
        def again():
            again.perform_async()

        with inline(), pytest.raises(EndlessJobs, match="drain"):
            again.perform_async()

    def test_jobs_of_several_threads_are_no_nested_ones(self, monkeypatch, seen):
        monkeypatch.setattr("kiqbridge.testing.fake_jobs.MOST_NESTED", 1)
        both = threading.Barrier(2, timeout=60)

        @job
        def meet():
            both.wait()
            seen.append("met")

        with inline():
            thread = threading.Thread(target=meet.perform_async)
            thread.start()
            meet.perform_async()
            thread.join()

        assert seen == ["met", "met"]


class TestIsolation:
    def test_after_a_fake_a_server_is_asked_again(self, note):
        with fake():
            note.perform_async(1)
        with pytest.raises(RedisUnavailable):
            Client("redis://nowhere.invalid:1/0").push({"class": note, "args": [1]})

    def test_after_an_error_too(self, note):
        with pytest.raises(ZeroDivisionError), fake():
            raise ZeroDivisionError
        with pytest.raises(RedisUnavailable):
            Client("redis://nowhere.invalid:1/0").push({"class": note, "args": [1]})

    def test_drain_is_that_of_the_innermost_fake(self, note, seen):
        with fake():
            note.perform_async("outer")
            with fake():
                note.perform_async("inner")
                drain()
            assert seen == ["inner"]
            drain()
        assert seen == ["inner", "outer"]

    def test_the_clock_is_the_wall_clock_again(self, note):
        with fake() as jobs:
            jobs.clock.move(days=1000)
        with fake() as jobs:
            note.perform_in(60, 1)
            assert jobs.scheduled[0].at < jobs.clock.now() + 100
