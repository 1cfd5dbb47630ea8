"""A suspect in the child process that runs it alone: all of it happens here, from parsing to the target.

The parent (runner.py) gets back what is to be written, as a text, and for its handlers what was raised.
"""

import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from kiqbridge.client.registry import JobDefinition, Registry, default_registry
from kiqbridge.client.server import BacktraceCleaner, Server, server
from kiqbridge.engine.perform.execution import Execution, JobRunner, Performing
from kiqbridge.engine.perform.failure import Failures
from kiqbridge.engine.perform.gate import Gate
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.perform.job_logger import TID, JobLines
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.errors import JobTimeout
from kiqbridge.features.process_pool.messages import ChildSettings, describe
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:  # it is `__main__` where this runs
    from kiqbridge.features.process_pool.job_child import JobChild


@dataclass(slots=True)
class _Recorder:
    """Records what the parent's `Metrics` is to record."""

    measured: list[tuple[str, float, bool]] = field(default_factory=list)

    def record(self, name: str, milliseconds: float, failed: bool) -> None:  # noqa: FBT001 - as Metrics
        self.measured.append((name, milliseconds, failed))


class SuspectRun:
    """Runs one suspect: what `JobRunner` takes for its thread, and to call the job.

    Args:
        order: what `SuspectRunner.order` says.
        began: called with the seconds that the job may run, or None, when it is about to run.
        invoker: calls it within the middleware of its capsule.
    """

    interrupted = False

    def __init__(
        self, order: Mapping[str, Any], *, began: Callable[[float | None], None], invoker: Invoker
    ) -> None:
        self.tid: str = order["tid"]
        self.performing = False
        self._order = order
        self._began = began
        self._invoker = invoker

    def invoke(self, definition: JobDefinition, execution: Execution, thread: Performing) -> None:
        """Call it.

        Raises:
            JobTimeout: it took too long for an earlier child.
            BaseException: what it raised.
        """
        timed_out_s = self._order["timed_out_s"]
        if timed_out_s is not None:
            raise JobTimeout(
                f"took longer than its timeout_s of {timed_out_s:g} s; its child process was killed"
            )
        # A suspect runs alone and delays no other job; that it takes too long again is its failure.
        self._began(definition.handling.timeout_s or definition.handling.max_run_s)
        self._invoker.invoke(definition, execution, thread)

    def invoke_async(
        self, definition: JobDefinition, execution: Execution, executor: Executor
    ) -> Awaitable[Any]:
        """Call a job on the event loop, as `Invoker` does."""
        return self._invoker.invoke_async(definition, execution, executor)

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
        rng = random.Random()  # noqa: S311 - jitter
        runner = JobRunner(
            registry=registry,
            invoker=self,
            outcomes=Failures(
                keys=Keys(settings.namespace),
                registry=registry,
                policy=lambda: RetryPolicy(
                    max_retries=order["max_retries"],
                    profile=order["profile"],
                    backtrace_cleaner=cleaner,
                ),
                handlers=Handlers(listener),
                rng=rng,
            ),
            gate=Gate(
                paused=SimpleNamespace(classes=frozenset(order["paused"])),
                declared=registry,
                foreign_jobs=settings.foreign_jobs,
                unknown_class=settings.unknown_class,
                rng=rng,
            ),
            lines=JobLines(skip=settings.skip_default_job_logging),
            metrics=metrics,  # type: ignore[arg-type] # takes what is recorded, and nothing else
            max_payload_bytes=settings.max_payload_bytes,
        )
        settlement = runner.run(text, order["queue"], self)
        if settlement is not None and settlement.notify is not None:
            settlement.notify()
        answer: dict[str, Any] = {
            "settled": _described(settlement),
            "measured": metrics.measured,
            "raised": _raised(raised, died=bool(died)),
        }
        return answer, settlement.text if settlement is not None else b""


def run_alone(
    child: "JobChild", order: Mapping[str, Any], text: bytes
) -> tuple[dict[str, Any], bytes]:
    """Run a suspect in this child, and decide what becomes of it: the answer, and the text that is kept."""
    run = SuspectRun(
        order,
        began=lambda timeout_s: child.channel.send({"began": timeout_s}),
        invoker=child.invoker(order["capsule"]),
    )
    return run.run(text, child.settings, default_registry, server.backtrace_cleaner)


def be_killed_first() -> None:
    """When memory runs out, let the kernel choose this process and not its parent."""
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _described(settlement: Settlement | None) -> dict[str, Any] | None:
    if settlement is None:
        return None
    return {
        "target": Target(settlement.target).value,
        "score": settlement.score,
        "counted": settlement.counted,
        "queue": settlement.queue,
        "failed": settlement.failed,
        "effects": [
            (name, keys, [arg.decode() if isinstance(arg, bytes) else arg for arg in args])
            for name, keys, args in settlement.effects
        ],
    }


def _raised(
    raised: list[tuple[BaseException, Mapping[str, Any]]], *, died: bool
) -> dict[str, Any] | None:
    """What the parent's handlers are called with."""
    if not raised:
        return None
    [(error, context)] = raised
    return {
        "failure": asdict(describe(error)),
        "context": context["context"],
        "died": died,
        "unread": "jobstr" in context,
    }
