"""The run lock: short jobs one after another, and nobody waits for one that is stuck."""

import math
import threading
import time
from types import SimpleNamespace

import pytest
from support.waiting import wait_until

from kiqbridge.engine.perform import run_lock
from kiqbridge.engine.perform.run_lock import RunLock
from kiqbridge.runtime.clock import lease_now

pytestmark = pytest.mark.skipif(
    not hasattr(time, "pthread_getcpuclockid"), reason="there is no run lock on this system"
)


@pytest.fixture
def lock():
    return RunLock()


@pytest.fixture
def is_busy(monkeypatch):
    """Whether threads that perform use the processor, as the lock sees it."""
    seen = SimpleNamespace(now=True)
    monkeypatch.setattr(run_lock, "_used_s", lambda _runner: lease_now() if seen.now else 0.0)
    return seen


def performing(began_at=math.inf):
    """A thread whose job began then; at inf: which is between two jobs."""
    return SimpleNamespace(began_at=began_at)


def other(lock, queue="default"):
    """Another thread that takes the lock; what it was given, once it has it."""
    given = []
    thread = threading.Thread(
        target=lambda: given.append(lock.take(performing(), queue)), daemon=True
    )
    thread.start()
    return SimpleNamespace(
        given=given, wait=lambda: wait_until(lambda: given, what="the other thread")
    )


def test_chunks_of_short_jobs_are_performed_one_after_another(lock, is_busy):
    running, overlaps, done = 0, 0, 0

    def perform():
        nonlocal running, overlaps, done
        for _ in range(100):
            held = lock.take(performing(), "default")
            running += 1
            overlaps += running > 1
            time.sleep(0.00001)  # lets another thread run
            running -= 1
            done += 1
            held.release()

    threads = [threading.Thread(target=perform) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (overlaps, done) == (0, 500)


def test_jobs_that_wait_are_passed_by_and_do_without_the_lock_for_a_while(
    lock, is_busy, monkeypatch
):
    held = lock.take(performing(), "slow")
    is_busy.now = False

    second = other(lock, "quick")
    second.wait()

    assert second.given[0] not in (None, held)
    assert lock.take(performing(), "slow") is None
    is_busy.now = True
    second.given[0].release()
    held.release()  # late: it frees nobody else's
    third = lock.take(performing(), "quick")
    assert third is second.given[0]
    monkeypatch.setattr(run_lock, "lease_now", lambda: lease_now() + run_lock.WAITS_S)
    third.release()
    assert lock.take(performing(), "slow") is third


def test_those_that_wait_for_the_lock_go_on_when_their_queue_does_without(lock, is_busy):
    lock.take(performing(), "slow")
    is_busy.now = False

    others = [other(lock, "slow") for _ in range(4)]
    for each in others:
        each.wait()

    assert sorted(each.given[0] is None for each in others)[-3:] == [True] * 3


def test_a_long_job_that_computes_is_passed_by_but_its_queue_keeps_the_lock(lock, is_busy):
    held = lock.take(performing(began_at=lease_now()), "default")

    second = other(lock)
    second.wait()

    assert second.given[0] not in (None, held)
    second.given[0].release()
    assert lock.take(performing(), "default") is second.given[0]


def test_a_thread_that_ended_with_the_lock_is_passed_by(lock):
    first = other(lock)
    first.wait()

    second = other(lock)
    second.wait()

    assert second.given[0] is not first.given[0]
