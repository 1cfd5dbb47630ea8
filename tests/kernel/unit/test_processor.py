"""What a processor does with the jobs of a chunk, and what it writes before the chunk is acknowledged."""

import threading
from collections import deque

import pytest
from support.jobs import own_declarations
from support.one_chunk import Stand
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.runtime.clock import lease_now


@pytest.fixture
def ran():
    """Which jobs ran: `Runs` succeeds, `Fails` fails."""
    ran = []
    with own_declarations():

        @job(name="Runs")
        def runs():
            ran.append("Runs")

        @job(name="Fails")
        def fails():
            ran.append("Fails")
            raise ValueError("no luck")

        yield ran


def run_to_its_end(stand):
    stand.processor.start()
    wait_until(stand.fetcher.acknowledged.is_set)
    stand.end()


def test_the_oldest_job_runs_first_and_nothing_is_written_of_those_that_succeed(ran):
    stand = Stand("Runs", "Runs")
    assert repr(stand.processor) == "<Processor t1 idle, 0 processed, 0 failed>"
    run_to_its_end(stand)

    assert (stand.processor.processed, stand.processor.failed) == (2, 0)
    assert stand.connection.calls == []
    assert list(stand.chunk.done) == stand.texts


def test_failures_are_written_together_before_the_chunk_is_acknowledged(ran):
    stand = Stand("Fails", "Runs", "Fails")

    run_to_its_end(stand)

    assert ran == ["Fails", "Runs", "Fails"]
    assert stand.connection.calls == [("settle", [stand.texts[0], stand.texts[2]])]
    assert (stand.processor.processed, stand.processor.failed) == (3, 2)


def test_nothing_is_acknowledged_while_a_failure_cannot_be_written(ran):
    stand = Stand("Fails", "Fails")
    stand.connection.down = True

    stand.processor.start()
    wait_until(lambda: len(stand.chunk.ended) == 2)
    assert not stand.fetcher.acknowledged.is_set()
    stand.connection.down = False
    wait_until(stand.fetcher.acknowledged.is_set)
    stand.end()

    assert stand.connection.calls == [("settle", stand.texts)]


def test_a_quiet_thread_gives_back_what_it_has_not_begun(ran):
    stand = Stand("Quiets", "Runs", "Runs")

    @job(name="Quiets")
    def quiets():
        stand.processor.quiet()

    stand.processor.start()
    stand.processor.join(30)

    assert not stand.processor.alive
    assert ran == []
    assert stand.connection.calls == [("give_back", [stand.texts[2], stand.texts[1]])]
    assert stand.fetcher.acknowledged.is_set()


def test_under_a_lost_lease_nothing_is_begun_given_back_or_written(ran):
    stand = Stand("Runs", "Runs")
    stand.lease.lost, stand.confirms = True, None

    stand.processor.start()
    wait_until(lambda: stand.processor.chunk is None and not stand.chunk.has_waiting)
    stand.end()

    assert ran == []
    assert stand.connection.calls == []


def test_a_lease_that_cannot_be_confirmed_at_the_end_leaves_its_jobs_in_flight(ran):
    stand = Stand("Runs", "Runs")
    stand.lease.valid_until, stand.confirms = 0.0, False

    stand.processor.start()
    stand.processor.join(30)

    assert not stand.processor.alive
    assert ran == []
    assert not stand.fetcher.acknowledged.is_set()
    assert len(stand.chunk.waiting) == 2


class Interrupted(deque):
    """The waiting jobs; at the first attempt to take one `instead` is called before."""

    def __init__(self, jobs, instead):
        super().__init__(jobs)
        self.instead = instead

    def __getitem__(self, index):
        if self.instead is not None:
            instead, self.instead = self.instead, None
            instead()
        return super().__getitem__(index)


def test_a_job_that_is_restored_while_the_lease_is_in_doubt_is_not_begun_unconfirmed(ran):
    stand = Stand("Runs")

    def restore():
        with stand.chunk.writing:
            stand.chunk.restore()

    with stand.chunk.writing:
        stand.chunk.revoke()
    stand.chunk._waiting = Interrupted((), restore)
    stand.lease.valid_until, stand.confirms = 0.0, None

    run_to_its_end(stand)

    assert ran == []
    assert stand.connection.calls == [("give_back", stand.texts)]


def test_a_job_that_is_restored_after_the_lease_has_run_out_is_not_begun_unconfirmed(ran):
    stand = Stand("Runs")

    def run_out():
        stand.lease.valid_until, stand.confirms = lease_now(), None
        raise IndexError  # as if it was revoked just before, and restored just after that

    stand.chunk._waiting = Interrupted(stand.texts, run_out)

    run_to_its_end(stand)

    assert ran == []
    assert not stand.chunk.has_waiting


def test_what_others_could_not_give_back_is_given_back_before_the_chunk_is_acknowledged(ran):
    stand = Stand("Waits", "Runs")
    begun, may_end = threading.Event(), threading.Event()

    @job(name="Waits")
    def waits():
        begun.set()
        may_end.wait(30)

    stand.processor.start()
    assert begun.wait(30)
    with stand.chunk.writing:
        stand.chunk.revoke()  # and Redis could not be reached
    may_end.set()
    wait_until(stand.fetcher.acknowledged.is_set)
    stand.end()

    assert ran == []
    assert stand.connection.calls == [("give_back", [stand.texts[1]])]
