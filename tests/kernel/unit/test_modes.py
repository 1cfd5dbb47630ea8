"""`kiqbridge.testing`: `inline`, the mixin of unittest, flow control, and what they leave behind."""

import asyncio
import threading
import unittest

import pytest
from support.jobs import declare_work, outcomes

from kiqbridge import Client, RedisUnavailable, job
from kiqbridge.runtime.clock import use_clock
from kiqbridge.store.redis_pool import has_stand_in
from kiqbridge.testing import EndlessJobs, FakeJobsMixin, drain, fake, inline

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

    def test_jobs_of_jobs_and_coroutines_of_coroutines_are_performed_within_them(self, note, seen):
        @job
        def outer():
            note.perform_async("inner")
            seen.append("outer")

        @job
        async def inner(text):
            await asyncio.sleep(0)
            seen.append(text)

        @job
        async def around():
            inner.perform_async("inner")
            await asyncio.sleep(0)
            seen.append("outer")

        with inline():
            for each in (outer, around, around):
                each.perform_async()
        assert seen == ["inner", "outer"] * 3

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
    def test_after_a_fake_and_an_error_a_server_is_asked_and_the_clock_goes_again(self, note):
        def fail():
            with fake() as jobs:
                note.perform_async(1)
                jobs.clock.move(days=1000)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with pytest.raises(RedisUnavailable):
            Client("redis://nowhere.invalid:1/0").push({"class": note, "args": [1]})
        with fake() as jobs:
            note.perform_in(60, 1)
            assert jobs.scheduled[0].at < jobs.clock.now() + 100

    def test_drain_is_that_of_the_innermost_fake(self, note, seen):
        with fake():
            note.perform_async("outer")
            with fake():
                note.perform_async("inner")
                drain()
            assert seen == ["inner"]
            drain()
        assert seen == ["inner", "outer"]


def run(test_case):
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(test_case).run(result)
    return result


def test_each_test_has_jobs_of_its_own():
    note = job(name="Note")(lambda text: None)

    class Case(FakeJobsMixin, unittest.TestCase):
        def test_one(self):
            note.perform_async("one")
            self.assertEnqueued(note, args=["one"], queue="default", count=1)
            self.assertNotEnqueued(note, args=["two"])
            self.assertEnqueuedCount(1, note)
            self.jobs.drain()
            self.assertPerformed(note, args=["one"])
            self.assertNotEnqueued()

        def test_two(self):
            self.assertEnqueuedCount(0)
            note.perform_async("two")

        def test_fails(self):
            self.assertEnqueued(note)

    result = run(Case)

    assert result.errors == []
    [(case, text)] = result.failures
    assert case.id().endswith("test_fails")
    assert "Note is not enqueued." in text
    assert not has_stand_in()
    assert use_clock(None) is None


def test_a_set_up_that_fails_leaves_no_fake():
    class Failing:
        def setUp(self):
            raise OSError("no set-up")

    class Case(FakeJobsMixin, Failing, unittest.TestCase):
        def test_one(self):
            raise AssertionError("never reached")

    result = run(Case)

    assert len(result.errors) == 1
    assert not has_stand_in()


@pytest.fixture
def jobs():
    with fake() as jobs:
        jobs.clock.freeze(at=1_700_000_000)
        yield jobs


def test_a_job_that_is_too_old_is_not_performed(jobs, seen):
    work = declare_work(seen, expires_in=60)
    work.perform_async("a")
    jobs.clock.move(61)

    jobs.drain()

    assert seen == []
    assert outcomes(jobs) == ["expired"]
