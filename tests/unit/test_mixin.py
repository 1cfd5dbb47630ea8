"""`FakeJobsMixin`: recorded jobs in a unittest."""

import unittest

import pytest

from kiqbridge import job
from kiqbridge.clock import use_clock
from kiqbridge.store.redis_pool import has_stand_in
from kiqbridge.testing import FakeJobsMixin

pytestmark = pytest.mark.usefixtures("own_jobs")


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
