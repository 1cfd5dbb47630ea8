"""Assertions about recorded jobs: what matches, and what a failure shows."""

import datetime as dt
import uuid
from unittest import mock

import pytest
from support.jobs import own_declarations

from kiqbridge import job
from kiqbridge.testing import fake


@pytest.fixture
def jobs():
    with own_declarations(), fake() as jobs:
        jobs.clock.freeze()
        yield jobs


@pytest.fixture
def send(jobs):
    @job(name="SendInvoice", queue="mailers")
    def send(invoice, copy=False, to=None):
        pass

    return send


class TestMatching:
    def test_by_class_name_arguments_and_queue(self, jobs, send):
        jid = send.perform_async(42, copy=True)

        assert jobs.assert_enqueued(send).jid == jid
        assert jobs.assert_enqueued("SendInvoice", args=(42, True), queue="mailers").jid == jid
        assert jobs.assert_enqueued(send, args=[42], kwargs={"copy": True}).jid == jid
        assert jobs.assert_enqueued(send, args=[mock.ANY, True]).jid == jid
        jobs.assert_not_enqueued(send, args=[42])
        jobs.assert_not_enqueued("Other")
        jobs.assert_enqueued_count(1, send, queue="mailers")

    def test_by_names_of_arguments_those_not_given_have_their_defaults(self, jobs, send):
        send.perform_async([1, 2.0])
        for kwargs in ({"copy": False}, {"invoice": [1, 2.0]}):
            jobs.assert_enqueued(send, kwargs=kwargs)
        for args in ([[1, 2.0]], (mock.ANY,)):  # as the job gets them
            jobs.assert_enqueued(send, args=args)
        jobs.assert_not_enqueued(send, kwargs={"copy": True})
        with pytest.raises(TypeError, match="no parameter 'copies'; it has invoice, copy, to"):
            jobs.assert_enqueued(send, kwargs={"copies": 1})
        with pytest.raises(TypeError, match="is no declared job: put @job on it"):
            jobs.assert_enqueued(len)

    def test_by_when_it_is_due(self, jobs, send):
        send.perform_in(dt.timedelta(minutes=5), 1)
        at = dt.datetime(2035, 5, 1, 12, tzinfo=dt.UTC)
        send.perform_at(at, 2)

        assert jobs.assert_enqueued(send, in_=300).args == [1]
        assert jobs.assert_enqueued(send, in_=dt.timedelta(minutes=5)).args == [1]
        assert jobs.assert_enqueued(send, at=at).args == [2]
        assert jobs.assert_enqueued(send, at=at.timestamp() + 50, tolerance_s=60).args == [2]
        assert jobs.enqueued(send, in_=60) == []


class TestFailures:
    def test_a_missing_job_shows_the_others_the_most_alike_first(self, jobs, send):
        other = job(name="Other")(lambda: None)
        other.perform_async()
        first = send.set(queue="low").perform_async(7)
        second = send.perform_async(41)

        with pytest.raises(AssertionError) as caught:
            jobs.assert_enqueued(send, args=[42], queue="mailers")

        lines = str(caught.value).splitlines()
        assert lines[:2] == [
            "SendInvoice with args [42] in queue mailers is not enqueued.",
            "Enqueued instead, the most alike first:",
        ]
        assert lines[2:6] == [
            f"  SendInvoice [41] in queue mailers (jid {second})",
            "    differs: args [41]",
            f"  SendInvoice [7] in queue low (jid {first})",
            "    differs: args [7], queue low",
        ]
        assert lines[7] == "    differs: class Other, args [], queue default"

    def test_times_are_shown_where_they_are_asked_for(self, jobs, send):
        send.perform_async(1)
        send.perform_in(60, 1)

        with pytest.raises(AssertionError, match="due in 30 s is not enqueued") as caught:
            jobs.assert_enqueued(send, in_=30)

        assert "differs: due in 60 s" in str(caught.value)
        assert "differs: due at once" in str(caught.value)

    def test_one_that_was_performed_already_is_named_as_such(self, jobs, send):
        send.perform_async(1)
        jobs.drain()

        with pytest.raises(
            AssertionError, match=r"It was performed already\.\nNothing is enqueued"
        ):
            jobs.assert_enqueued(send, args=[1])
        send.perform_async(2)
        with pytest.raises(AssertionError, match=r"It is enqueued: drain\(\) performs it"):
            jobs.assert_performed(send, args=[2])

    def test_a_wrong_number_shows_those_that_are_there(self, jobs, send):
        for number in range(12):
            send.perform_async(number)

        with pytest.raises(AssertionError) as caught:
            jobs.assert_enqueued(send, count=2)

        lines = str(caught.value).splitlines()
        assert lines[0] == "SendInvoice is enqueued 12 times, expected were 2:"
        assert len(lines) == 12
        assert lines[-1] == "  and 2 more"
        with pytest.raises(AssertionError, match="a job is enqueued 12 times, expected were 0"):
            jobs.assert_enqueued_count(0)
        jobs.assert_enqueued_count(12, "SendInvoice")

    def test_one_that_should_not_be_there_is_shown(self, jobs, send):
        jid = send.perform_async(str(uuid.UUID(int=1)))

        with pytest.raises(AssertionError, match=f"(?s)a job is enqueued:.*{jid}"):
            jobs.assert_not_enqueued()
