"""The worker of `kiqbridge dev`: the real command as a child, its log lines made readable.

A worker that dies is started again; one that cannot even start, or dies again and again, ends the run. When
code of its jobs has changed and can be compiled, it is stopped in order and started anew; one that cannot start
with the new code waits for the next change.

The operator's page beside `kiqbridge dev`: the real command as a child, on loopback, for an administrator.

It starts when the worker is ready, so that it takes no time from the start. A page that ends, or cannot start,
is reported, and the run goes on without it.
"""

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kiqbridge.dev import child_process
from kiqbridge.dev.console import Console, short
from kiqbridge.dev.source_watch import SourceWatch

MOST_RESTARTS: Final = 5
_PAUSE_S: Final = 1.0
_STEADY_S: Final = 60.0  # a worker that lived so long did not die of its start
_USAGE_AND_BOOT_ERRORS: Final = (1, 2)
_CLEANUP_S: Final = 10.0
_LEVELS: Final = {"WARN": "warning", "ERROR": "error", "FATAL": "error"}


class WorkerLines:
    """Reads the worker's JSON log and shows it; counts what became of the jobs."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rules: dict[str, str] = {}
        self._running: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.is_ready = False

    def expect(self, jid: str, rule: str) -> None:
        """Remember which rule a job comes from."""
        self._rules[jid] = rule

    @property
    def unfinished(self) -> int:
        """Jobs that began and did not end."""
        return len(self._running)

    def forget_running(self) -> None:
        """The worker died: its jobs are given back by the next one, and begin again."""
        self._running.clear()

    def show(self, line: str) -> None:
        """Show one line of output, whatever it is."""
        with self._console.together():  # so that a job's rule is known by now
            self._show(line)

    def _show(self, line: str) -> None:
        entry = _parse(line)
        if entry is None:
            self._console.text(line)
            return
        context = entry.get("ctx") or {}
        message, level = str(entry["msg"]), str(entry["lvl"])
        jid = str(context.get("jid"))
        name = str(context.get("class", ""))
        if level == "INFO" and name and self._show_step(message, name, jid, context):
            return
        self.is_ready = self.is_ready or (not name and " is ready: " in message)
        kind = _LEVELS.get(level, "job" if name else "worker")
        self._console.line(kind, name, f"{short(jid)}  {message}" if name else message)
        if entry.get("exc"):
            self._console.text(_indented(str(entry["exc"])), dim=True)

    def _show_step(self, message: str, name: str, jid: str, context: Mapping[str, Any]) -> bool:
        """Whether the line is a step of a job's life and not what the job itself logged."""
        elapsed = context.get("elapsed")
        rule = self._rules.get(jid, name)
        origin = "" if rule == name else f"  rule {rule}"
        if message == "start" and elapsed is None and jid not in self._running:
            self._running.add(jid)
            queue = context.get("queue")
            self._console.line("start", name, f"{short(jid)}  from queue {queue}{origin}")
            return True
        if elapsed is None or jid not in self._running:
            return False
        kinds = {"done": "done", "fail": "fail", "interrupted: given back": "back"}
        if message not in kinds:
            return False
        kind = kinds[message]
        if kind != "back":
            self._running.discard(jid)
            self.counts[kind] += 1
        if kind == "done":
            self._rules.pop(jid, None)
        note = "  interrupted and given back" if kind == "back" else ""
        self._console.line(kind, name, f"{short(jid)}  in {elapsed:.3f} s{note}{origin}")
        return True


class WorkerChild:
    """Starts, watches and stops the worker; from the main thread.

    Args:
        arguments: flags of `kiqbridge worker`.
        environ: all that the child gets.
        timeout_s: how long running jobs may go on after TERM.
        watch: of the code of the jobs; None: the worker is not restarted when that changes.
        on_end: called from the reading thread when its output ended.
    """

    def __init__(
        self,
        *,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        console: Console,
        timeout_s: float,
        on_end: Callable[[], None],
        watch: SourceWatch | None = None,
    ) -> None:
        self.lines = WorkerLines(console)
        self._words = ["worker", *arguments]
        self._environ = {**environ, "KIQBRIDGE_LOG_FORMAT": "json"}
        if watch is not None:
            self._environ["PYTHONDONTWRITEBYTECODE"] = "1"  # see commands/reloader.py
        self._console = console
        self._timeout_s = timeout_s
        self._on_end = on_end
        self._child: child_process.Command | None = None
        self._started = 0.0
        self._restart_at: float | None = None
        self._deaths = 0
        self._watch = watch
        self._was_ready = False
        self._kill_at: float | None = None

    @property
    def pause_s(self) -> float:
        """Seconds until `tend` is to be called again at the latest."""
        return self._watch.pause_s if self._watch is not None else float("inf")

    def start(self) -> None:
        """Start the child and the thread that reads its output."""
        self._started = time.monotonic()
        self._restart_at = self._kill_at = None
        self.lines.is_ready = False
        if self._watch is not None:
            self._watch.mark_start()
        # Its server ends with us, so there is nothing that it could still do in order.
        self._child = child_process.Command(
            self._words, env=self._environ, show=self.lines.show, on_end=self._on_end
        )

    def tend(self) -> bool:
        """Start it again if it died or its code has changed; False when there is no sense in it."""
        now = time.monotonic()
        self._was_ready |= self.lines.is_ready
        if self._restart_at is not None:
            if now >= self._restart_at:
                self.start()
            return True
        if self._child is None or (code := self._child.process.poll()) is None:
            self._look(now)
            return True
        self._child.join()
        self.lines.forget_running()
        if self._kill_at is not None:
            self.start()
            return True
        if not self.lines.is_ready and code in _USAGE_AND_BOOT_ERRORS:
            self._child = None
            waits = self._watch is not None and self._was_ready
            more = ": it is started again when a file changes" if waits else ""
            self._console.line("error", "", f"the worker does not start (exit code {code}){more}")
            return waits
        self._deaths = 1 if now - self._started > _STEADY_S else self._deaths + 1
        if self._deaths > MOST_RESTARTS:
            self._console.line("error", "", f"the worker died {self._deaths} times: giving up")
            return False
        self._console.line(
            "error",
            "",
            f"the worker died ({_ending(code)}): starting it again; jobs that it held go back to "
            "their queues within 30 s",
        )
        self._restart_at = now + _PAUSE_S
        return True

    def stop(self) -> None:
        """TERM: running jobs finish in time or are given back; returns when its output is shown."""
        if self._child is not None:
            self._child.stop(self._timeout_s + _CLEANUP_S)

    def _look(self, now: float) -> None:
        """Restart it when its code has changed."""
        if self._child is not None and self._kill_at is not None:
            if now > self._kill_at:
                self._child.process.kill()
            return
        change = self._watch.look() if self._watch is not None else None
        if change is None:
            return
        if change.fault:
            self._console.line(
                "error", "", f"{change} and cannot be compiled; the next change counts"
            )
            self._console.text(_indented(change.fault), dim=True)
        elif self._child is None:
            self._console.line("worker", "", f"{change}: the worker is started")
            self.start()
        else:
            self._console.line(
                "worker",
                "",
                f"{change}: the worker is restarted; running jobs end or are given back",
            )
            self._kill_at = now + self._timeout_s + _CLEANUP_S
            self._child.process.terminate()


def _parse(line: str) -> dict[str, Any] | None:
    """The worker's own log line, or None for what jobs print."""
    if not line.startswith("{"):
        return None
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    is_ours = isinstance(entry, dict) and {"ts", "lvl", "msg"} <= entry.keys()
    return entry if is_ours else None


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _ending(code: int) -> str:
    try:
        return f"by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"by signal {-code}"


_ADDRESS: Final = re.compile(r"http://\S+")
_END_WITHIN_S: Final = 5.0
ROLE: Final = "admin"
"""The developer's own machine: no other machine reaches loopback."""


class WebChild:
    """Starts, watches and stops the page; from the main thread.

    Args:
        environ: all that the child gets.
        console: shows its address, and what goes wrong.
    """

    def __init__(self, *, environ: Mapping[str, str], console: Console) -> None:
        self._environ = environ
        self._console = console
        self._child: child_process.Command | None = None
        self._is_ending = False

    @property
    def has_started(self) -> bool:
        """Whether it was started, be it ended or not."""
        return self._child is not None

    def start(self) -> None:
        """Start the child and the thread that reads its output."""
        self._child = child_process.Command(
            ["web", "--host", "127.0.0.1", "--role", ROLE],
            env=self._environ,
            show=self._show,
            on_end=self._ended,
        )

    def ask_to_end(self) -> None:
        """TERM, without waiting: it ends while the worker does."""
        self._is_ending = True
        if self._child is not None and self._child.process.poll() is None:
            self._child.process.terminate()

    def stop(self) -> None:
        """Wait for its end, and force it after a while."""
        self.ask_to_end()
        if self._child is not None:
            self._child.stop(_END_WITHIN_S)

    def _ended(self) -> None:
        code = self._child.process.wait() if self._child else 0
        if code and not self._is_ending:
            self._console.line("error", "", f"the page has ended (exit code {code})")

    def _show(self, line: str) -> None:
        address = _ADDRESS.search(line)
        if address and line.startswith("kiqbridge web serves "):
            self._console.line("web", "", f"the page with queues and jobs: {address[0]}")
        elif not self._is_ending:
            self._console.line("web", "", line.removeprefix("kiqbridge: "))
