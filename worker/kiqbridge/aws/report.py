"""What operators see of an invocation: log lines that name each record and its job, and the metrics.

Records of one job each that became the same share a line: of a batch, that line would be most of the function's
CPU, and of what CloudWatch bills. Arguments of jobs are never in them.
"""

import time
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.aws.enqueue import UNKNOWN, Handled
from kiqbridge.aws.environment import PUSH_MS, Metrics
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Record, Result, answer_of, with_time
from kiqbridge.errors import EventError, KiqbridgeError, PayloadError

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
