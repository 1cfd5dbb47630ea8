"""What operators see of an invocation: a log line for each record, and the metrics.

The lines have the form of Powertools' Logger: an object with level, message, timestamp, service and what
belongs to the line. They are collected and written in one call, since a line through the logging module
costs more than a job: 50 µs against 3. Arguments of jobs are never in them.
"""

import time
import traceback
from collections.abc import Mapping
from typing import Any

from kiqbridge.aws import emf, log_line
from kiqbridge.aws.answers import answer_of, described
from kiqbridge.aws.enqueue import UNKNOWN, Handled
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Record, Result
from kiqbridge.errors import EventError, KiqbridgeError, PayloadError
from kiqbridge.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reporting:
    """What all reports of a warm environment share.

    Attributes:
        service: name of the function in lines and metrics.
        namespace: CloudWatch's, of the metrics.
        level: least important level that is logged; an unknown one counts as INFO.
    """

    service: str
    namespace: str
    level: str = "INFO"

    def begin(self, request_id: str | None) -> "Report":
        """The report of an invocation; `request_id` is Lambda's."""
        return Report(self, request_id)


class Report:
    """The lines and metrics of one invocation, which `write` writes.

    Args:
        reporting: what all invocations share.
        request_id: of the invocation, as Lambda names it.
    """

    def __init__(self, reporting: Reporting, request_id: str | None) -> None:
        self._reporting = reporting
        self._common = {"service": reporting.service, "function_request_id": request_id}
        self._least = log_line.least(reporting.level)
        self._lines: list[bytes] = []
        self._counts: dict[str, int] = {}
        self._source = ""
        self._push_ms: float | None = None
        self._began = time.perf_counter()
        self._time = log_line.timestamp(time.time())

    def count(self, **counts: int) -> None:
        """Add to the metrics of this invocation."""
        for name, number in counts.items():
            self._counts[name] = self._counts.get(name, 0) + number

    def handled(self, handled: Handled) -> None:
        """What became of an event: a line for each record, or one for the event."""
        ms = round((time.perf_counter() - self._began) * 1000, 3)
        self._time = log_line.timestamp(time.time())
        self._source, self._push_ms = handled.source, handled.push_ms
        for result in handled.results:
            self._result(result, ms, is_raised=handled.error is not None)
        if handled.published is not None:
            self._published(handled.published)
        if handled.ignored:
            self._line(
                "INFO",
                "ignored",
                {"source": handled.source, "outcome": "ignored", "reason": handled.ignored},
            )
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
        about = about or {"source": UNKNOWN}
        reason = {"reason": str(error)}
        if isinstance(error, EventError | PayloadError):
            self.count(Refused=1)
            self._line("WARNING", "refused", {**about, "outcome": "refused", **reason})
            return
        if isinstance(error, HeldBack):
            self._line("INFO", "held back", {**about, "outcome": "held back", **reason})
            return
        self.count(Failed=1)
        more = {"outcome": "failed", "error_class": type(error).__name__, **reason}
        if not is_raised and not isinstance(error, KiqbridgeError):
            more["exception"] = "".join(traceback.format_exception(error))
        self._line("ERROR", "failed", {**about, **more})

    def warn(self, message: str, **about: Any) -> None:
        """A line about something that needs attention and stops nothing."""
        self._line("WARNING", message, about)

    def write(self, out: Any) -> None:
        """Write the lines and the metrics; `out` is a text stream."""
        if self._counts:
            self._lines.append(
                emf.line(
                    namespace=self._reporting.namespace,
                    service=self._reporting.service,
                    source=self._source,
                    counts=self._counts,
                    push_ms=self._push_ms,
                    now=time.time(),
                )
            )
        if self._lines:
            out.write(b"\n".join([*self._lines, b""]).decode())
            out.flush()
            self._lines = []

    def _published(self, about: Mapping[str, Any]) -> None:
        is_well = about["outcome"] in ("published", "unchanged")
        self._line("INFO" if is_well else "WARNING", "schedules", {"source": "publish", **about})

    def _result(self, result: Result, ms: float, *, is_raised: bool) -> None:
        about = _about(result.record)
        if result.error is not None:
            self.failed(result.error, about, is_raised=is_raised)
        elif result.ignored:
            self._line("INFO", "ignored", {**about, "outcome": "ignored", "reason": result.ignored})
        elif result.spilled:
            self.count(Spilled=len(result.spilled))
            jobs = answer_of([result])["spilled"]
            self._line(
                "WARNING",
                "spilled",
                {
                    **about,
                    "ms": ms,
                    "outcome": "spilled",
                    **(jobs[0] if len(jobs) == 1 else {"spilled": jobs}),
                },
            )
        else:
            self._done(result, {**about, "ms": ms})

    def _done(self, result: Result, about: dict[str, Any]) -> None:
        duplicates = sum(job.duplicate for job in result.jobs)
        enqueued, stale = len(result.jobs) - duplicates, len(result.stale)
        self.count(Enqueued=enqueued, Duplicates=duplicates, Stale=stale)
        if result.paused:
            self.count(Paused=len(result.paused))
        if result.skipped:
            self.count(Skipped=len(result.skipped))
        if log_line.LEVELS["INFO"] < self._least:
            return
        about["outcome"] = _outcome(enqueued, duplicates, result)
        if len(result.jobs) == 1 and not stale:
            [job] = result.jobs
            about |= described(job)
            if job.at is not None:
                about["at"] = job.at
        else:
            about |= answer_of([result])
        self._line("INFO", "done", about)

    def _line(self, level: str, message: str, about: Mapping[str, Any]) -> None:
        if log_line.LEVELS[level] < self._least:
            return
        entry = {
            "level": level,
            "message": message,
            "timestamp": self._time,
            **self._common,
            **about,
        }
        self._lines.append(log_line.dumps(entry))


def _about(record: Record) -> dict[str, Any]:
    """Which record it is: its source, who sent it, and its id."""
    about: dict[str, Any] = {"source": record.source}
    if record.origin:
        about["origin"] = record.origin
    if record.item:
        about["event_id"] = record.item
    elif record.identity is not None:
        parts = [part for part in record.identity.parts if part and part != record.origin]
        about["event_id"] = " ".join(parts)
    return about


def _outcome(enqueued: int, duplicates: int, result: Result) -> str:
    if enqueued:
        return "enqueued"
    if duplicates:
        return "duplicate"
    left_out = {"stale": result.stale, "paused": result.paused, "skipped": result.skipped}
    return next((name for name, ticks in left_out.items() if ticks), "stopped by middleware")
