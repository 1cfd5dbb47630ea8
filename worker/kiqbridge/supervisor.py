"""Several worker processes under one parent: `kiqbridge worker --processes N`.

The parent loads settings and the jobs' code once, starts no thread, opens no connection, and forks;
what was loaded is shared, and each child is a process of its own to Redis and to Ruby's UI. Then:

1. A child that ends unasked gets a successor, after a pause that doubles while it keeps happening.
2. A child that holds too much memory is replaced: the new one registers first, then the old one is
   told to end, one at a time. USR2 does so with all of them.
3. TERM, INT, TSTP and TTIN are passed on to all children; who does not end in time is killed.
4. While a child is neither dead nor stopped, the parent renews its lease besides the child itself: a
   C call that holds the interpreter lock for long is no death (reliability.md §3).
5. When the parent ends, by whatever cause, its children hear of it and end in order.
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
from dataclasses import dataclass
from types import FrameType
from typing import Literal, NoReturn

from kiqbridge import ending
from kiqbridge.config import Config
from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.forked import (
    Tie,
    can_run,
    native_threads,
    odd_before_fork,
    resident_mb,
    settle_in_child,
    told_end,
)
from kiqbridge.keys import Keys
from kiqbridge.launcher import KILL_S, LAST_STEPS_S
from kiqbridge.lease import LeaseTimes, renew
from kiqbridge.redis_connection import RedisPool
from kiqbridge.signals import ENDING, SignalInbox, ignore_others, report_ignored
from kiqbridge.signals import NAMES as PASSED_ON

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
GOOD_LIFE_S = 60.0
"""Who lived so long has not crashed because of how it was started."""

TICK_S = 0.5
MEMORY_EVERY_S = 2.0
ANSWER_WITHIN_S = 1.0
"""For the parent's own calls to Redis: it has children to look after."""

KILL_MARGIN_S = 0.0
"""Beyond `LAST_STEPS_S`; before that each child that can run has ended by itself."""

OWN_END_S = 1.0
"""Beyond that: the parent itself is killed, should it not have ended."""

HUNG_AFTER_S = 600.0
"""A child that has said nothing for so long is killed. It beats from a thread, so its interpreter
lock is held, and nobody else gets its jobs while the parent renews its lease."""

_BLOCKED = (*(signal.Signals[f"SIG{name}"] for name in PASSED_ON), signal.SIGUSR2, signal.SIGCHLD)

Work = Callable[[SignalInbox, Tie], None]
"""What a child does until a signal ends it; a KiqbridgeError is told to the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What the surroundings want to hear.

    Attributes:
        on_ready: called once, when all processes have registered.
        on_turn: called about twice a second while the parent is well, for a watchdog.
        on_stopping: called once, when it has been told to end.
        set_title: gets the text that the list of processes (ps) shows for the parent.
    """

    on_ready: Callable[[], object] = lambda: None
    on_turn: Callable[[], object] = lambda: None
    on_stopping: Callable[[], object] = lambda: None
    set_title: Callable[[str], object] = lambda _title: None


@dataclass(slots=True, kw_only=True, eq=False)
class Slot:
    """The place of one process, whoever fills it; times in seconds on `time.monotonic`.

    Attributes:
        successor: started to take the place of `child`, not registered yet.
        failures: ends in a row that came too soon.
        not_before: when the next one may be started.
        replace_for: why `child` shall be replaced.
    """

    number: int
    child: "Child | None" = None
    successor: "Child | None" = None
    failures: int = 0
    not_before: float = 0.0
    replace_for: str | None = None

    def put_off(self, now: float, lived_s: float) -> float:
        """Note that its process had to be given up after `lived_s`; seconds until the next one."""
        if lived_s >= GOOD_LIFE_S:
            self.failures = 0
        pause = pause_after(self.failures)
        self.failures += 1
        self.not_before = now + pause
        return pause


@dataclass(slots=True, kw_only=True, eq=False)
class Child:
    """A forked process.

    Attributes:
        incarnation: under which it holds its jobs; None = not registered yet.
        heard_at: when it last said so.
        error: why it ended, in its own words.
        kill_at: when it is killed, if it was told to end.
    """

    pid: int
    slot: Slot
    started_at: float
    heard_at: float
    incarnation: str | None = None
    error: str | None = None
    kill_at: float | None = None

    def __str__(self) -> str:
        return f"process {self.slot.number} (pid {self.pid})"


def pause_after(failures: int) -> float:
    """Seconds before the next start, after so many failures before this one."""
    # Not 2 ** failures alone: it overflows after a day of failing.
    return float(min(FIRST_PAUSE_S * 2 ** min(failures, 16), LONGEST_PAUSE_S))


def process_count(setting: int | Literal["auto"]) -> int:
    """How many processes a setting means; `auto` is one for each CPU that this one may use."""
    if setting != "auto":
        return setting
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def is_supervised(config: Config) -> bool:
    """Whether the settings ask for a supervisor: several processes, or a ceiling that needs one."""
    return process_count(config.processes) > 1 or config.max_memory_mb > 0


class Supervisor:
    """The parent; single-threaded, so that it can fork at any time."""

    def __init__(self, config: Config, work: Work, hooks: Hooks | None = None) -> None:
        self._work = work
        self._hooks = hooks or Hooks()
        self._pid = os.getpid()
        self._ceiling_mb = config.max_memory_mb
        self._timeout_s = config.timeout_s
        self._patience_s = config.timeout_s + LAST_STEPS_S + KILL_MARGIN_S
        self._keys = Keys(config.namespace)
        self._times = LeaseTimes(config.recover_after_s)
        self._connection = RedisPool(config.redis_url).connection(timeout_s=ANSWER_WITHIN_S)
        self._slots = [Slot(number=number + 1) for number in range(process_count(config.processes))]
        self._children: dict[int, Child] = {}
        self._signalled: set[int] = set()  # pids of children that surely are not collected yet
        self._noted: deque[str] = deque()
        self._bell, self._rope = socket.socketpair()
        self._reports, self._reports_in = os.pipe()
        self._lifeline, self._lifeline_held = os.pipe()
        self._unread = b""
        self._next_beat = self._next_memory_look = 0.0
        self._quiet = self._stopping = self._was_ready = self._any_registered = False
        self._failed_boots: dict[int, str] = {}
        self._failure: str | None = None

    def __repr__(self) -> str:
        return f"<Supervisor {self._up()} of {len(self._slots)} processes>"

    def run(self) -> int:
        """Keep the processes running until TERM or INT; returns 0 when all have ended.

        Raises:
            ConfigError: the loaded code alone exceeds the memory ceiling.
            KiqbridgeError: none of the processes could start.
        """
        self._look_before_fork()
        self._trap()
        # What is loaded is never garbage: left alone by the collector its pages stay shared.
        gc.collect()
        gc.freeze()
        logger.info("supervisor: starting %d processes", len(self._slots))
        while self._children or not self._stopping:
            self._turn()
        if self._failure is not None:
            raise KiqbridgeError(self._failure)
        logger.info("bye")
        return 0

    def _turn(self) -> None:
        self._act_on_signals()  # what came meanwhile: nobody is started only to be stopped
        self._start_what_is_due(time.monotonic())
        self._show()
        self._wait()
        self._act_on_signals()
        self._read_reports()
        self._collect()
        now = time.monotonic()
        self._hand_over(now)
        if now >= self._next_beat:
            self._next_beat = now + self._times.beat_every
            self._beat(now)
        if self._ceiling_mb and now >= self._next_memory_look:
            self._next_memory_look = now + MEMORY_EVERY_S
            self._look_at_memory(now)
        self._kill_who_overstays(now)
        self._hooks.on_turn()

    def _look_before_fork(self) -> None:
        for sentence in odd_before_fork():
            logger.warning("%s", sentence)
        natives = native_threads()
        if natives:
            logger.info(
                "%d threads of native libraries are not forked; most libraries cope with that, and one "
                "that hangs in a job must be imported in the job instead",
                natives,
            )
        used = resident_mb(self._pid)
        if self._ceiling_mb and used >= self._ceiling_mb:
            raise ConfigError(
                f"max_memory_mb: {self._ceiling_mb} is less than the {used:.0f} MB that the loaded code "
                "takes before any job has run; give at least twice that"
            )

    def _trap(self) -> None:
        for end in (self._bell, self._rope):
            end.setblocking(False)
        os.set_blocking(self._reports, False)
        os.set_blocking(self._reports_in, False)
        signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        for number in _BLOCKED:
            signal.signal(number, self._on_signal)
        ignore_others()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name.removeprefix("SIG")
        self._noted.append(name)
        if name in ENDING:
            ending.guarantee(self._patience_s + OWN_END_S)
        # At once: the loop may be waiting for an answer of Redis.
        if name in PASSED_ON:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        for pid in tuple(self._signalled):
            _send(pid, number)

    def _start_what_is_due(self, now: float) -> None:
        if self._stopping or self._quiet:
            return
        for slot in self._slots:
            if slot.child is None and now >= slot.not_before:
                slot.child = self._fork(slot)
                slot.replace_for = None
        # One at a time: never more than one process too many, nor one too few.
        if any(slot.successor for slot in self._slots) or any(
            child.kill_at for child in self._children.values()
        ):
            return
        for slot in self._slots:
            if slot.replace_for and now >= slot.not_before:
                slot.successor = self._fork(slot)
                if slot.successor is not None:
                    logger.info(
                        "%s is to replace %s: %s", slot.successor, slot.child, slot.replace_for
                    )
                return

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
            now = time.monotonic()
            child = Child(pid=pid, slot=slot, started_at=now, heard_at=now)
            self._children[pid] = child
            self._signalled.add(pid)
        except OSError as error:
            pause = slot.put_off(time.monotonic(), 0)
            logger.error(  # noqa: TRY400 - the reason is in one line
                "process %d could not be forked: %s; trying again in %.1f s",
                slot.number,
                error,
                pause,
            )
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return child

    def _be_child(self, mask: Iterable[int]) -> NoReturn:
        """Work; never returns to what the parent was doing."""
        code = 1
        tie = Tie(
            supervisor=self._pid,
            reports=self._reports_in,
            lifeline=self._lifeline,
            has_reached_redis=self._any_registered,
        )
        try:
            settle_in_child(self._pid)
            for handle in (self._reports, self._lifeline_held):
                os.close(handle)
            self._connection.close()
            inbox = SignalInbox(self._timeout_s + KILL_S)
            inbox.trap()
            self._bell.close()
            self._rope.close()
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            tie.watch(lambda: inbox.put("TERM"))
            self._work(inbox, tie)
            code = 0
        except KiqbridgeError as error:
            tie.failed(str(error))
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException as error:
            logger.exception("the process could not go on")
            tie.failed(f"{type(error).__name__}: {error}")
        finally:
            # A thread that is stuck in C would hang the interpreter's own exit.
            ending.end_process(code)

    def _wait(self) -> None:
        now = time.monotonic()
        due = [
            self._next_beat,
            *(slot.not_before for slot in self._slots if slot.child is None),
            *(child.kill_at for child in self._children.values() if child.kill_at is not None),
        ]
        timeout = min([TICK_S, *(max(at - now, 0.01) for at in due)])
        select.select([self._bell.fileno(), self._reports], [], [], timeout)
        with suppress(BlockingIOError):
            self._bell.recv(4096)

    def _act_on_signals(self) -> None:
        report_ignored()
        while self._noted:
            name = self._noted.popleft()
            if name in ("TERM", "INT") and not self._stopping:
                logger.info("%s: stopping all processes", name)
                self._stop()
            elif name == "INT":
                logger.warning("INT: all processes interrupt their jobs now")
                self._pass_on(signal.SIGINT)
            elif name == "TSTP" and not self._quiet:
                self._quiet = True
                logger.info("quiet: no process takes new jobs, and none is started any more")
                self._pass_on(signal.SIGTSTP)
            elif name == "TTIN":
                for child in self._children.values():
                    logger.warning("%s, up for %.0f s", child, time.monotonic() - child.started_at)
            elif name == "USR2":
                self._replace_all()

    def _replace_all(self) -> None:
        if self._quiet or self._stopping:
            logger.warning("USR2 is ignored: who is quiet or stops starts no process any more")
            return
        logger.info("USR2: replacing all processes, one after another")
        for slot in self._slots:
            slot.replace_for = "USR2"

    def _stop(self) -> None:
        self._stopping = True
        self._hooks.on_stopping()
        # Again, for a child that was forked since the signal came; a second one changes nothing.
        for child in self._children.values():
            self._tell_to_end(child)

    def _tell_to_end(self, child: Child) -> None:
        _send(child.pid, signal.SIGTERM)
        if child.kill_at is None:
            child.kill_at = time.monotonic() + self._patience_s

    def _read_reports(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._unread += os.read(self._reports, 65536)
        *lines, self._unread = self._unread.split(b"\n")
        now = time.monotonic()
        for line in lines:
            report = json.loads(line)
            child = self._children.get(report["pid"])
            if child is not None:
                child.heard_at = now
                child.error = report.get("error", child.error)
                child.incarnation = report.get("incarnation", child.incarnation)
                self._any_registered |= child.incarnation is not None

    def _collect(self) -> None:
        """Take note of who has ended; as process 1 of a container also of jobs' orphans."""
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
            child = self._children.pop(ended.si_pid, None)
            if child is not None:
                self._note_end(child, status)

    def _note_end(self, child: Child, status: int) -> None:
        slot, now = child.slot, time.monotonic()
        said = _told_end(child, status)
        is_current = slot.child is child
        if is_current:
            slot.child = None
        if child.kill_at is not None:
            logger.info("%s, as it was told", said)
            return
        lived = now - child.started_at
        if not is_current:  # it was to replace another, which goes on
            slot.successor = None
            pause = slot.put_off(now, lived)
            logger.error(
                "%s before it was ready; %s stays, next try in %.1f s", said, slot.child, pause
            )
            return
        if slot.successor is not None:
            slot.child, slot.successor = slot.successor, None
            slot.replace_for = None
            logger.warning("%s; %s takes its place", said, slot.child)
            return
        self._note_failed_boot(child, status)
        if self._quiet or self._stopping:
            logger.warning("%s; no other is started", said)
            return
        pause = slot.put_off(now, lived)
        # Exit code 0: the Stop button of the Web UI, or a TERM sent to it alone.
        level = logging.INFO if status == 0 else logging.ERROR
        logger.log(level, "%s; another is started in %.1f s", said, pause)

    def _note_failed_boot(self, child: Child, status: int) -> None:
        """End with the reason if nobody could start: no repetition mends code or settings."""
        if self._any_registered or os.waitstatus_to_exitcode(status) != 1:
            return
        reason = child.error or "see what it logged"
        self._failed_boots.setdefault(child.slot.number, reason)
        if len(self._failed_boots) == len(self._slots) and not self._stopping:
            count = len(self._slots)
            self._failure = (
                f"none of the {count} processes could start: {reason}" if count > 1 else reason
            )
            self._stop()

    def _hand_over(self, now: float) -> None:
        """From a child to its successor, once that has registered."""
        for slot in self._slots:
            if slot.successor is None or slot.successor.incarnation is None:
                continue
            old, slot.child, slot.successor = slot.child, slot.successor, None
            slot.replace_for = None
            if old is not None:
                lived = now - old.started_at
                logger.info("%s is told to end after %.0f s: %s is ready", old, lived, slot.child)
                self._tell_to_end(old)

    def _beat(self, now: float) -> None:
        """Renew the leases of the children; they do so themselves as long as their threads run."""
        try:
            for child in self._children.values():
                if not can_run(child.pid):  # frozen, it must be found dead as any other
                    child.heard_at = now
                elif child.incarnation is not None:
                    silent_for = now - child.heard_at
                    if silent_for > HUNG_AFTER_S:
                        self._end_hung(child, silent_for)
                    renew(
                        self._connection,
                        self._keys,
                        child.incarnation,
                        self._times.silent_after_ms,
                    )
        except KiqbridgeError as error:
            logger.debug("the children's leases were not renewed: %s", error)

    def _end_hung(self, child: Child, silent_for_s: float) -> None:
        logger.error(
            "%s has said nothing for %.0f s: a C call holds its interpreter lock; it is killed, and its "
            "jobs go back to their queues",
            child,
            silent_for_s,
        )
        child.error = "it hung"
        child.heard_at = time.monotonic()
        _send(child.pid, signal.SIGKILL)

    def _look_at_memory(self, now: float) -> None:
        for slot in self._slots:
            if slot.child is None or slot.successor is not None or slot.replace_for:
                continue
            used = resident_mb(slot.child.pid)
            if used > self._ceiling_mb:
                pause = slot.put_off(now, now - slot.child.started_at)
                slot.replace_for = f"it holds {used:.0f} MB, the ceiling is {self._ceiling_mb}"
                logger.warning("%s is replaced in %.1f s: %s", slot.child, pause, slot.replace_for)

    def _kill_who_overstays(self, now: float) -> None:
        for child in self._children.values():
            if child.kill_at is not None and now >= child.kill_at:
                logger.error(
                    "%s did not end within %.0f s and is killed; other workers get what it held",
                    child,
                    self._patience_s,
                )
                _send(child.pid, signal.SIGKILL)
                child.kill_at = now + self._patience_s

    def _show(self) -> None:
        up = self._up()
        self._hooks.set_title(f"supervisor [{up} of {len(self._slots)} processes]")
        if up == len(self._slots) and not self._was_ready and not self._stopping:
            self._was_ready = True
            logger.info("all %d processes are ready", up)
            self._hooks.on_ready()

    def _up(self) -> int:
        return sum(bool(slot.child and slot.child.incarnation) for slot in self._slots)


def _told_end(child: Child, status: int) -> str:
    why = child.error
    if why is None and child.kill_at is None and status == signal.SIGKILL:
        why = "not by the supervisor; the system may be out of memory"
    return f"{child} {told_end(status)}" + (f": {why}" if why else "")


def _send(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
