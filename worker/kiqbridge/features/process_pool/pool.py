"""Child processes that run jobs declared with `pool="process"`, one job at a time each.

The thread that claimed a job hands it to a child and waits: the job stays in its in-flight list, and
what becomes of it is decided and written here. Children are started when they are needed, by
`subprocess` (a fork of a process with threads would copy locks that no thread releases), each is replaced
on its own when it dies, and those that were idle for a while are ended. None outlives this process:
the kernel kills them with it, and they hear their socket close.

This is the pool for work that keeps the interpreter lock, and the only one that enforces `timeout_s`
against code that does not cooperate: by SIGKILL.

A child that cannot start is no failure of the job: a release that is gone, no descriptor or process left. The job
goes back to its queue, no more jobs of its kind are claimed, and the worker is not ready, until a child has started; that
is tried again and again.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.host.process_state import look_at_start
from kiqbridge.engine.host.surroundings import process_count
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.execution import Execution, NotBegun, Performing
from kiqbridge.engine.perform.slots import Slots
from kiqbridge.engine.settle.error_report import was_not_made
from kiqbridge.engine.settle.output import JobOutput
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.errors import ProcessDied, Shutdown
from kiqbridge.features.process_pool.child import END_S, Child, stacks_of
from kiqbridge.features.process_pool.messages import ChildJob, ChildSettings
from kiqbridge.features.process_pool.starts import Starts
from kiqbridge.runtime import frames, threads
from kiqbridge.runtime.role import Role

if TYPE_CHECKING:
    from concurrent.futures import Future

IDLE_S = 60.0
"""After so long without a job a child is ended."""


def make(parts: EngineParts) -> "ProcessPool":
    """The pool of a worker; it starts no child before one is needed."""
    config, names = parts.config, [each.name for each in fields(ChildSettings)]
    return ProcessPool(
        ChildSettings(**{name: getattr(config, name) for name in names}),
        size=process_count(config.pool_size),
        max_jobs=config.pool_max_jobs,
    )


class ProcessPool:
    """At most `size` children for all threads of a worker.

    Args:
        settings: what they are started with.
        size: how many at once.
        max_jobs: after so many jobs a child is replaced; 0 = never.
        idle_s: seconds without a job after which one is ended.

    Attributes:
        slots: for jobs; who has entered it first finds a child at once, or starts one. Shut while none can start.
        starter: the thread that starts all children: the kernel kills a child when the thread that started it is gone.
    """

    def __init__(
        self, settings: ChildSettings, *, size: int, max_jobs: int = 0, idle_s: float = IDLE_S
    ) -> None:
        self._settings = settings
        self._start = look_at_start()
        self._size = size
        self._max_jobs = max_jobs
        self._idle_s = idle_s
        self.slots = Slots(size)
        self._changed = threading.Condition()
        self._idle: list[Child] = []
        self._running: dict[object, Child | None] = {}
        self._count = 0
        self._interrupted: set[object] = set()
        self._taken: set[object] = set()
        self._is_stopping = False
        # Asked for, the first one being started: it leaves when its future is done, so that none is lost when
        # the keeper is thrown out of its loop, as by a job that raises an error in all threads.
        self._wanted: deque[Future[Child]] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ending: list[Child] = []
        self._starts_no_more = False
        self.starter = Role("children", self._start_and_sweep, join_s=0)
        self._starts = Starts(self.slots, self.starter, lambda: self._bell.put(None))

    def __repr__(self) -> str:
        return f"<ProcessPool {self._count} of {self._size} children, {len(self._idle)} idle>"

    def perform(self, order: ChildJob, owner: object) -> JobOutput | object:
        """Run a job in a child, waiting for one first.

        Args:
            order: the job.
            owner: who `interrupt` names it by; one job at a time each.

        Returns:
            See `Child.perform`.

        Raises:
            Shutdown: interrupted; the job has been given back.
            NotBegun: no child could start, or begin the job.
            JobTimeout, ProcessDied, JobInterrupted, BaseException: see `Child.perform`.
        """
        child: Child | None = None
        try:
            child = self._take(owner)
            return child.perform(order)
        except NotBegun as error:
            if child is None:  # `start_child` has noted it
                raise
            raise self.not_begun(error) from error
        except ProcessDied:
            if owner in self._interrupted:
                raise Shutdown from None
            raise
        finally:
            self._put_back(owner, child)

    def perform_job(
        self,
        definition: JobDefinition,
        execution: Execution,
        thread: Performing,
        *,
        capsule: str,
        policy: Callable[[], RetryPolicy],
    ) -> None:
        """Run a job that a thread has claimed (`JobPool`); raises as `perform`."""
        rules = policy()
        order = ChildJob(
            text=execution.text,
            queue=execution.queue,
            tid=thread.tid,
            capsule=capsule,
            max_retries=rules.max_retries,
            profile=rules.profile,
            timeout_s=definition.handling.timeout_s,
        )
        try:
            execution.result = self.perform(order, thread)
        except BaseException as error:
            if was_not_made(error):
                execution.definition = None  # as in `Invoker`
            raise

    def note_start(self) -> None:
        """Start children from now on as this process is now, whatever jobs change about it later."""
        self._start = look_at_start()

    def quiet(self) -> None:
        """Let running jobs know that they should come to an end soon."""
        with self._changed:
            self._is_stopping = True
            running = [child for child in self._running.values() if child is not None]
        for child in running:
            child.send_stopping()

    def interrupt(self, owner: object) -> None:
        """Kill the child that runs a job for `owner`; to be called after the job was given back."""
        with self._changed:
            self._interrupted.add(owner)
            child = self._running.get(owner)
            self._changed.notify_all()
        if child is not None:
            child.kill()

    def stacks(self) -> Mapping[str, str]:
        """Where the jobs are, by the id of the thread that waits for each (`JobPool`)."""
        with self._changed:
            running = dict(self._running)
        return stacks_of(
            {str(getattr(o, "tid", o)): child for o, child in running.items() if child}
        )

    def end_one(self, owner: object) -> None:
        """Kill the child that runs a job which was taken away from `owner`; unlike `interrupt`, `owner` may perform others after it."""
        with self._changed:
            if owner not in self._running:
                return
            self._taken.add(owner)
        self.interrupt(owner)

    def stop(self) -> None:
        """End all children; those that run a job are killed."""
        with self._changed:
            self._starts_no_more = True
            self._starts.end()
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
            NotBegun: a new one could not start.
            ProcessDied: a new one was killed meanwhile.
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
        self.wait_ready(child, is_given_up=lambda: owner in self._interrupted)
        return child

    def _lend(self, owner: object, child: Child) -> Child:
        self._running[owner] = child
        if self._is_stopping:
            child.send_stopping()
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
        """A new child that is not among those of the pool; it is ready after `wait_ready`.

        Raises:
            NotBegun: the system has no room for it.
        """
        from concurrent.futures import Future  # noqa: PLC0415 - most workers start no child

        started: Future[Child] = Future()
        with self._changed:
            if self._starts_no_more:
                raise NotBegun("the worker ends")
            self._wanted.append(started)
        self._bell.put(None)
        try:
            return started.result()
        except Exception as error:
            raise NotBegun(self._starts.failed(error)) from error

    def wait_ready(
        self,
        child: Child,
        *,
        is_given_up: Callable[[], bool],
        while_waiting: Callable[[], object] = lambda: None,
    ) -> None:
        """Wait until a new child has loaded the jobs' code and opened its resources.

        Args:
            child: one of `start_child`.
            is_given_up: whether it was killed because it is not needed any more.
            while_waiting: called every half second.

        Raises:
            NotBegun: it could not; it is dead.
            ProcessDied: it was given up; it is dead.
        """
        try:
            child.wait_ready(while_waiting=while_waiting)
        except ProcessDied as died:
            if is_given_up():
                raise
            raise NotBegun(self._starts.failed(died)) from died
        self._starts.worked()

    def not_begun(self, error: NotBegun) -> NotBegun:
        """A child could not begin a job: take none until another child has started."""
        return NotBegun(self._starts.failed(error))

    def _start_and_sweep(self) -> None:
        """Start children that are asked for, try again while none can start, and end idle ones.

        It ends with the process alone, since children end with the thread that has started them.
        """
        while True:
            threads.beat()
            if not self._wanted:
                self._wait_and_sweep()
                continue
            started = self._wanted[0]
            if not started.done():
                try:
                    child = Child(self._settings, self._start)
                except Exception as error:  # noqa: BLE001 - for the thread that waits for it
                    started.set_exception(error)
                else:
                    started.set_result(child)
            self._wanted.popleft()

    def _wait_and_sweep(self) -> None:
        try:
            threads.rest()
            self._bell.get(timeout=self._starts.wait_s(self._idle_s / 4))
        except queue.Empty:
            threads.beat()
            if self._starts.is_due():
                self._try_again()
            self._sweep()

    def _try_again(self) -> None:
        """Start a child for no job, and keep it for the next one."""
        try:
            child = Child(self._settings, self._start)
            with self._changed:
                self._ending.append(child)  # so that `stop` ends it
                if self._starts_no_more:
                    child.kill()
            child.wait_ready(while_waiting=threads.beat)
        except Exception as error:  # noqa: BLE001 - it is tried again
            if not self._starts_no_more:
                self._starts.failed(error)
            return
        child.idle_since = time.monotonic()
        with self._changed:
            if self._count < self._size:
                self._count += 1
                self._ending.remove(child)
                self._idle.append(child)
            else:
                child.let_go()
        self._starts.worked()

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
