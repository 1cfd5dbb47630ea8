"""Child processes that run jobs declared with `pool="process"`, one job at a time each.

The thread that claimed a job hands it to a child and waits: the job stays in its in-flight list, and
what becomes of it is decided and written here. Children are started when they are needed, by
`subprocess` (a fork of a process with threads would copy locks that nobody releases), each is replaced
on its own when it dies, and those that were idle for a while are ended. None outlives this process:
the kernel kills them with it, and they hear their socket close.

This is the pool for work that keeps the interpreter lock, and the only one that enforces `timeout_s`
against code that does not cooperate: by SIGKILL.
"""

import contextlib
import logging
import os
import queue
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kiqbridge import frames
from kiqbridge.child_messages import Channel, ChildSettings, Failure, failure_of
from kiqbridge.errors import JobInterrupted, JobTimeout, ProcessDied, Shutdown
from kiqbridge.process_state import Start, look_at_start
from kiqbridge.registry import Handling
from kiqbridge.rooms import Room
from kiqbridge.threads import keep_running

logger = logging.getLogger(__name__)

IDLE_S = 60.0
"""After so long without a job a child is ended."""

START_S = 60.0
"""How long loading the code and opening the resources may take in a child."""

END_S = 3.0
"""How long a child that is let go may close what it has open."""

TICK_S = 0.5
"""How often a wait looks whether the child still runs, should its end not be heard: something that
it started may hold its socket open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A job for a child.

    Attributes:
        text: as fetched.
        queue: where it was fetched from.
        tid: the thread's, for log lines.
        capsule: whose middleware goes around it.
        max_retries, profile: what the rules of its class may depend on (§8).
        timeout_s: seconds that it may run, or None.
    """

    text: bytes
    queue: str
    tid: str
    capsule: str
    max_retries: int
    profile: str
    timeout_s: float | None = None

    def to_message(self) -> dict[str, Any]:
        """As it goes over the socket, beside the text."""
        return {
            "queue": self.queue,
            "tid": self.tid,
            "capsule": self.capsule,
            "max_retries": self.max_retries,
            "profile": self.profile,
        }


def rules_after(error: BaseException, given: Handling) -> Handling:
    """The rules of a class by which an error is judged here.

    For a stand-in those are the answers that the child has from them; they are not asked twice.
    """
    if isinstance(error, ProcessDied) and error.is_verdict:
        return Handling(on_error={ProcessDied: "kill"}, retries_exhausted=given.retries_exhausted)
    failure = failure_of(error)
    if failure is None:
        return given
    return replace(
        given,
        on_error={} if failure.rule is None else {type(error): failure.rule},
        retry_in=lambda *_asked: failure.retry_in,
        retries_exhausted=lambda *_asked: "discard" if failure.is_given_up else None,
    )


class TimeLimitReached(Exception):  # noqa: N818 - says what happened; `Isolation` settles it
    """A suspect ran for longer than its time limit.

    Attributes:
        timeout_s: the limit.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"took longer than {timeout_s:g} s")
        self.timeout_s = timeout_s


class Child:
    """One child process. Used by one thread at a time, but for `kill` and `tell`."""

    def __init__(self, settings: ChildSettings, start: Start | None = None) -> None:
        start = start or look_at_start()
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    start.interpreter,
                    "-m",
                    "kiqbridge.job_child",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=start.folder if start.folder and Path(start.folder).is_dir() else None,
                umask=-1 if start.umask is None else start.umask,
                env=start.environment,
            )
        self._channel = Channel(ours)
        self._sending = threading.Lock()
        self.jobs = 0
        self.idle_since = 0.0
        self._is_spent = False
        self._send({"settings": settings.to_message()})

    def __repr__(self) -> str:
        return f"<Child {self.pid}, {self.jobs} jobs>"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Whether it may be given a job."""
        return not self._is_spent and self.is_running

    def wait_ready(
        self, timeout_s: float = START_S, *, while_waiting: Callable[[], object] = lambda: None
    ) -> None:
        """Wait until it has loaded the jobs' code and opened its resources.

        Raises:
            ProcessDied: it could not, or did not in time; it is dead.
        """
        try:
            reply = self._wait(time.monotonic() + timeout_s, while_waiting)
            why = str(reply.get("failed", "")) if reply else f"it {self._end()}"
        except TimeoutError:
            why = f"it was not ready after {timeout_s:g} s"
        if why:
            self.kill()
            raise ProcessDied(f"the child process for the job did not start: {why}")

    def perform(self, order: Order, *, while_waiting: Callable[[], object] = lambda: None) -> None:
        """Run one job; returns when it has succeeded. `while_waiting` is called every half second.

        Raises:
            JobTimeout: it ran for too long; the child is dead.
            ProcessDied: the child is dead.
            JobInterrupted: an iterable job makes room.
            BaseException: what stands here for the error that the job raised, see `Failure`.
        """
        self.jobs += 1
        deadline = time.monotonic() + order.timeout_s if order.timeout_s else None
        try:
            self._send(order.to_message(), order.text)
            reply = self._wait(deadline, while_waiting)
        except TimeoutError:
            self.kill()
            raise JobTimeout(
                f"took longer than its timeout_s of {order.timeout_s:g} s; its child process was killed"
            ) from None
        if reply is None:
            raise ProcessDied(f"the child process {self.pid} that ran the job {self._end()}")
        if "interrupted" in reply:
            interruption = JobInterrupted()
            interruption.is_saved = True  # the child has looked
            raise interruption
        if "failure" in reply:
            raise Failure(**reply["failure"]).stand_in()

    def perform_alone(
        self, order: Mapping[str, Any], text: bytes, *, while_waiting: Callable[[], object]
    ) -> tuple[dict[str, Any], bytes]:
        """Let it parse, run and settle a suspect (trial.py): its answer, and the text that is kept.

        Raises:
            TimeLimitReached: it ran for longer than its `timeout_s`; the child is dead.
            ProcessDied: the child is dead.
        """
        self.jobs += 1
        self._send({"alone": order}, text)
        timeout_s: float | None = None
        deadline: float | None = None
        while True:
            try:
                received = self._wait_message(deadline, while_waiting)
            except TimeoutError:
                self.kill()
                raise TimeLimitReached(timeout_s or 0.0) from None
            if received is None:
                raise ProcessDied(f"the child process {self.pid} that ran the job {self._end()}")
            if "began" not in received[0]:
                return received
            timeout_s = received[0]["began"]
            deadline = time.monotonic() + timeout_s if timeout_s else None

    def tell_stopping(self) -> None:
        """Let the job know that it should come to an end soon (`interrupted()`)."""
        self._send({"stopping": True})

    def kill(self) -> None:
        """SIGKILL, from any thread."""
        self._is_spent = True
        with contextlib.suppress(OSError):
            self._process.kill()

    def let_go(self) -> None:
        """Hang up: an idle child closes its resources and ends."""
        self._is_spent = True
        self.idle_since = time.monotonic()
        self._channel.close()

    def wait_end(self, timeout_s: float) -> None:
        """Wait for its end, and kill it when it takes too long."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def _send(self, message: Mapping[str, Any], body: bytes = b"") -> None:
        # What cannot be sent is not told here: whoever waits for the answer learns why.
        with self._sending, contextlib.suppress(OSError):
            self._channel.send(message, body)

    def _wait(
        self, deadline: float | None, while_waiting: Callable[[], object] = lambda: None
    ) -> dict[str, Any] | None:
        """The next answer; None when there will be none. Raises as `_wait_message`."""
        received = self._wait_message(deadline, while_waiting)
        return received[0] if received else None

    @frames.may_take_long
    def _wait_message(
        self, deadline: float | None, while_waiting: Callable[[], object]
    ) -> tuple[dict[str, Any], bytes] | None:
        """The next answer and the bytes that came along; None when there will be none.

        Raises:
            TimeoutError: not before the deadline.
        """
        answers = select.poll()
        answers.register(self._channel.socket, select.POLLIN)
        is_running = True
        while True:
            left = TICK_S if deadline is None else min(TICK_S, deadline - time.monotonic())
            if answers.poll(max(left, 0) * 1000 if is_running else 0):
                return self._channel.receive()
            if not is_running:
                return None
            if left <= 0:
                raise TimeoutError
            while_waiting()
            is_running = self.is_running  # what it said before its end is still to be read

    def _end(self) -> str:
        """How it ended, as the rest of a sentence."""
        self._is_spent = True
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.wait_end(0)
            return "closed the socket to its worker and was killed"
        if code >= 0:
            return f"ended with exit code {code} in the midst of it"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
            return f"was ended by {name} (signal {-code}){hint}"
        return f"was ended by signal {-code}"


class ProcessPool:
    """At most `size` children for all threads of a worker.

    Args:
        settings: what they are started with.
        size: how many at once.
        max_jobs: after so many jobs a child is replaced; 0 = never.
        idle_s: seconds without a job after which one is ended.

    Attributes:
        room: places for jobs; who has entered it first finds a child at once, or starts one.
    """

    takes_all = False

    def __init__(
        self, settings: ChildSettings, *, size: int, max_jobs: int = 0, idle_s: float = IDLE_S
    ) -> None:
        self._settings = settings
        self._start = look_at_start()
        self._size = size
        self._max_jobs = max_jobs
        self._idle_s = idle_s
        self.room = Room(size)
        self._changed = threading.Condition()
        self._idle: list[Child] = []
        self._running: dict[object, Child | None] = {}
        self._count = 0
        self._interrupted: set[object] = set()
        self._taken: set[object] = set()
        self._is_stopping = False
        self._wanted: queue.SimpleQueue[Future[Child] | None] = queue.SimpleQueue()
        self._ending: list[Child] = []
        self._keeper: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<ProcessPool {self._count} of {self._size} children, {len(self._idle)} idle>"

    def perform(self, order: Order, owner: object) -> None:
        """Run a job in a child, waiting for one first.

        Args:
            order: the job.
            owner: who `interrupt` names it by; one job at a time each.

        Raises:
            Shutdown: interrupted; the job has been given back.
            JobTimeout, ProcessDied, JobInterrupted, BaseException: see `Child.perform`.
        """
        child: Child | None = None
        try:
            child = self._take(owner)
            child.perform(order)
        except ProcessDied:
            if owner in self._interrupted:
                raise Shutdown from None
            raise
        finally:
            self._put_back(owner, child)

    def note_start(self) -> None:
        """Start children from now on as this process is now, whatever jobs change about it later."""
        self._start = look_at_start()

    def quiet(self) -> None:
        """Let running jobs know that they should come to an end soon."""
        with self._changed:
            self._is_stopping = True
            running = [child for child in self._running.values() if child is not None]
        for child in running:
            child.tell_stopping()

    def interrupt(self, owner: object) -> None:
        """Kill the child that runs a job for `owner`; to be called after the job was given back."""
        with self._changed:
            self._interrupted.add(owner)
            child = self._running.get(owner)
            self._changed.notify_all()
        if child is not None:
            child.kill()

    def end_one(self, owner: object) -> None:
        """As `interrupt`, for a job that was taken away: `owner` may perform others after it."""
        with self._changed:
            if owner not in self._running:
                return
            self._taken.add(owner)
        self.interrupt(owner)

    def stop(self) -> None:
        """End all children; those that are in the midst of a job are killed."""
        with self._changed:
            idle, self._idle = self._idle, []
            running = [child for child in self._running.values() if child is not None]
            self._interrupted.update(self._running)
            self._changed.notify_all()
            ending = [*self._ending, *idle]
        for child in idle:
            child.let_go()
        for child in running:
            child.kill()
        until = time.monotonic() + END_S
        for child in (*ending, *running):
            child.wait_end(max(until - time.monotonic(), 0))

    @frames.may_take_long
    def _take(self, owner: object) -> Child:
        """A child that is ready, for this owner.

        Raises:
            Shutdown: interrupted meanwhile.
            ProcessDied: a new one could not start.
        """
        with self._changed:
            self._running[owner] = None
            while True:
                if owner in self._interrupted:
                    raise Shutdown
                while self._idle:
                    child = self._idle.pop()
                    if child.is_usable:
                        return self._lend(owner, child)
                    self._count -= 1
                if self._count < self._size:
                    self._count += 1
                    break
                self._changed.wait()
        try:
            child = self.start_child()
        except BaseException:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()
            raise
        with self._changed:
            # To be seen by `interrupt` from here on; before, there was nothing to kill.
            self._lend(owner, child)
            if owner in self._interrupted:
                child.kill()
        child.wait_ready()
        return child

    def _lend(self, owner: object, child: Child) -> Child:
        self._running[owner] = child
        if self._is_stopping:
            child.tell_stopping()
        return child

    def _put_back(self, owner: object, child: Child | None) -> None:
        with self._changed:
            child = self._running.pop(owner, None) or child
            if owner in self._taken:
                self._taken.discard(owner)
                self._interrupted.discard(owner)
            if child is None:
                return
            is_spent = bool(self._max_jobs) and child.jobs >= self._max_jobs
            if child.is_usable and not is_spent:
                child.idle_since = time.monotonic()
                self._idle.append(child)
            else:
                self._count -= 1
                self._ending.append(child)
                child.let_go()
            self._changed.notify_all()

    def start_child(self) -> Child:
        """A new child that is not among those of the pool; it may not be ready yet.

        Raises:
            OSError: the system has no room for it.
        """
        with self._changed:
            if self._keeper is None:
                self._keeper = threading.Thread(
                    target=self._keep, name="kiqbridge-children", daemon=True
                )
                self._keeper.start()
        started: Future[Child] = Future()
        self._wanted.put(started)
        return started.result()

    def _keep(self) -> None:
        """Start children and end idle ones.

        All are started by this thread, which ends with the process alone: the kernel kills a child
        when the thread that started it is gone.
        """
        keep_running("children", self._start_and_sweep, is_ending=lambda: False)

    def _start_and_sweep(self) -> None:
        while True:
            try:
                started = self._wanted.get(timeout=self._idle_s / 4)
            except queue.Empty:
                self._sweep()
                continue
            if started is None:
                return
            try:
                started.set_result(Child(self._settings, self._start))
            except BaseException as error:  # noqa: BLE001 - for the thread that waits for it
                started.set_exception(error)

    def _sweep(self) -> None:
        with self._changed:
            oldest = time.monotonic() - self._idle_s
            idle = [child for child in self._idle if child.idle_since < oldest]
            self._idle = [child for child in self._idle if child not in idle]
            self._count -= len(idle)
            self._ending = [child for child in self._ending if child.is_running]
            late = [child for child in self._ending if child.idle_since < time.monotonic() - END_S]
            self._ending += idle
        for child in late:
            child.kill()
        for child in idle:
            child.let_go()
