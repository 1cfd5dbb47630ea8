"""From a job that did not simply succeed to what is written of it: the step between perform and settle (§7).

1. The job raised `ConnectionError("no route")`; its text is parsed again, since middleware or the job may
   have changed the payload.
2. Decide (settle/retry.py, pure): `retry` in 17 s, and the payload with what is recorded of the failure:
   `{"class":"Mail","args":[7],…,"error_message":"no route","error_class":"ConnectionError","retry_count":0}`
3. Log it: `ConnectionError: no route; it is tried again in 17 s`.
4. Answer with a `Settlement`: the verdict, its time, the text to be kept, and what calls the handlers.
5. Whoever fetched the job writes it (settle/settling.py), and only then calls the handlers, or has them
   called in the background (settle/notifications.py).

A job that makes room, is put off, refused or cannot be read becomes a `Settlement` here as well, and so does
one that has ended, well or not, while a state machine waits for it, that is under flow control, or that belongs
to a schedule: its report (settle/end_report.py), and its end for the ledger of the schedule.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kiqbridge.client import rails
from kiqbridge.client.current import CONTEXT, RUNTIME
from kiqbridge.client.iteration import Cancelled
from kiqbridge.client.registry import Handling, Registry
from kiqbridge.errors import JobCancelled, JobSkipped, OverLimit
from kiqbridge.perform.execution import Execution
from kiqbridge.perform.gate import Diversion
from kiqbridge.perform.job_lines import log_failure
from kiqbridge.runtime import job_forks, user_code
from kiqbridge.settle.end_report import (
    end_of,
    is_awaited,
    report_failure,
    report_success,
    wants_output,
)
from kiqbridge.settle.error_report import rules_after
from kiqbridge.settle.failed_payload import error_class, error_message
from kiqbridge.settle.notifications import Handlers
from kiqbridge.settle.over_limit import COUNT, may_be_put_off, put_off
from kiqbridge.settle.retry import DEFAULT_HANDLING, RetryPolicy, decide
from kiqbridge.settle.settlement import Settlement, Verdict
from kiqbridge.settle.task_report import NOT_PERFORMED, encode_output
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import MAX_TASK_TOKEN, TASK_TOKEN, TICK, new_jid, shorten
from kiqbridge.wire.raw_job import UNREADABLE_CLASS, unreadable_job
from kiqbridge.wire.showable import showable
from kiqbridge.wire.task_token import task_of
from kiqbridge.wire.tick_mark import EndKind, LedgerEnd

logger = logging.getLogger(__name__)


class Failures:
    """Decides about jobs that did not simply succeed, without touching Redis.

    Args:
        registry: the declared jobs.
        policy: of failures; asked at each one, since the wire profile may follow the fleet.
        handlers: called once a failure is written.
        rng: for the jitter of retries.
        wall_now: epoch seconds.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        policy: Callable[[], RetryPolicy],
        handlers: Handlers,
        rng: random.Random,
        wall_now: Callable[[], float] = time.time,
    ) -> None:
        self._registry = registry
        self._policy = policy
        self._handlers = handlers
        self._rng = rng
        self._wall_now = wall_now

    def failed(self, execution: Execution, error: BaseException) -> Settlement:
        """The job, or its middleware, raised this: a retry, dead or discarded (§8)."""
        definition, policy = execution.definition, self._policy()
        try:
            payload = _with_jid(json_text.loads(execution.text))
            ruling = rails.rules_of(payload, definition, self._registry)
            rules = ruling.handling if ruling else DEFAULT_HANDLING
            return self._decided(execution, payload, error, policy, rules)
        except BaseException as second:  # noqa: BLE001 - a rule may do anything to what it is given
            user_code.log_error(
                logger,
                second,
                "the rules of class %s failed: it is treated as if it had none",
                definition.name if definition else "?",
            )
        payload = _with_jid(json_text.loads(execution.text))
        policy = replace(policy, backtrace_cleaner=None)
        return self._decided(execution, payload, error, policy, DEFAULT_HANDLING)

    def _decided(
        self,
        execution: Execution,
        payload: dict[str, Any],
        error: BaseException,
        policy: RetryPolicy,
        rules: Handling,
    ) -> Settlement:
        now, definition = self._wall_now(), execution.definition
        decision = decide(
            payload,
            error,
            queue=execution.queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=policy,
            now=now,
            rng=self._rng,
            handling=rules_after(error, rules),
        )
        text = json_text.dumps_moved(decision.payload, execution.text)
        if job_forks.in_child:  # a rule of the class forked
            job_forks.end()
        is_over = decision.verdict is not Verdict.RETRY
        report = b""
        if is_over and is_awaited(payload):
            ended: EndKind = "dead" if decision.verdict is Verdict.DEAD else "discarded"
            report = report_failure(payload, ended, error, now, kept=decision.payload)
        end = self._end_of_failed(execution, payload, decision.verdict, error, now)
        outcome = {
            Verdict.RETRY: f"is tried again in {decision.at - now:.0f} s",
            Verdict.DEAD: "is dead, no tries are left",
        }.get(decision.verdict, "is dropped")
        log_failure(error, outcome, payload, definition)
        # The error holds on to all frames that it went through. Kept for nobody until it is written, those
        # of many jobs made the garbage collector take half of a failing worker's time.
        notify = (
            partial(self._notify, error, payload, decision.payload if is_over else None)
            if self._handlers.listens(died=is_over)
            else None
        )
        if (report or end) and decision.verdict is Verdict.DISCARD:
            return _left(report, end, notify=notify)
        return Settlement(
            verdict=decision.verdict,
            score=now if is_over else decision.at,
            text=text,
            counted=True,
            notify=notify,
            report=report,
            end=end,
        )

    @staticmethod
    def _end_of_failed(
        execution: Execution,
        payload: Mapping[str, Any],
        verdict: Verdict,
        error: BaseException,
        now: float,
    ) -> LedgerEnd | None:
        if TICK not in payload or verdict is Verdict.RETRY:
            return None
        outcome: EndKind = "dead" if verdict is Verdict.DEAD else "discarded"
        return end_of(payload, outcome, now, took_s=execution.elapsed_s, error=error)

    def over_limit(self, execution: Execution, error: OverLimit) -> Settlement | None:
        """A limit stayed reached: the job comes back later, without a failure and without a retry.

        Returns None where it counts as any other error (settle/over_limit.py).
        """
        payload = _with_jid(json_text.loads(execution.text))
        rules = execution.definition.handling if execution.definition is not None else None
        if not may_be_put_off(payload, error, rules):
            return None
        now = self._wall_now()
        kept, at = put_off(payload, error, queue=execution.queue, now=now, rng=self._rng)
        logger.info(
            "put off for %.0f s, for the %s. time: %s", at - now, kept[COUNT], error_message(error)
        )
        return Settlement(
            verdict=Verdict.SCHEDULE,
            score=at,
            text=json_text.dumps_moved(kept, execution.text),
            counted=False,
        )

    def succeeded(self, execution: Execution) -> Settlement | None:
        """A job that a state machine waits for, or of a schedule, has succeeded: that is noted."""
        payload, now = json_text.loads(execution.text), self._wall_now()
        report = self._report_of_success(execution, payload, now)
        outcome: EndKind = "done"
        if execution.result is Cancelled.CANCELLED:
            outcome = "cancelled"
        elif execution.result is NOT_PERFORMED:
            outcome = "skipped"
        took_s = None if outcome == "skipped" else execution.elapsed_s
        end = end_of(payload, outcome, now, took_s=took_s)
        return _left(report, end, failed=False) if report or end else None

    @staticmethod
    def _report_of_success(execution: Execution, payload: Mapping[str, Any], now: float) -> bytes:
        if not is_awaited(payload):
            return b""
        has_task = task_of(payload) is not None
        if TASK_TOKEN in payload and not has_task:
            logger.warning(
                "%s is no text of 1 to %d characters: nothing is reported to Step Functions",
                TASK_TOKEN,
                MAX_TASK_TOKEN,
            )
        if execution.result is NOT_PERFORMED:
            error = JobSkipped("middleware ended this job without performing it")
            if has_task:
                logger.warning("%s; Step Functions gets a failure", error)
            return report_failure(payload, "skipped", error, now, kept=execution.payload)
        if execution.result is Cancelled.CANCELLED:
            cancelled = JobCancelled("this job was cancelled before it was complete")
            return report_failure(payload, "cancelled", cancelled, now, kept=execution.payload)
        output = encode_output(execution.result if wants_output(payload) else None)
        if output.omitted:
            logger.warning(
                "the return value %s: %s",
                output.omitted,
                "Step Functions gets an object with the members jid and omitted in its place"
                if has_task
                else "it is not kept as a result",
            )
        return report_success(payload, output, now)

    def interrupted(self, execution: Execution) -> Settlement:
        """An iterable job makes room: it is pushed again, to the end of its queue (§13.2).

        Raises:
            BaseException: what client middleware raised.
        """
        runtime = RUNTIME.get()
        if runtime is None:
            raise RuntimeError("interrupted, but by no worker")
        now = self._wall_now()
        payload: dict[str, Any] = json_text.loads(execution.text)
        payload.setdefault("queue", execution.queue)
        pushed = runtime.client.prepare_moved(payload, now, execution.text)
        if pushed is None:
            logger.warning("interrupted, and client middleware stopped its push: it is dropped")
            stopped = JobSkipped("client middleware stopped the push of this interrupted job")
            report = report_failure(payload, "skipped", stopped, now, kept=payload)
            end = end_of(payload, "skipped", now, took_s=execution.elapsed_s)
            if report or end:
                return _left(report, end)
            return Settlement(verdict=Verdict.DISCARD, score=now, text=execution.text, counted=True)
        elapsed = {"elapsed": round(execution.elapsed_s, 3)}
        logger.info("interrupted: goes on later", extra=elapsed)
        queue, text = pushed
        return Settlement(verdict=Verdict.REPUSH, score=now, text=text, counted=True, queue=queue)

    def diverted(
        self, diversion: Diversion, payload: dict[str, Any], text: bytes, queue: str
    ) -> Settlement:
        """It does not run here: neither a success nor a failure, unless it is refused for good."""
        if diversion.queue is not None:
            return Settlement(
                verdict=Verdict.ROUTE, score=0, text=text, counted=False, queue=diversion.queue
            )
        if diversion.expired:
            return self._not_performed(diversion.expired, "expired", payload, text, queue)
        if diversion.cancelled:
            return self._not_performed(diversion.cancelled, "cancelled", payload, text, queue)
        error, given = diversion.error, payload
        payload = _with_jid(given)
        if error is None:
            kept = showable(payload)
            return Settlement(
                verdict=Verdict.SCHEDULE,
                score=diversion.at or 0,
                text=text if kept is given else json_text.dumps_moved(kept, text),
                counted=False,
            )
        now = self._wall_now()
        failed = self._policy().failed(payload, error, queue=queue, now=now)
        return Settlement(
            verdict=Verdict.DEAD,
            score=now,
            text=json_text.dumps_moved(failed, text),
            counted=True,
            notify=partial(self._notify, error, payload, failed, "a job was refused"),
            report=report_failure(payload, "dead", error, now, kept=failed),
            end=end_of(payload, "dead", now, error=error),
        )

    def _not_performed(
        self, why: str, outcome: EndKind, payload: dict[str, Any], text: bytes, queue: str
    ) -> Settlement:
        token = CONTEXT.set((payload, queue))
        try:
            logger.info("not performed: %s", why)
        finally:
            CONTEXT.reset(token)
        left = left_out(payload, outcome, JobSkipped(why), self._wall_now())
        if left.report or left.end:
            return left
        # It leaves with the acknowledgement of its chunk, without a round trip of its own.
        return replace(left, verdict=Verdict.DISCARD, text=text)

    def malformed(self, text: bytes, queue: str, error: Exception) -> Settlement:
        """What cannot be a job is kept in the dead set, as the argument of one; it is not counted (§11)."""
        logger.error(
            "a text in queue %s cannot be a job (%s); it is kept in the dead set, as the argument of a job "
            "of class %s: %s",
            queue,
            error,
            UNREADABLE_CLASS,
            shorten(text),
        )
        context = {"context": "a job's text cannot be read", "jobstr": text}
        now = self._wall_now()
        return Settlement(
            verdict=Verdict.DEAD,
            score=now,
            text=unreadable_job(
                text,
                error_class=error_class(error),
                error_message=error_message(error),
                queue=queue,
                now=now,
                profile=self._policy().profile,
            ),
            counted=False,
            notify=partial(self._handlers.report, error, context),
        )

    def _notify(
        self,
        error: BaseException,
        payload: Mapping[str, Any],
        died: Mapping[str, Any] | None,
        context: str = "a job raised an error",
    ) -> None:
        """Call the handlers; `died` is the payload as it was kept or discarded, None for a retry."""
        if died is not None:
            self._handlers.died(died, error)
        self._handlers.report(error, {"context": context, "job": payload})


def left_out(
    payload: Mapping[str, Any], outcome: EndKind, error: JobSkipped, now: float
) -> Settlement:
    """A job leaves Redis without having been performed: neither a success nor a failure."""
    report = report_failure(payload, outcome, error, now, kept=payload)
    return _left(report, end_of(payload, outcome, now), failed=False)


def _left(
    report: bytes,
    end: LedgerEnd | None,
    *,
    failed: bool = True,
    notify: Callable[[], None] | None = None,
) -> Settlement:
    """The job leaves Redis, and its report or its end, or both, take its place."""
    return Settlement(
        verdict=Verdict.LEAVE,
        score=0,
        text=b"",
        counted=True,
        failed=failed,
        notify=notify,
        report=report,
        end=end,
    )


def _with_jid(payload: dict[str, Any]) -> dict[str, Any]:
    """A job without an id gets one: in a sorted set it would be the same as its twins."""
    return payload if payload.get("jid") not in (None, "") else {**payload, "jid": new_jid()}
