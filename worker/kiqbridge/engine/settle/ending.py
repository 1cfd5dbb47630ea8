"""What a job asks for that has ended, before it is written: where it goes, and the effects of its end. Pure.

A job that simply succeeded asks for nothing. `dead`, `dead_unread` and `killed` are the only makers of a dead job: one
that has no tries left, is refused, overran, killed its child process, cannot be read, cannot become a job when it is
due, or was killed by an operator. Each death has the text for `dead`, as Ruby's pages can show it.

The effects are made by the script that removes the job from Redis. An attribute of the payload names what waits for the
end of the job (wire/job_record.py):

    tick    how it ended is added to the ends of its schedule (wire/tick_mark.py)
    flow    its end is added to `kb:flow:ends`: the outbox frees its lock, counts its batch, begins the next job

and what a feature watches (the seam `ends` of kiqbridge/feature.py).

A job that goes on, by a retry or another push, has no end. Nearly all jobs are not watched, and have no effects.
A new consequence of an end is an effect here, and its part in store/scripts/parts/leave.lua.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, Protocol

from kiqbridge import seams
from kiqbridge.engine.settle.error_report import error_class, error_message
from kiqbridge.engine.settle.output import JobOutput
from kiqbridge.errors import ConfigError, JobRefused, JobRemoved, JobSkipped
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.job_record import JobText, is_watched, watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import ENCRYPTED, FLOW, TICK, Profile, retries_of
from kiqbridge.wire.raw_job import KEPT_IN, MAX_PARSED_BYTES, failed_text, showable, unreadable_job
from kiqbridge.wire.tick_mark import EndKind, JobEnd, tick_mark_of

logger = logging.getLogger(__name__)

MOST_MESSAGE: Final = 2_000
"""Characters of an error's message that are kept with an end."""

_FAILED: Final = ("dead", "discarded")


class Target(StrEnum):
    """Where a job goes that did not simply succeed.

    REPUSH is the end of its queue, for an iterable job that makes room; SCHEDULE puts it off,
    untouched but for the count of a limiter. ROUTE is the end of another queue, untouched as well. DISCARD leaves
    Redis: with the acknowledgement of its chunk, or by a script of its own if its end has effects.
    """

    RETRY = "retry"
    DEAD = "dead"
    DISCARD = "discard"
    REPUSH = "repush"
    SCHEDULE = "schedule"
    ROUTE = "route"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a job asks for that did not simply succeed.

    Attributes:
        target: where it goes.
        score: epoch seconds, the time of the retry or of death.
        text: the job as it shall be kept; without meaning for DISCARD.
        counted: whether it counts as processed and failed (§11: malformed texts do not).
        failed: whether it counts as failed, if it is counted.
        notify: calls the error and death handlers; to be called once it is written, and only then.
        queue: where a job goes that is routed or pushed again.
        effects: of its end; the script that writes it makes them.
    """

    target: Target
    score: float
    text: bytes
    counted: bool
    notify: Callable[[], None] | None = None
    queue: str = ""
    failed: bool = True
    effects: Sequence[Effect] = ()

    @property
    def leaves_with_chunk(self) -> bool:
        """Whether it leaves Redis with the acknowledgement of its chunk, and nothing is written of it."""
        return self.target is Target.DISCARD and not self.effects

    @property
    def goes_on(self) -> bool:
        """Whether it has made room, or was put off, and its run goes on later."""
        return self.target in (Target.REPUSH, Target.SCHEDULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What happens with a job that must not run here, or not now; one of these is given.

    Attributes:
        at: it goes to the schedule, to come back then (epoch seconds), bytes untouched.
        queue: it goes to this queue, bytes untouched.
        error: it goes to the dead set, for this reason.
        expired, cancelled, skipped: it is not performed, and ends so, for this reason.
    """

    at: float | None = None
    queue: str | None = None
    error: JobRefused | None = None
    expired: str = ""
    cancelled: str = ""
    skipped: str = ""

    @property
    def end(self) -> tuple[EndKind, str] | None:
        """How it ends without being performed, and why; None: it goes elsewhere."""
        ends: Mapping[EndKind, str] = {
            "expired": self.expired,
            "cancelled": self.cancelled,
            "skipped": self.skipped,
        }
        return next(((outcome, why) for outcome, why in ends.items() if why), None)


class Barrier(Protocol):
    """What holds some jobs back for as long as something is in Redis."""

    def look(self, connection: Any, now: float) -> bool:
        """Read whether it holds any back at `now` (epoch seconds); may raise what Redis raises."""

    def check(self, payload: Mapping[str, Any]) -> Refusal | None:
        """As of the last look; None: this job may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """A job that has ended.

    Attributes:
        keys: the namespace.
        payload: the job as it was fetched; of a text its `watched_payload`.
        outcome: how it ended.
        at: when, epoch seconds.
        error: the last one, or what stands for it; None: it is done.
        output: what it returned, if it is done.
        took_s: seconds that its last run took; None = it was not run.
        kept: the job as it is kept, for its number of retries.
    """

    keys: Keys
    payload: Mapping[str, Any]
    outcome: EndKind
    at: float
    error: BaseException | None = None
    output: JobOutput = JobOutput("null")
    took_s: float | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)

    def for_outbox(
        self, flow: Mapping[str, Any] | None = None, *, output: str | None = None, report: str = ""
    ) -> Effect:
        """The effect that adds its end to those which the outbox applies."""
        payload, error = self.payload, self.error
        end = FlowEnd(
            flow=flow or {},
            jid=str(payload.get("jid", "")),
            job_class=str(payload.get("wrapped") or payload.get("class", "")),
            queue=str(payload.get("queue", "")),
            outcome=self.outcome,
            at=self.at,
            error=error_class(error) if error is not None else "",
            message=error_message(error)[:MOST_MESSAGE] if error is not None else "",
            output=output,
            encrypted=output is not None and ENCRYPTED in payload,
            report=report,
        )
        return Effect("add", [self.keys.flow_ends], [0, end.to_text()])


def ending(
    keys: Keys,
    payload: Mapping[str, Any],
    outcome: EndKind,
    now: float,
    *,
    error: BaseException | None = None,
    output: JobOutput | None = None,
    took_s: float | None = None,
    kept: Mapping[str, Any] | None = None,
) -> Sequence[Effect]:
    """The effects of a job's end; see `EndedJob` for the arguments."""
    if not is_watched(payload):
        return ()
    ended = EndedJob(
        keys=keys,
        payload=payload,
        outcome=outcome,
        at=now,
        error=error,
        output=output or JobOutput("null"),
        took_s=took_s,
        kept=kept or {},
    )
    return [
        effect
        for attribute, effects_of in {
            FLOW: _flow_end,
            **seams.by_name("ends"),
            TICK: _tick_end,
        }.items()
        if attribute in payload
        for effect in effects_of(ended)
    ]


def stopped_ending(keys: Keys, text: bytes, now: float) -> Sequence[Effect]:
    """The effects of the end of a due job, `text`, whose push client middleware has stopped."""
    error = JobSkipped("client middleware stopped the push of this job when it was due")
    return ending(keys, watched_payload(text), "skipped", now, error=error)


def dead(
    keys: Keys,
    text: bytes,
    payload: Mapping[str, Any],
    kept: Mapping[str, Any],
    error: BaseException,
    *,
    now: float,
    took_s: float | None = None,
    notify: Callable[[], None] | None = None,
) -> Settlement:
    """A job dies whose text is read.

    Args:
        keys: the namespace.
        text: as it was fetched.
        payload: what that says.
        kept: the payload with what is recorded of the failure (retry.py).
        error: the last one.
        now: epoch seconds.
        took_s: seconds that its last run took; None = it was not run.
        notify: calls the handlers, once it is written.
    """
    return Settlement(
        target=Target.DEAD,
        score=now,
        text=json_text.dumps_moved(kept, text),
        counted=True,
        notify=notify,
        effects=ending(keys, payload, "dead", now, error=error, took_s=took_s, kept=kept),
    )


def dead_unread(
    keys: Keys,
    text: bytes,
    error: BaseException,
    *,
    queue: str,
    now: float,
    profile: Profile,
    is_job: bool = False,
    notify: Callable[[], None] | None = None,
) -> Settlement:
    """A text dies that is not read: it is kept as the argument of a job that every Sidekiq can show.

    Arguments as those of `dead`, and:
        queue: where it was found.
        profile: the form of timestamps.
        is_job: it can be a job, but is no reading: what is recorded of its failure is added to its bytes.
    """
    kept, record = text, unreadable_job
    if is_job:
        job = JobText(text)
        if job.is_readable:
            item = showable({"jid": None, **job.item})
            kept = json_text.dumps_moved(item, text) if KEPT_IN in item else text
        if job.is_readable or len(text) > MAX_PARSED_BYTES:
            record = failed_text
    return Settlement(
        target=Target.DEAD,
        score=now,
        text=record(
            kept,
            error_class=error_class(error),
            error_message=error_message(error),
            queue=queue,
            now=now,
            profile=profile,
        ),
        counted=is_job,
        notify=notify,
        effects=ending(keys, watched_payload(text), "dead", now, error=error),
    )


def killed(keys: Keys, job: JobText, by: str, *, now: float, profile: Profile) -> Settlement:
    """An operator kills a job; `by` says who. It is kept as it is, if its text is an object."""
    error = JobRemoved(f"{by} killed it")
    if not job.item:
        return dead_unread(keys, job.text, error, queue=job.queue, now=now, profile=profile)
    effects = ending(keys, watched_payload(job.text), "dead", now, error=error)
    return Settlement(target=Target.DEAD, score=now, text=job.text, counted=False, effects=effects)


def wants_output(payload: Mapping[str, Any]) -> bool:
    """Whether what the job returns is to be encoded: a feature watches for its end, or its `flow` keeps it."""
    flow = flow_of(payload)
    return (flow is not None and _keeps_value(flow)) or any(
        name in payload for name in seams.by_name("ends")
    )


def _flow_end(ended: EndedJob) -> Sequence[Effect]:
    flow = flow_of(ended.payload)
    if flow is None:
        return ()
    return [ended.for_outbox(flow, output=_value(ended) if _keeps_value(flow) else None)]


def _tick_end(ended: EndedJob) -> Sequence[Effect]:
    mark = tick_mark_of(ended.payload)
    if mark is None:
        return ()
    payload, error = ended.payload, ended.error
    end = JobEnd(
        at=mark.at,
        jid=str(payload.get("jid", "")),
        outcome=ended.outcome,
        ended_at=ended.at,
        took_s=ended.took_s,
        error=error_class(error) if error is not None and ended.outcome in _FAILED else "",
        retries=retries_of(payload),
    )
    ledger = [ended.keys.ends(mark.schedule), ended.keys.ticks(mark.schedule)]
    return [Effect("ledger", ledger, [mark.at, end.to_text()])]


def _keeps_value(flow: Mapping[str, Any]) -> bool:
    asked = seams.by_name("values")
    return any(asked[name](flow) for name in asked.keys() & flow.keys())


def _value(ended: EndedJob) -> str | None:
    """What the job returned, as it is kept with its end. None: it failed, or its value cannot be kept."""
    output = ended.output
    if ended.error is not None:
        return None
    if output.omitted:
        logger.warning("the return value %s: it is not kept as a result", output.omitted)
        return None
    if ENCRYPTED not in ended.payload:
        return output.text
    from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

    try:
        return sealing().encrypt_value(str(ended.payload.get("jid", "")), output.text)
    except ConfigError as error:  # the job is done, and must not run again
        logger.error("what an encrypted job returned is not kept: %s", error)  # noqa: TRY400 - it says all
        return None
