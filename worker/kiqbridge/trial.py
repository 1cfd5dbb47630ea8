"""A suspect in the child process that runs it alone: all of it happens here, from parsing to the verdict.

The parent (suspects.py) gets back what is to be written, as a text, and for its handlers what was raised.
"""

import contextlib
import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kiqbridge.child_messages import ChildSettings, Failure
from kiqbridge.errors import JobTimeout
from kiqbridge.execution import JobRunner, Settlement
from kiqbridge.gate import Gatekeeper
from kiqbridge.job_logger import TID, JobLines
from kiqbridge.middleware import Chain
from kiqbridge.process_pool import Order
from kiqbridge.registry import Registry
from kiqbridge.retry import (
    RetryPolicy,
    Verdict,
    backtrace_lines,
    error_class,
    error_message,
)
from kiqbridge.server import BacktraceCleaner, Server

_TRACEBACK_LIMIT = 20_000
"""Characters of a traceback for the parent's handlers, its end."""

Perform = Callable[[Order], BaseException | None]
"""Runs a job within the middleware of its capsule; what was raised."""


@dataclass(slots=True)
class _Recorder:
    """Notes what `Metrics` would be told, for the parent's."""

    measured: list[tuple[str, float, bool]] = field(default_factory=list)

    def record(self, name: str, milliseconds: float, failed: bool) -> None:  # noqa: FBT001 - as Metrics
        self.measured.append((name, milliseconds, failed))


class Trial:
    """Runs one suspect; what `JobRunner` takes for its processes, and for the thread that runs it.

    Args:
        order: what `SuspectRunner.order` says.
        began: called with the job's `timeout_s` when it is about to run.
        perform: runs it.
    """

    takes_all = True
    interrupted = False

    def __init__(
        self,
        order: Mapping[str, Any],
        *,
        began: Callable[[float | None], None],
        perform: Perform,
    ) -> None:
        self.tid: str = order["tid"]
        self.performing = False
        self._order = order
        self._began = began
        self._perform = perform

    def perform(self, order: Order, _owner: object) -> None:
        """Run it, or settle that it took too long for an earlier child."""
        timed_out_s = self._order["timed_out_s"]
        if timed_out_s is not None:
            raise JobTimeout(
                f"took longer than its timeout_s of {timed_out_s:g} s; its child process was killed"
            )
        self._began(order.timeout_s)
        error = self._perform(order)
        if error is not None:
            raise error

    def run(
        self,
        text: bytes,
        settings: ChildSettings,
        registry: Registry,
        cleaner: BacktraceCleaner | None,
    ) -> tuple[dict[str, Any], bytes]:
        """The answer for the parent, and the text that is kept."""
        be_killed_first()
        TID.set(self.tid)
        order, metrics, listener = self._order, _Recorder(), Server()
        raised: list[tuple[BaseException, Mapping[str, Any]]] = []
        died: list[object] = []
        listener.error_handler(lambda error, context: raised.append((error, context)))
        listener.death_handler(lambda payload, _error: died.append(payload))
        runner = JobRunner(
            registry=registry,
            middleware=Chain(),  # `perform` goes through it
            policy=lambda: RetryPolicy(
                max_retries=order["max_retries"],
                profile=order["profile"],
                backtrace_cleaner=cleaner,
            ),
            rng=random.Random(),  # noqa: S311 - jitter
            server=listener,
            gate=Gatekeeper(
                paused=SimpleNamespace(classes=frozenset(order["paused"])),
                declared=registry,
                foreign_jobs=settings.foreign_jobs,
                unknown_class=settings.unknown_class,
                rng=random.Random(),  # noqa: S311 - jitter
            ).check,
            lines=JobLines(skip=settings.skip_default_job_logging),
            processes=self,
            capsule=order["capsule"],
            metrics=metrics,  # type: ignore[arg-type] # takes what is recorded, and nothing else
            max_payload_bytes=settings.max_payload_bytes,
        )
        settlement = runner.run(text, order["queue"], self)
        if settlement is not None and settlement.then is not None:
            settlement.then()
        answer: dict[str, Any] = {
            "settled": _described(settlement),
            "measured": metrics.measured,
            "told": _told(raised, died=bool(died)),
        }
        return answer, settlement.text if settlement is not None else b""


def be_killed_first() -> None:
    """When memory runs out, let the kernel choose this process and not its parent."""
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _described(settlement: Settlement | None) -> dict[str, Any] | None:
    if settlement is None:
        return None
    return {
        "verdict": Verdict(settlement.verdict).value,
        "score": settlement.score,
        "counted": settlement.counted,
        "queue": settlement.queue,
    }


def _told(
    raised: list[tuple[BaseException, Mapping[str, Any]]], *, died: bool
) -> dict[str, Any] | None:
    if not raised:
        return None
    [(error, context)] = raised
    printed = "".join(traceback.format_exception(error)).encode(errors="backslashreplace")
    failure = Failure(
        error_class=error_class(error),
        message=error_message(error),
        backtrace=backtrace_lines(error),
        mro=[f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__],
        traceback=printed.decode()[-_TRACEBACK_LIMIT:],
    )
    return {
        "failure": asdict(failure),
        "context": context["context"],
        "died": died,
        "unread": "jobstr" in context,
    }
