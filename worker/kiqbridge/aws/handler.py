"""The handler of the enqueue function, from an event to the answer, and what operators see of an invocation.

`app.py` of the function makes one, from its environment variables and its own folder, and Lambda calls it.

Log lines name each record and its job; the metrics count. Records of one job each that became the same share a line:
of a batch, that line would be most of the function's CPU, and of what CloudWatch bills. Arguments of jobs are never
in them.
"""

import contextlib
import functools
import importlib.util
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.aws.enqueue import UNKNOWN, Enqueuer, Handled
from kiqbridge.aws.environment import PUSH_MS, Metrics, make_logger, seconds_for_redis
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Record, Result, alias_in, answer_of, with_time
from kiqbridge.aws.sources import failure_answer, is_http
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import EventError, KiqbridgeError, PayloadError
from kiqbridge.store import deadline

if TYPE_CHECKING:
    from aws_lambda_powertools.logging import Logger


JOBS_A_LINE: Final = 100
"""At most: a line stays far below what CloudWatch takes."""


class Report:
    """The lines and metrics of one invocation; `write_metrics` ends it.

    Args:
        logger: has the keys of the invocation.
        metrics: of the environment.
    """

    def __init__(self, logger: "Logger", metrics: Metrics) -> None:
        self._logger = logger
        self._metrics = metrics
        self._counts = defaultdict[str, int](int)
        self._counts["ColdStart"] = int(logger.get_current_keys()["cold_start"])
        self._source = ""
        self._push_ms: float | None = None
        self._began = time.perf_counter()
        self._alike: dict[tuple[str, str, str], list[dict[str, Any]]] = {}

    def handled(self, handled: Handled) -> None:
        """What became of an event: lines for its records, or one for the event."""
        ms = round((time.perf_counter() - self._began) * 1000, 3)
        self._source, self._push_ms = handled.source, handled.push_ms
        for result in handled.results:
            self._result(result, ms, is_raised=handled.error is not None)
        self._write_alike(ms)
        if (published := handled.published) is not None:
            is_well = published["outcome"] in ("published", "unchanged")
            write = self._logger.info if is_well else self._logger.warning
            write("schedules", extra={"source": "publish", **published})
        if handled.ignored:
            self._ignored(handled.ignored, {"source": handled.source})
        elif handled.error is not None and not handled.results:
            self.failed(handled.error, {"source": handled.source})

    def failed(
        self, error: Exception, about: Mapping[str, Any] | None = None, *, is_raised: bool = True
    ) -> None:
        """Why something was not enqueued: refused for what it is, or failed and worth another delivery.

        Args:
            error: the reason.
            about: what the line says besides; nothing = the event could not be looked at.
            is_raised: whether the invocation ends with it, so that Lambda logs the traceback.
        """
        about = {**(about or {"source": UNKNOWN}), "reason": str(error)}
        if isinstance(error, EventError | PayloadError):
            self._counts["Refused"] += 1
            self._logger.warning("refused", extra={**about, "outcome": "refused"})
        elif isinstance(error, HeldBack):
            self._logger.info("held back", extra={**about, "outcome": "held back"})
        else:
            self._counts["Failed"] += 1
            # It is unexpected, and no other code logs it.
            shows_trace = not is_raised and not isinstance(error, KiqbridgeError)
            self._logger.error(
                "failed",
                exc_info=error if shows_trace else None,
                extra={**about, "outcome": "failed", "error_class": type(error).__name__},
            )

    def write_metrics(self) -> None:
        """Each that is not 0, of the function and of the source."""
        values: dict[str, float] = {name: count for name, count in self._counts.items() if count}
        if self._push_ms is not None:
            values[PUSH_MS] = self._push_ms
        if values:
            by_source = [{"source": self._source}] if self._source else []
            self._metrics.write(values, {}, *by_source)

    def _ignored(self, reason: str, about: Mapping[str, Any]) -> None:
        self._logger.info("ignored", extra={**about, "outcome": "ignored", "reason": reason})

    def _result(self, result: Result, ms: float, *, is_raised: bool) -> None:
        if result.error is not None:
            self.failed(result.error, _about(result.record), is_raised=is_raised)
        elif result.record.ignored:
            self._ignored(result.record.ignored, _about(result.record))
        else:
            self._done(result, ms)

    def _done(self, result: Result, ms: float) -> None:
        jobs, counts = result.jobs, self._counts
        duplicates = sum([job.duplicate for job in jobs])
        counts["Enqueued"] += len(jobs) - duplicates
        counts["Duplicates"] += duplicates
        if result.spilled:
            counts["Spilled"] += len(result.spilled)
            outcome = "spilled"
        elif result.left_out:
            counts[result.left_out.title()] += len(result.record.jobs)
            outcome = result.left_out
        elif jobs:
            outcome = "enqueued" if duplicates < len(jobs) else "duplicate"
        else:
            outcome = "stopped by middleware"
        record, shown = result.record, result.spilled or jobs
        if len(shown) == 1:
            own = _id_of(record)
            own |= with_time(shown[0])
            of_line = (outcome, record.source, record.origin)
            self._alike.setdefault(of_line, []).append(own)
            return
        about, answer = _about(record), answer_of([result])
        about |= {"spilled": answer["spilled"]} if result.spilled else answer
        self._write_done(outcome, about | {"ms": ms})

    def _write_alike(self, ms: float) -> None:
        """A line for each outcome and sender: with its only job, or with a list of jobs."""
        for (outcome, source, origin), jobs in self._alike.items():
            about: dict[str, Any] = {"source": source, "ms": ms}
            if origin:
                about["origin"] = origin
            for start in range(0, len(jobs), JOBS_A_LINE):
                part = jobs[start : start + JOBS_A_LINE]
                self._write_done(outcome, about | (part[0] if len(jobs) == 1 else {"jobs": part}))

    def _write_done(self, outcome: str, about: dict[str, Any]) -> None:
        is_spilled = outcome == "spilled"
        write = self._logger.warning if is_spilled else self._logger.info
        write("spilled" if is_spilled else "done", extra={**about, "outcome": outcome})


def _about(record: Record) -> dict[str, Any]:
    """Which record it is: its source, who sent it, and its id."""
    about: dict[str, Any] = {"source": record.source}
    if record.origin:
        about["origin"] = record.origin
    return about | _id_of(record)


def _id_of(record: Record) -> dict[str, Any]:
    if record.item:
        return {"event_id": record.item}
    if record.identity is None:
        return {}
    parts = [part for part in record.identity.parts if part and part != record.origin]
    return {"event_id": " ".join(parts)}


SUBSEGMENT: Final = "## kiqbridge.enqueue"
"""Name of an invocation's segment in X-Ray; the two `#` are Powertools' convention."""
TRACE_HEADER: Final = "_X_AMZN_TRACE_ID"
"""Variable in which Lambda passes the invocation's trace header."""
_ITEM_FAILURES: Final = (
    "records of a batch failed, and Lambda delivers them again only if the event source mapping has "
    "ReportBatchItemFailures, which the function cannot see; without it a batch that failed in part is taken as "
    "done, and those records are lost: set FunctionResponseTypes: [ReportBatchItemFailures] on the event source"
)


class EnqueueHandler:
    """What an environment keeps between events: settings, mappings, connections; all but the first are made late.

    Args:
        environ: the environment variables; allow-lists and the address are read at the first event.
        folder: the function's own, with its mappings if it has any.

    Attributes:
        handle: what Lambda calls, with an event and its context: see `_handle`.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = environ
        self._folder = folder
        self._logger = make_logger(environ)
        self._metrics = Metrics.from_environment(environ)
        self._enqueuer: Enqueuer | None = None
        self._has_warned = False
        self.handle = self._logger.inject_lambda_context(self._handle, log_event=False)

    def enqueuer(self) -> Enqueuer:
        """The one of this environment."""
        if self._enqueuer is None:
            self._enqueuer = Enqueuer.from_environment(self._environ, self._folder)
        return self._enqueuer

    def _handle(self, event: Any, context: Any) -> Any:
        """Enqueue what the event asks for; an error is raised so that the service delivers again.

        An HTTP request is always answered.

        Returns:
            `Answer` of a direct invocation; of others what their service expects.
        """
        report = Report(self._logger, self._metrics)
        segment: Any = contextlib.nullcontext()
        if self._tracer is not None:
            segment = self._tracer.provider.in_subsegment(name=SUBSEGMENT)
        try:
            with deadline.within(seconds_for_redis(context)), segment as subsegment:
                handled = self.enqueuer().handle(
                    event,
                    now=time.time(),
                    by=f"lambda:{context.aws_request_id}",
                    xray="" if subsegment is None else self._environ.get(TRACE_HEADER, ""),
                    alias=alias_in(context.invoked_function_arn),
                )
                if subsegment is not None:
                    self._annotate(subsegment, handled)
        except Exception as error:
            report.failed(error, is_raised=not is_http(event))
            if is_http(event):
                return failure_answer(event, error)
            raise
        else:
            report.handled(handled)
            if handled.needs_item_failures and not self._has_warned:
                self._has_warned = True
                self._logger.warning(_ITEM_FAILURES, extra={"source": handled.source})
            return handled.answer_or_raise()
        finally:
            report.write_metrics()

    def _annotate(self, subsegment: Any, handled: Handled) -> None:
        answer = answer_of(handled.results)
        for name, value in {
            "service": self._logger.service,
            "source": handled.source,
            "enqueued": len(answer["enqueued"]),
            "duplicates": len(answer["duplicates"]),
            "failed": sum(each.error is not None for each in handled.results),
        }.items():
            subsegment.put_annotation(name, value)

    @functools.cached_property
    def _tracer(self) -> Any:
        """X-Ray's, if it was asked for; the SDK takes 50 ms at a start, and has to be in a layer of its own."""
        if not read(ForFunctions.tracing, self._environ):
            return None
        if importlib.util.find_spec("aws_xray_sdk") is None:
            self._logger.warning(
                "KIQBRIDGE_TRACING is on, but Python finds no aws_xray_sdk, so that nothing is traced; add a "
                "layer with aws-xray-sdk to the function, or turn the setting off"
            )
            return None
        from aws_lambda_powertools import Tracer  # noqa: PLC0415 - few trace

        return Tracer(service=self._logger.service, auto_patch=False)
