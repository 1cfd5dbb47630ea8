"""One child process as its worker sees it: started, given jobs, waited for, killed.

1. It is started by `subprocess`, with one end of a socket, and gets its settings over it.
2. `wait_ready`: it has loaded the jobs' code and opened its resources.
3. `perform`: an order and the job's text go over the socket, and the answer comes back (job_child.py has
   both). An error in it becomes a stand-in that is raised here.
4. `let_go`: its end of the socket is closed, it closes its resources and ends; or `kill`.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kiqbridge.client.current import Cancelled
from kiqbridge.engine.host.process_state import Start, look_at_start
from kiqbridge.engine.perform.execution import NotBegun
from kiqbridge.engine.settle.error_report import Failure
from kiqbridge.engine.settle.output import NOT_PERFORMED, JobOutput
from kiqbridge.errors import JobInterrupted, JobTimeout, ProcessDied
from kiqbridge.features.process_pool.messages import Channel, ChildJob, ChildSettings
from kiqbridge.runtime import frames

START_S = 60.0
"""How long loading the code and opening the resources may take in a child."""

END_S = 3.0
"""How long a child that is let go may close what it has open."""

TICK_S = 0.5
"""How often a wait looks whether the child still runs, should its end not be heard: something that
it started may hold its socket open."""


STACK_S = 2.0
"""How long children may take to say where their jobs are."""


class TimeLimitReached(Exception):  # noqa: N818 - says what happened; who has asked settles it
    """A job ran for longer than its time limit.

    Attributes:
        timeout_s: the limit.
    """

    def __init__(self, timeout_s: float) -> None:
        super().__init__(f"took longer than {timeout_s:g} s")
        self.timeout_s = timeout_s


class Child:
    """One child process. Used by one thread at a time, but for `kill`, `send_stopping` and its stack."""

    def __init__(self, settings: ChildSettings, start: Start | None = None) -> None:
        start = start or look_at_start()
        if start.folder and not Path(start.folder).is_dir():
            gone = "the folder in which this worker was started is gone"
            raise FileNotFoundError(errno.ENOENT, gone, start.folder)
        ours, theirs = socket.socketpair()
        with theirs:
            import subprocess  # noqa: PLC0415 - most workers start no child

            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    start.interpreter,
                    "-m",
                    "kiqbridge.features.process_pool.job_child",
                    str(theirs.fileno()),
                    str(os.getpid()),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=start.folder,
                umask=-1 if start.umask is None else start.umask,
                env=start.environment,
            )
        self._channel = Channel(ours)
        self._stack = ""
        self._has_stack = threading.Event()
        self._is_asked = False
        self.jobs = 0
        self.idle_since = 0.0
        self._is_spent = False
        self._owes_answer = True  # that it is ready
        self._send({"settings": settings.to_message()})

    def __repr__(self) -> str:
        return f"<Child {self.pid}, {self.jobs} jobs>"

    @property
    def pid(self) -> int:
        """Process id of the child."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def is_usable(self) -> bool:
        """Whether it may be given a job.

        Not as long as it owes an answer: the thread that waited for it may have been interrupted, and the next job would
        be acknowledged by it while it runs.
        """
        return not (self._is_spent or self._owes_answer) and self.is_running

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
            raise ProcessDied(f"a child process did not start: {why}")
        self._owes_answer = False

    def perform(
        self, order: ChildJob, *, while_waiting: Callable[[], object] = lambda: None
    ) -> JobOutput | object:
        """Run one job; returns when it has succeeded. `while_waiting` is called every half second.

        Returns:
            What it returned, if a state machine waits for that; `NOT_PERFORMED` if middleware skipped it,
            `CANCELLED` if it was cancelled.

        Raises:
            JobTimeout: it ran for too long; the child is dead.
            ProcessDied: the child is dead.
            JobInterrupted: an iterable job makes room.
            NotBegun: the child has no room for what the job needs, such as a thread.
            BaseException: what stands here for the error that the job raised, see `Failure`.
        """
        self.jobs += 1
        self._owes_answer = True
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
        self._owes_answer = False
        _check_begun(reply)
        if "interrupted" in reply:
            interruption = JobInterrupted()
            interruption.is_saved = True  # the child has looked
            raise interruption
        if "failure" in reply:
            raise Failure(**reply["failure"]).stand_in()
        if "cancelled" in reply:
            return Cancelled.CANCELLED
        output = reply.get("output")
        return JobOutput(**output) if output is not None else NOT_PERFORMED

    def ask(
        self,
        feature: str,
        order: Mapping[str, Any],
        text: bytes,
        *,
        while_waiting: Callable[[], object],
    ) -> tuple[dict[str, Any], bytes]:
        """Let what a feature names by `in_child` handle a job: its answer, and the text that comes along.

        Raises:
            TimeLimitReached: it ran for longer than its `timeout_s`; the child is dead.
            ProcessDied: the child is dead.
            NotBegun: as `perform`.
        """
        self.jobs += 1
        self._send({"feature": feature, "order": order}, text)
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
                _check_begun(received[0])
                return received
            timeout_s = received[0]["began"]
            deadline = time.monotonic() + timeout_s if timeout_s else None

    def send_stopping(self) -> None:
        """Let the job know that it should come to an end soon (`interrupted()`)."""
        self._send({"stopping": True})

    def ask_stack(self) -> None:
        """Ask where its threads are; who waits for the job hears the answer."""
        self._has_stack.clear()
        if not self._is_asked:  # else the socket of one that never answers would be full some day
            self._is_asked = True
            self._send({"stack": True})

    def stack(self, until: float) -> str:
        """Where its threads are, asked for by `ask_stack`, or why that is not known; `until` is on `time.monotonic`."""
        if self._has_stack.wait(max(until - time.monotonic(), 0)):
            return f"In the child process {self.pid}, where the job runs:\n{self._stack}"
        return (
            f"The job runs in the child process {self.pid}, which has not said within {STACK_S:g} s where it is: it is in "
            f"C code that keeps the interpreter lock, or is stopped. On its machine: py-spy dump --native --pid {self.pid}"
        )

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
        from subprocess import TimeoutExpired  # noqa: PLC0415 - most workers start no child

        try:
            self._process.wait(timeout_s)
        except TimeoutExpired:
            self.kill()
            self._process.wait()

    def _send(self, message: Mapping[str, Any], body: bytes = b"") -> None:
        # What cannot be sent is not reported here: the thread that waits for the answer gets the error.
        with contextlib.suppress(OSError):
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
                received = self._channel.receive()
                if received is None or "stack" not in received[0]:
                    return received
                self._stack, self._is_asked = str(received[0]["stack"]), False
                self._has_stack.set()
                continue
            if not is_running:
                return None
            if left <= 0:
                raise TimeoutError
            while_waiting()
            is_running = self.is_running  # what it said before its end is still to be read

    def _end(self) -> str:
        """How it ended, as the rest of a sentence."""
        from subprocess import TimeoutExpired  # noqa: PLC0415 - most workers start no child

        self._is_spent = True
        try:
            code = self._process.wait(END_S)
        except TimeoutExpired:
            self.wait_end(0)
            return "closed the socket to its worker and was killed"
        if code >= 0:
            return f"ended with exit code {code} while the job ran"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-code).name
            hint = ", as the system does when memory runs out" if name == "SIGKILL" else ""
            return f"was ended by {name} (signal {-code}){hint}"
        return f"was ended by signal {-code}"


def _check_begun(reply: Mapping[str, Any]) -> None:
    if "not_begun" in reply:
        raise NotBegun(f"a child process cannot begin a job: {reply['not_begun']}")


def stacks_of(children: Mapping[str, Child]) -> Mapping[str, str]:
    """Where the jobs of these children are, as texts, by the same names; within `STACK_S` in all."""
    for child in children.values():
        child.ask_stack()
    until = time.monotonic() + STACK_S
    return {name: child.stack(until) for name, child in children.items()}
