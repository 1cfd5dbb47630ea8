"""What comes about when a job ends, as effects of the script by which it leaves Redis.

Who watches for the end of a job is named by an attribute of its payload (wire/job_text.py):

    tick    how it ended is added to the ends of its schedule (wire/tick_mark.py)
    flow    its end is added to `kb:flow:ends`: the outbox frees its lock, counts its batch, begins the next job

and what a feature watches (the seam `ends` of kiqbridge/feature.py).

A job that goes on, by a retry or another push, has no end. Nearly all jobs are watched by nobody, and have no effects.
A new consequence of an end is an effect here, and its part in store/scripts/parts/leave.lua.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.engine.settle.failed_payload import error_class, error_message
from kiqbridge.engine.settle.output import JobOutput
from kiqbridge.errors import ConfigError, JobSkipped
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.flow_steps import passes_value
from kiqbridge.wire.job_text import is_watched, watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import ENCRYPTED, FLOW, TICK
from kiqbridge.wire.tick_mark import EndKind, JobEnd, tick_mark_of

logger = logging.getLogger(__name__)

MOST_MESSAGE: Final = 2_000
"""Characters of an error's message that are kept with an end."""

_FAILED: Final = ("dead", "discarded")


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
    count = payload.get("retry_count")
    end = JobEnd(
        at=mark.at,
        jid=str(payload.get("jid", "")),
        outcome=ended.outcome,
        ended_at=ended.at,
        took_s=ended.took_s,
        error=error_class(error) if error is not None and ended.outcome in _FAILED else "",
        retries=count + 1 if type(count) is int and count >= 0 else 0,
    )
    ledger = [ended.keys.ends(mark.schedule), ended.keys.ticks(mark.schedule)]
    return [Effect("ledger", ledger, [mark.at, end.to_text()])]


def _keeps_value(flow: Mapping[str, Any]) -> bool:
    return "result_ttl_s" in flow or passes_value(flow)


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
