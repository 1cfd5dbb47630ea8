"""From the end of a job to what one script shall do about it: an effect for each member of its `flow`.

A maker looks at the end and answers an effect, or None. Its name is that of a part `effect_NAME.lua`, to which
apply_ends.lua gives keys and arguments. Makers may raise: the end stays, and is tried again later.

Three members of `flow` ask for something of batches and chains:

    bid      the end is counted; `adds` and `event` come with the end of a child (parts/effect_batch_fire.lua)
    next     the next step of a chain is begun, if the job is done
    launch   a callback, or the steps behind a group: they are begun

In the effects of one end the next step stands before the count, so that a batch is not complete between two steps.
"""

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.client.flow_ops import StepWriter, Stopped, end_op, guarded
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.flow_steps import Launch, launch_of, member_of, passes_value
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import lock_of
from kiqbridge.wire.payload import FLOW

logger = logging.getLogger(__name__)

_BID: Final = re.compile(r"[0-9a-f]{24}")

_DEATHS: Final = ("dead", "discarded", "gone")


@dataclass(frozen=True, slots=True)
class EffectContext:
    """What makers may use.

    Attributes:
        keys: the namespace.
        client: to prepare jobs with, by its middleware; it must not push them, since the script does.
    """

    keys: Keys
    client: Client


EffectMaker = Callable[[FlowEnd, EffectContext], Effect | Sequence[Effect] | None]


def pass_report(end: FlowEnd, context: EffectContext) -> Effect | None:
    """A task of Step Functions waits for the job as well."""
    if not end.report:
        return None
    return Effect("add", [context.keys.task_reports], [0, end.report])


def unlock(end: FlowEnd, context: EffectContext) -> Effect | None:
    """The lock of a unique job is free, if this job still owns it."""
    mark = lock_of({FLOW: end.flow})
    if mark is None:
        return None
    keys = context.keys
    return Effect("unlock", [keys.locks, keys.locks_look, keys.replaced], [mark.name, end.jid])


def begin_next(end: FlowEnd, context: EffectContext) -> list[Effect] | None:
    """The next step of a chain, or what an event has launched."""
    if "launch" in end.flow:
        return _begin(end.flow["launch"], None, context, is_guarded=False)
    if "next" not in end.flow or not _goes_on(end):
        return None
    bid = _bid_of(end.flow)
    following = end.flow["next"]
    if bid is not None and isinstance(following, dict):
        following = {**following, "bid": bid}
    output = end.output if passes_value(end.flow) else None
    if output is not None and end.encrypted:
        from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

        output = sealing().decrypt_value(end.jid, json_text.loads(output.encode()))
    return _begin(following, output, context, is_guarded=True, encrypts=end.encrypted)


def count_end(end: FlowEnd, context: EffectContext) -> Effect | None:
    """The count of a batch."""
    bid = _bid_of(end.flow)
    if bid is None:
        return None
    adds = [each for each in end.flow.get("adds", ()) if isinstance(each, str)]
    if end.flow.get("event") == "death":
        return end_op(context.keys, bid, "", is_done=False, died=True, adds=adds)
    is_done = end.outcome == "done" and ("next" not in end.flow or _goes_on(end))
    died = end.outcome in _DEATHS
    return end_op(context.keys, bid, end.jid, is_done=is_done, died=died, adds=adds)


def _goes_on(end: FlowEnd) -> bool:
    """Whether the next step is begun after this end."""
    if end.outcome != "done":
        return False
    if passes_value(end.flow) and end.output is None:
        logger.error(
            "the next job of the chain is not begun: the value of this one has no JSON text of up to 256 KiB; "
            "return such a value, or make the chain without pass_result"
        )
        return False
    return True


def _begin(
    value: object,
    output: str | None,
    context: EffectContext,
    *,
    is_guarded: bool,
    encrypts: bool = False,
) -> list[Effect] | None:
    """Begin steps; guarded where the end before them may be left twice, by a job that runs twice."""
    launch = launch_of(value)
    if launch is None:
        logger.error("what follows in the chain cannot be read: it is not begun: %s", value)
        return None
    try:
        ops = StepWriter(context.client, is_first=False, encrypts=encrypts).ops(launch, output)
    except Stopped as stopped:
        logger.warning("client middleware stopped the push of job %s: its chain ends", stopped.jid)
        return _never_begun(launch, context)
    except PayloadError as error:
        logger.error("the next job of a chain cannot be pushed, and the chain ends: %s", error)  # noqa: TRY400 - the message has all that is to be known
        return _never_begun(launch, context)
    return guarded(context.keys, launch, ops) if is_guarded else ops


def _never_begun(launch: Launch, context: EffectContext) -> list[Effect] | None:
    """A callback of a child counts for the parent already, so its end does."""
    bid = _bid_of(launch)
    if bid is None:
        return None
    return [end_op(context.keys, bid, member_of(launch["steps"][0]), is_done=False)]


def _bid_of(flow: Mapping[str, object]) -> str | None:
    """The batch that is named; only what can be one becomes part of a key, and of a text that a script writes."""
    bid = flow.get("bid")
    return bid if isinstance(bid, str) and _BID.fullmatch(bid) else None
