"""Several worker processes under one parent: `kiqbridge worker --processes N`.

The parent loads settings and the jobs' code once, starts no thread, opens no connection, and forks;
what was loaded is shared, and each child is a process of its own to Redis and to Ruby's UI. When which
process is started, replaced or killed is decided in supervision.py; the handling is here:

1. Fork, and collect what has ended.
2. TERM, INT, TSTP and TTIN are passed on to all children. USR2 replaces all of them.
3. A child that holds too much memory is replaced.
4. While a child is neither dead nor stopped, the parent renews its lease besides the child itself: a
   C call that holds the interpreter lock for long is no death (reliability.md §3).
5. When the parent ends, for whatever reason, its children notice it and stop (forked.py).
"""

import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from kiqbridge.commands import forked
from kiqbridge.commands.supervision import Child, Fleet, Slot
from kiqbridge.config.config import Config
from kiqbridge.engine.host import ending
from kiqbridge.engine.host.signals import ENDING, HURRY, SignalInbox, ignore_others, report_ignored
from kiqbridge.engine.host.signals import NAMES as PASSED_ON
from kiqbridge.engine.host.surroundings import Notifier, process_count
from kiqbridge.engine.inflight.lease import LeaseTimes, renew
from kiqbridge.engine.stop import KILL_S, LAST_STEPS_S
from kiqbridge.errors import KiqbridgeError
from kiqbridge.runtime.steps import Steps
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

TICK_S = 0.5
MEMORY_EVERY_S = 2.0
ANSWER_WITHIN_S = 1.0
"""Time-out of the parent's own calls to Redis, so that an outage does not hold up its loop."""

OWN_END_S = 1.0
"""Beyond the time in which all children have ended: the parent itself is killed, should it not have ended."""

HUNG_AFTER_S = 600.0
"""A child that has reported nothing for so long is killed. It reports from a thread, so its interpreter
lock is held, and no other worker gets its jobs while the parent renews its lease."""

_BLOCKED = (*(signal.Signals[f"SIG{name}"] for name in PASSED_ON), signal.SIGUSR2, signal.SIGCHLD)

Work = Callable[[SignalInbox, forked.SupervisorLink], None]
"""What a child does until a signal ends it; a KiqbridgeError is reported to the parent."""


class Supervisor:
    """The parent; single-threaded, so that it can fork at any time.

    Args:
        config: the settings.
        work: what each process does.
        notifier: is notified when all processes have registered, about twice a second while the parent is well, and
            when the stop begins.
        set_title: gets the text that the list of processes (ps) shows for the parent.
    """

    def __init__(
        self, config: Config, work: Work, notifier: Notifier, set_title: Callable[[str], object]
    ) -> None:
        self._work = work
        self._notifier = notifier
        self._set_title = set_title
        self._pid = os.getpid()
        self._ceiling_mb = config.max_memory_mb
        self._timeout_s = config.timeout_s
        self._patience_s = config.timeout_s + LAST_STEPS_S
        self._keys = Keys(config.namespace)
        self._times = LeaseTimes(config.recover_after_s)
        self._connection = RedisPool(config.redis).connection(timeout_s=ANSWER_WITHIN_S)
        self._silent_until = 0.0  # the server does not answer, or refuses: `_silence`
        self._silence: KiqbridgeError | None = None
        self._fleet = Fleet(process_count(config.processes), self._patience_s)
        self._signalled: set[int] = set()  # pids of children that surely are not collected yet
        self._noted: deque[str] = deque()
        self._wakeup_out, self._wakeup_in = socket.socketpair()
        self._reports, self._reports_in = os.pipe()
        self._lifeline, self._lifeline_held = os.pipe()
        self._unread = b""
        self._next_beat = self._next_memory_look = 0.0
        self._was_ready = False

    def __repr__(self) -> str:
        return f"<Supervisor {self._fleet.ready} of {len(self._fleet.slots)} processes>"

    def run(self) -> int:
        """Keep the processes running until TERM or INT; returns 0 when all have ended.

        Raises:
            ConfigError: the loaded code alone exceeds the memory ceiling.
            KiqbridgeError: none of the processes could start.
        """
        forked.check_before_fork(self._ceiling_mb)
        for end in (self._wakeup_out, self._wakeup_in):
            end.setblocking(False)
        os.set_blocking(self._reports, False)
        os.set_blocking(self._reports_in, False)
        signal.set_wakeup_fd(self._wakeup_in.fileno(), warn_on_full_buffer=False)
        for number in _BLOCKED:
            signal.signal(number, self._on_signal)
        ignore_others()
        # What is loaded is never garbage: pages that the collector does not touch stay shared.
        gc.collect()
        gc.freeze()
        logger.info("supervisor: starting %d processes", len(self._fleet.slots))
        steps = Steps(logger)
        while self._fleet.children or not self._fleet.is_stopping:
            # Nothing ends the parent while it has children: each would end as when it has crashed.
            steps.take(
                # What came meanwhile: no process is started only to be stopped.
                ("acting on signals", self._act_on_signals),
                ("starting processes", self._start_what_is_due),
                ("showing the state", self._show),
                ("waiting", self._wait),
                ("acting on signals", self._act_on_signals),
                ("reading what processes report", self._read_reports),
                ("collecting processes that have ended", self._collect),
                ("replacing processes", self._hand_over),
                ("renewing leases", self._beat),
                ("looking at memory", self._look_at_memory),
                ("killing processes that do not end", self._kill_overdue),
                ("notifying of the state", lambda: self._notifier.turn(time.monotonic())),
            )
        if self._fleet.failure is not None:
            raise KiqbridgeError(self._fleet.failure)
        logger.info("bye")
        return 0

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name.removeprefix("SIG")
        self._noted.append(name)
        if name in ENDING:
            ending.kill_after(self._patience_s + OWN_END_S)
        # At once: the loop may be waiting for an answer of Redis.
        if name in PASSED_ON:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        for pid in tuple(self._signalled):
            _send(pid, number)

    def _start_what_is_due(self) -> None:
        now = time.monotonic()
        for slot in self._fleet.due_starts(now):
            self._fork(slot)
        slot_to_replace = self._fleet.due_replacement(now)
        if slot_to_replace is not None:
            child, why = self._fork(slot_to_replace), slot_to_replace.replace_for
            if child is not None:
                logger.info("%s is to replace %s: %s", child, slot_to_replace.child, why)

    def _fork(self, slot: Slot) -> Child | None:
        for stream in (sys.stdout, sys.stderr):  # or each child would write it once more
            stream.flush()
        # Until the child has handlers of its own, the parent's would pass signals on to its siblings.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _BLOCKED)
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of a fork beside threads; which are there has been looked at.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                self._be_child(mask)
            child = self._fleet.add(slot, pid, time.monotonic())
            self._signalled.add(pid)
        except OSError as error:
            pause = slot.put_off(time.monotonic(), 0)
            said = "process %d could not be forked: %s; trying again in %.1f s"
            logger.error(said, slot.number, error, pause)  # noqa: TRY400 - one line
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return child

    def _be_child(self, mask: Iterable[int]) -> NoReturn:
        """Work; never returns to what the parent was doing."""
        code = 1
        link = forked.SupervisorLink(
            supervisor=self._pid,
            reports=self._reports_in,
            lifeline=self._lifeline,
            has_reached_redis=self._fleet.any_registered,
        )
        try:
            forked.settle_in_child(self._pid)
            for handle in (self._reports, self._lifeline_held):
                os.close(handle)
            self._connection.close()
            inbox = SignalInbox(self._timeout_s + KILL_S, is_supervised=True)
            inbox.trap()
            self._wakeup_out.close()
            self._wakeup_in.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            link.watch(lambda: inbox.put("TERM"))
            self._work(inbox, link)
            code = 0
        except KiqbridgeError as error:
            link.failed(str(error))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            logger.exception("the process could not continue")
            link.failed(f"{type(error).__name__}: {error}")
        finally:
            # A thread that is stuck in C would hang the interpreter's own exit.
            ending.end_process(code)

    def _wait(self) -> None:
        now = time.monotonic()
        due_in_s = min(self._next_beat - now, self._fleet.seconds_to_next(now))
        timeout = min(TICK_S, max(due_in_s, 0.01))
        try:
            select.select([self._wakeup_out.fileno(), self._reports], [], [], timeout)
        except OSError:
            time.sleep(timeout)  # so that the rounds do not follow each other at once
            raise
        with suppress(BlockingIOError):
            self._wakeup_out.recv(4096)

    def _act_on_signals(self) -> None:
        report_ignored()
        while self._noted:
            name = self._noted.popleft()
            if name in ("TERM", "INT") and not self._fleet.is_stopping:
                self._stop()
                logger.info("%s: stopping all processes", name)
            elif name == "INT":
                self._pass_on(HURRY)
                logger.warning("INT: all processes interrupt their jobs now")
            elif name == "TSTP" and not self._fleet.is_quiet:
                self._fleet.is_quiet = True
                self._pass_on(signal.SIGTSTP)
                logger.info("quiet: no process takes new jobs, and none is started any more")
            elif name == "TTIN":
                for child in self._fleet.children.values():
                    logger.warning("%s, up for %.0f s", child, time.monotonic() - child.started_at)
            elif name == "USR2" and (self._fleet.is_quiet or self._fleet.is_stopping):
                logger.warning(
                    "USR2 is ignored: a supervisor that is quiet or stops starts no process"
                )
            elif name == "USR2":
                self._fleet.replace_all("USR2")
                logger.info("USR2: replacing all processes, one after another")

    def _stop(self) -> None:
        self._fleet.is_stopping = True
        # Again, for a child that was forked since the signal came; a second one changes nothing.
        for child in self._fleet.children.values():
            self._ask_to_end(child)
        self._notifier.stopping()

    def _ask_to_end(self, child: Child) -> None:
        _send(child.pid, signal.SIGTERM)
        self._fleet.ask_to_end(child, time.monotonic())

    def _read_reports(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._unread += os.read(self._reports, 65536)
        *lines, self._unread = self._unread.split(b"\n")
        for line in lines:
            self._fleet.hear(now=time.monotonic(), **json.loads(line))

    def _collect(self) -> None:
        """Collect what has ended; as process 1 of a container also the orphans of jobs."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            # Before its pid is free for another: no signal may go there any more.
            self._signalled.discard(ended.si_pid)
            self._read_reports()
            _, status = os.waitpid(ended.si_pid, 0)
            child = self._fleet.children.get(ended.si_pid)
            if child is None:
                continue
            end = self._fleet.end(child, status, time.monotonic())
            if self._fleet.failure is not None and not self._fleet.is_stopping:
                self._stop()
            logger.log(end.level, "%s", end.sentence)

    def _hand_over(self) -> None:
        for old, new in self._fleet.hand_over():
            self._ask_to_end(old)
            lived_s = time.monotonic() - old.started_at
            logger.info("%s is asked to end after %.0f s: %s is ready", old, lived_s, new)

    def _kill_overdue(self) -> None:
        for child in self._fleet.overdue(time.monotonic()):
            _send(child.pid, signal.SIGKILL)
            said = "%s did not end within %.0f s and is killed; other workers get what it held"
            logger.error(said, child, self._patience_s)

    def _beat(self) -> None:
        """Renew the leases of the children, which do so themselves as long as their threads run."""
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + self._times.beat_every
        for child in self._fleet.children.values():
            if not forked.can_run(child.pid):  # frozen, it must be found dead as any other
                child.heard_at = now
            elif child.incarnation is not None:
                silent_for = now - child.heard_at
                if silent_for > HUNG_AFTER_S:
                    logger.error(
                        "%s has reported nothing for %.0f s: a C call holds its interpreter lock; it is killed, and its "
                        "jobs go back to their queues",
                        child,
                        silent_for,
                    )
                    child.error = "it hung"
                    child.heard_at = time.monotonic()
                    _send(child.pid, signal.SIGKILL)
                self._renew(child, child.incarnation, silent_for)

    def _renew(self, child: Child, incarnation: str, silent_for: float) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silence = None
            try:
                renew(self._connection, self._keys, incarnation, self._times.silent_after_ms)
            except KiqbridgeError as error:
                self._silence = error
                self._silent_until = now + 0.5 * self._times.beat_every
        # One that reports renews its lease itself, and logs why it cannot.
        is_lost = self._silence is not None and silent_for > 2 * self._times.beat_every
        if is_lost and not child.is_unrenewed:
            logger.warning(
                "%s has reported nothing for %.0f s, and its lease cannot be renewed for it: %s; unless one of both "
                "passes, its jobs go to other workers",
                child,
                silent_for,
                self._silence,
            )
        child.is_unrenewed = is_lost

    def _look_at_memory(self) -> None:
        now = time.monotonic()
        if not self._ceiling_mb or now < self._next_memory_look:
            return
        self._next_memory_look = now + MEMORY_EVERY_S
        for slot, child in self._fleet.measured():
            used_mb = forked.resident_mb(child.pid)
            pause_s = self._fleet.replace_above(slot, used_mb, self._ceiling_mb, now)
            if pause_s is not None:
                logger.warning("%s is replaced in %.1f s: %s", child, pause_s, slot.replace_for)

    def _show(self) -> None:
        ready, count = self._fleet.ready, len(self._fleet.slots)
        self._set_title(f"supervisor [{ready} of {count} processes]")
        if self._was_ready or self._fleet.is_stopping or ready < count:
            return
        logger.info("all %d processes are ready", ready)
        self._was_ready = True
        self._notifier.ready()


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
