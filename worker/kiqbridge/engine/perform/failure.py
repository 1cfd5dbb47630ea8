"""From a job that did not simply succeed to what is written of it (§7): the same decision for threads, event loops and child processes.

1. The job raised `ConnectionError("no route")`; its text is parsed again, since middleware or the job may
   have changed the payload.
2. Decide (retry.py, pure): `retry` in 17 s, and the payload with what is recorded of the failure:
   `{"class":"Mail","args":[7],…,"error_message":"no route","error_class":"ConnectionError","retry_count":0}`
3. Log it: `ConnectionError: no route; it is tried again in 17 s`.
4. Answer with a `Settlement`: the target, its time, the text to be kept, the effects of the job's end (ending.py),
   and what calls the handlers. A dead job is made by `ending.dead`.
5. The thread that fetched the job writes it (settling.py), and only then calls the handlers, or has them called in the
   background (notifications.py).

A job that makes room, is put off, refused or cannot be read becomes a `Settlement` here as well, and so does one that
has succeeded while somebody watches for its end.
"""

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.client import rails
from kiqbridge.client.current import CONTEXT, RUNTIME, Cancelled
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.client.registry import Handling, Registry
from kiqbridge.engine.perform.ended import LastEnded
from kiqbridge.engine.settle.ending import (
    Refusal,
    Settlement,
    Target,
    dead,
    dead_unread,
    ending,
    wants_output,
)
from kiqbridge.engine.settle.error_report import error_message, rules_after
from kiqbridge.engine.settle.notifications import Handlers, log_failure
from kiqbridge.engine.settle.output import NOT_PERFORMED, JobOutput, encode_output
from kiqbridge.engine.settle.retry import DEFAULT_HANDLING, PutOff, RetryPolicy, decide
from kiqbridge.errors import JobCancelled, JobSkipped
from kiqbridge.runtime import job_forks, user_code
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import new_jid
from kiqbridge.wire.raw_job import UNREADABLE_CLASS, showable
from kiqbridge.wire.tick_mark import EndKind

if TYPE_CHECKING:
    from kiqbridge.engine.perform.execution import Execution

logger = logging.getLogger(__name__)

_OUTCOMES: Final = {Target.RETRY: "failed", Target.DEAD: "dead"}
"""What is noted of an execution that has failed; any other was discarded."""


@dataclass(slots=True, eq=False, kw_only=True)
class Failures:
    """Decides about jobs that did not simply succeed, without touching Redis.

    Attributes:
        keys: the namespace.
        registry: the declared jobs.
        policy: of failures; asked at each one, since the wire profile may follow the fleet.
        handlers: called once a failure is written.
        rng: for the jitter of retries.
        wall_now: epoch seconds.
        ended: notes what fails or ends without a success, if given.
    """

    keys: Keys
    registry: Registry
    policy: Callable[[], RetryPolicy]
    handlers: Handlers
    rng: random.Random
    wall_now: Callable[[], float] = time.time
    ended: LastEnded | None = None

    def failed(self, execution: "Execution", error: BaseException) -> Settlement:
        """The job, or its middleware, raised this: a retry, dead or discarded (§8)."""
        definition, policy = execution.definition, self.policy()
        try:
            payload = _with_jid(json_text.loads(execution.text))
            ruling = rails.rules_of(payload, definition, self.registry)
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
        execution: "Execution",
        payload: dict[str, Any],
        error: BaseException,
        policy: RetryPolicy,
        rules: Handling,
    ) -> Settlement:
        now, definition = self.wall_now(), execution.definition
        decision = decide(
            payload,
            error,
            queue=execution.queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=policy,
            now=now,
            rng=self.rng,
            handling=rules_after(error, rules),
        )
        if job_forks.in_child:  # a rule of the class forked
            job_forks.end()
        target, kept = decision.target, decision.payload
        outcome = {
            Target.RETRY: f"is tried again in {decision.at - now:.0f} s",
            Target.DEAD: "is dead, no tries are left",
        }.get(target, "is dropped")
        log_failure(error, outcome, payload, definition)
        if self.ended is not None and self.ended.has_room:
            self.ended.note(
                payload,
                execution.queue,
                _OUTCOMES.get(target, "discarded"),
                now,
                error,
                name=execution.class_name,
                took_s=execution.elapsed_s,
            )
        # The error holds on to all frames that it went through. Kept without need until it is written, those
        # of many jobs made the garbage collector take half of a failing worker's time.
        is_over = target is not Target.RETRY
        notify = (
            partial(self._notify, error, payload, kept if is_over else None)
            if self.handlers.listens(died=is_over)
            else None
        )
        if target is Target.RETRY:
            text = json_text.dumps_moved(kept, execution.text)
            return Settlement(
                target=target, score=decision.at, text=text, counted=True, notify=notify
            )
        keys, took_s = self.keys, execution.elapsed_s
        if target is Target.DEAD:
            return dead(
                keys, execution.text, payload, kept, error, now=now, took_s=took_s, notify=notify
            )
        effects = ending(keys, payload, "discarded", now, error=error, took_s=took_s, kept=kept)
        return Settlement(
            target=target, score=now, text=b"", counted=True, notify=notify, effects=effects
        )

    def put_off(self, execution: "Execution", error: BaseException, later: PutOff) -> Settlement:
        """The job comes back later, without a failure and without a retry (`PutOff`)."""
        payload = _with_jid(json_text.loads(execution.text))
        kept = {"queue": execution.queue, **payload, **later.attributes}
        delay_s = later.delay_s * (1 + self.rng.random() * later.jitter)
        said = f", {later.said}" if later.said else ""
        logger.info("put off for %.0f s%s: %s", delay_s, said, error_message(error))
        return Settlement(
            target=Target.SCHEDULE,
            score=self.wall_now() + delay_s,
            text=json_text.dumps_moved(kept, execution.text),
            counted=False,
        )

    def succeeded(self, execution: "Execution") -> Settlement | None:
        """A job has succeeded, and somebody watches for its end; None: it leaves as any other."""
        payload, result = json_text.loads(execution.text), execution.result
        outcome: EndKind = "done"
        error: JobSkipped | JobCancelled | None = None
        output: JobOutput | None = None
        if result is NOT_PERFORMED:
            outcome, error = (
                "skipped",
                JobSkipped("middleware ended this job without performing it"),
            )
        elif result is Cancelled.CANCELLED:
            outcome = "cancelled"
            error = JobCancelled("this job was cancelled before it was complete")
        else:
            output = encode_output(result if wants_output(payload) else None)
        effects = ending(
            self.keys,
            payload,
            outcome,
            self.wall_now(),
            error=error,
            output=output,
            took_s=None if outcome == "skipped" else execution.elapsed_s,
            kept=execution.payload,
        )
        if not effects:
            return None
        return Settlement(
            target=Target.DISCARD, score=0, text=b"", counted=True, failed=False, effects=effects
        )

    def interrupted(self, execution: "Execution") -> Settlement:
        """An iterable job makes room: it is pushed again, to the end of its queue (§13.2).

        Raises:
            BaseException: what client middleware raised.
        """
        runtime = RUNTIME.get()
        if runtime is None:
            raise RuntimeError("interrupted, but by no worker")
        now = self.wall_now()
        payload: dict[str, Any] = json_text.loads(execution.text)
        payload.setdefault("queue", execution.queue)
        pushed = prepare_moved(
            payload, now, runtime.client.middleware, runtime.client.wire_profile, execution.text
        )
        if pushed is None:
            logger.warning("interrupted, and client middleware stopped its push: it is dropped")
            stopped = JobSkipped("client middleware stopped the push of this interrupted job")
            effects = ending(
                self.keys,
                payload,
                "skipped",
                now,
                error=stopped,
                took_s=execution.elapsed_s,
                kept=payload,
            )
            return Settlement(
                target=Target.DISCARD, score=now, text=b"", counted=True, effects=effects
            )
        elapsed = {"elapsed": round(execution.elapsed_s, 3)}
        logger.info("interrupted: goes on later", extra=elapsed)
        queue, text = pushed
        return Settlement(target=Target.REPUSH, score=now, text=text, counted=True, queue=queue)

    def refused(
        self, refusal: Refusal, payload: dict[str, Any], text: bytes, queue: str
    ) -> Settlement:
        """Decide about a job that does not run here: neither a success nor a failure, unless it is refused for good."""
        if refusal.queue is not None:
            return Settlement(
                target=Target.ROUTE, score=0, text=text, counted=False, queue=refusal.queue
            )
        if refusal.end is not None:
            return self._not_performed(payload, queue, *refusal.end)
        error, given = refusal.error, payload
        payload = _with_jid(given)
        if error is None:
            kept = showable(payload)
            return Settlement(
                target=Target.SCHEDULE,
                score=refusal.at or 0,
                text=text if kept is given else json_text.dumps_moved(kept, text),
                counted=False,
            )
        now = self.wall_now()
        kept = self.policy().failed(payload, error, queue=queue, now=now)
        notify = partial(self._notify, error, payload, kept, "a job was refused")
        if self.ended is not None:
            self.ended.note(payload, queue, "dead", now, error)
        return dead(self.keys, text, payload, kept, error, now=now, notify=notify)

    def _not_performed(
        self, payload: dict[str, Any], queue: str, outcome: EndKind, why: str
    ) -> Settlement:
        """A job leaves Redis without having been performed: neither a success nor a failure. Logged."""
        token = CONTEXT.set((payload, queue))
        try:
            logger.info("not performed: %s", why)
        finally:
            CONTEXT.reset(token)
        now, error = self.wall_now(), JobSkipped(why)
        if self.ended is not None:
            self.ended.note(payload, queue, outcome, now, error)
        effects = ending(self.keys, payload, outcome, now, error=error, kept=payload)
        return Settlement(
            target=Target.DISCARD, score=0, text=b"", counted=True, failed=False, effects=effects
        )

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
        return dead_unread(
            self.keys,
            text,
            error,
            queue=queue,
            now=self.wall_now(),
            profile=self.policy().profile,
            notify=partial(self.handlers.report, error, context),
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
            self.handlers.died(died, error)
        self.handlers.report(error, {"context": context, "job": payload})


def _with_jid(payload: dict[str, Any]) -> dict[str, Any]:
    """A job without an id gets one: in a sorted set it would be the same as its twins."""
    return payload if payload.get("jid") not in (None, "") else {**payload, "jid": new_jid()}
