"""Whether threads get on: what counts as stuck, and what becomes of a process that is."""

import errno
import logging
import sys
import threading
import time
import uuid
from contextlib import ExitStack

import pytest
from support.waiting import wait_until

from kiqbridge.engine.inflight.chunk import NO_LEASE, Chunk
from kiqbridge.engine.liveness import (
    EX_STUCK,
    LONG_ROUND_S,
    BackgroundThread,
    Bounds,
    Monitor,
    Traces,
)
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.runtime.threads import beat, keep_running, kept, rest

STUCK_S = 30.0


@pytest.fixture
def run():
    """Runs a function as a thread of the engine; (its entry among the kept, a function that ends it)."""
    with ExitStack() as stack:

        def start(loop, *, release=lambda: None, performs_jobs=True):
            name = f"test-{uuid.uuid4()}"

            def begin():
                beat()
                loop()

            thread = threading.Thread(
                target=lambda: keep_running(
                    name, begin, is_ending=lambda: True, performs_jobs=performs_jobs
                ),
                daemon=True,
            )
            thread.start()
            stack.callback(thread.join, 10)
            stack.callback(release)
            wait_until(lambda: [each for each in kept() if each.name == name])
            [state] = [each for each in kept() if each.name == name]
            return state

        yield start


def wait_until_it_waits(state, function_name):
    def waits():
        frame = sys._current_frames().get(state.ident)
        while frame is not None and frame.f_code.co_name != function_name:
            frame = frame.f_back
        return frame is not None

    wait_until(waits, what=f"the thread in {function_name}")
    time.sleep(0.05)  # from the function's first line to its wait; looks later see the same place


def looks(state, *at, traces=None):
    """What is found by looks at these times, seconds from now."""
    traces = traces or Traces()
    now = time.monotonic()
    return [traces.look([state], sys._current_frames(), now + each, STUCK_S) for each in at]


def every_three_seconds(until):
    return range(3, until + 1, 3)


@pytest.fixture
def locked():
    return Locked()


@pytest.fixture
def stuck(run, locked):
    """A thread that waits in our code for a lock."""
    state = run(locked.chunk.hold, release=locked.lock.release)
    wait_until_it_waits(state, "hold")
    return state


class Locked:
    """Code of ours that waits for a lock which somebody else holds."""

    def __init__(self):
        self.chunk = Chunk(lease=NO_LEASE, queue="", home="", list_key="", jobs=())
        self.lock = self.chunk._lock
        self.lock.acquire()


def test_a_thread_that_waits_in_our_code_for_a_lock_is_stuck(stuck):
    *before, last = looks(stuck, *every_three_seconds(36))
    assert before[:-2] == [[]] * (len(before) - 2)
    [found] = last
    assert (found.name, round(found.for_s, 6)) == (stuck.name, 33)
    assert "Chunk.hold (chunk.py:" in found.where
    # The time that the process was frozen does not count.
    assert not any(looks(stuck, 3, 6, 3600, 7200))


@pytest.mark.parametrize("performs_jobs", [True, False])
def test_a_job_that_hangs_is_not_stuck_but_a_thread_that_runs_none(run, performs_jobs):
    never = threading.Event()
    state = run(lambda: never.wait(60), release=never.set, performs_jobs=performs_jobs)
    wait_until_it_waits(state, "wait")
    assert any(looks(state, *every_three_seconds(600))) is not performs_jobs


def test_a_job_that_hangs_in_a_call_of_ours_is_stuck(run, locked):
    state = run(lambda: locked.chunk.hold(), release=locked.lock.release)  # noqa: PLW0108
    wait_until_it_waits(state, "hold")
    assert looks(state, *every_three_seconds(36))[-1]


def test_a_thread_that_waits_for_work_is_not_stuck(run):
    gate = IdleGate()
    state = run(gate.wait_for_work, release=gate.open)
    wait_until(lambda: gate.idle)
    wait_until_it_waits(state, "_wait_for")

    assert not any(looks(state, *every_three_seconds(600)))


def test_a_thread_that_rests_is_not_stuck(run):
    never = threading.Event()

    def loop():
        rest()
        never.wait(60)

    state = run(loop, release=never.set, performs_jobs=False)
    wait_until_it_waits(state, "wait")
    wait_until(lambda: state.is_resting)

    assert not any(looks(state, *every_three_seconds(600)))


def test_a_thread_that_notes_no_beats_is_not_watched():
    never = threading.Event()
    threading.Thread(
        target=lambda: keep_running("silent", lambda: never.wait(60), is_ending=lambda: True),
        daemon=True,
    ).start()
    [state] = wait_until(lambda: [each for each in kept() if each.name == "silent"])
    wait_until_it_waits(state, "wait")

    assert not any(looks(state, *every_three_seconds(600)))
    never.set()


def test_a_loop_that_tries_again_is_not_stuck(run, locked):
    ending = threading.Event()

    def loop():
        while not ending.is_set():
            beat()
            locked.lock.acquire(timeout=0.001)

    state = run(loop, release=ending.set, performs_jobs=False)
    traces = Traces()
    now = time.monotonic()
    found = []
    for step in every_three_seconds(600):
        before = state.beat_at
        wait_until(lambda before=before: state.beat_at != before)
        found += traces.look([state], sys._current_frames(), now + step, STUCK_S)

    assert found == []


def test_a_round_that_goes_on_for_longer_than_any_outage_is_stuck(run):
    ending = threading.Event()
    waits = []

    def loop():
        while not ending.wait(0.001):
            waits.append(1)

    state = run(loop, release=ending.set, performs_jobs=False)
    wait_until(lambda: waits)
    traces, now, found = Traces(), time.monotonic(), []
    for step in every_three_seconds(int(LONG_ROUND_S + STUCK_S) + 6):
        count = len(waits)
        wait_until(lambda count=count: len(waits) > count + 1)  # it is at another place by now
        found.append(traces.look([state], sys._current_frames(), now + step, STUCK_S))

    assert found[-1]
    assert not any(found[: int(LONG_ROUND_S) // 3])


class TestMonitor:
    @pytest.fixture
    def monitor(self):
        self.signals, self.ends, self.ended, self.revives = [], [], [], []
        self.is_curable = True

        def make(**bounds):
            monitor = Monitor(
                Bounds(**{"stuck_s": 1, "end_s": 600, "stop_s": 600, **bounds}),
                is_watching=lambda: True,
                ended=self.ended.copy,
                revive=self.revive,
                on_wedged=lambda: self.signals.append("TERM"),
                end=self.ends.append,
            )
            monitor.start()
            return monitor

        return make

    def revive(self, name):
        self.revives.append(name)
        if self.is_curable:
            self.ended.remove(name)
        return self.is_curable

    def test_a_stuck_thread_is_logged_once_with_all_stacks(self, locked, stuck, monitor, caplog):
        monitor = monitor()

        def look():
            monitor.look()
            return [each for each in monitor.stuck if each.ident == stuck.ident]

        wait_until(look)
        for _ in range(5):
            monitor.look()
        said = f"thread {stuck.name} has been stuck"
        wait_until(lambda: said in caplog.text)
        locked.lock.release()
        wait_until(lambda: not look())
        locked.lock.acquire()
        wait_until(lambda: f"thread {stuck.name} continues" in caplog.text)
        [told] = [each for each in caplog.messages if said in each]
        assert "outside of a job, at Chunk.hold" in told
        assert "in hold" in told
        assert f"{threading.main_thread().ident} MainThread" in told
        assert not monitor.is_wedged

    def test_a_status_that_cannot_be_written_is_logged_once_by_its_kind(self, monitor, caplog):
        monitor = monitor()

        def fail(number):
            monitor.status_failed(
                FileNotFoundError(errno.ENOENT, "none", f"/tmp/.worker-{number:x}")
            )

        for number in range(3):
            fail(number)
        monitor.status_failed(ValueError("the end"))

        wait_until(lambda: "the end" in caplog.text)
        assert caplog.text.count("the status file is not written") == 2

    @pytest.mark.usefixtures("stuck")
    def test_a_thread_that_stays_stuck_ends_the_process(self, monitor, caplog):
        monitor = monitor(end_s=2, stop_s=0.5)
        wait_until(lambda: monitor.look() or self.ends)
        assert self.signals == ["TERM"]
        assert set(self.ends) == {EX_STUCK}
        wait_until(lambda: "status 70, since a thread has been stuck" in caplog.text)

    @pytest.mark.usefixtures("stuck")
    def test_who_logs_may_be_stuck_as_well(self, monitor, monkeypatch):
        released = threading.Event()
        handler = logging.Handler()
        handler.emit = lambda _record: released.wait(60)
        logger = logging.getLogger("kiqbridge.engine.liveness")
        monkeypatch.setattr(logger, "handlers", [handler])
        try:
            monitor = monitor(end_s=2)
            assert wait_until(lambda: monitor.look() or self.signals) == ["TERM"]
        finally:
            released.set()

    def test_a_thread_that_has_ended_is_started_anew(self, monitor, caplog):
        monitor = monitor()
        self.ended.append("poller")

        monitor.look()
        wait_until(lambda: monitor.revived == 1)
        monitor.look()

        assert self.revives == ["poller"]
        assert "thread poller has ended though it should run" in caplog.text
        assert not monitor.is_wedged

    def test_one_that_cannot_be_started_anew_ends_the_process(self, monitor):
        monitor = monitor()
        self.is_curable = False
        self.ended.append("loop default")

        monitor.look()
        wait_until(lambda: self.signals)
        monitor.look()

        assert monitor.is_wedged
        assert self.signals == ["TERM"]
        assert self.revives == ["loop default"]


def test_an_error_that_a_job_raises_in_all_threads_ends_none_that_repairs():
    thread, done, gets = BackgroundThread("t"), threading.Event(), []
    take = thread._queue.get

    class Queue:
        put = thread._queue.put

        def get(self):
            gets.append(1)
            if len(gets) == 1:
                raise SystemExit
            return take()

    thread._queue = Queue()
    thread.start()
    thread.do(done.set)

    assert done.wait(30)
