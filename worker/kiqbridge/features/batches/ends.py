"""What the end of a job means for its batch and its chain, as effects of the script that applies the end.

Three members of `flow` ask for something:

    bid      the end is counted; `adds` and `event` come with the end of a child (parts/effect_batch_fire.lua)
    next     the next step of a chain is begun, if the job is done
    launch   a callback, or the steps behind a group: they are begun

The next step stands before the count, so that a batch is not complete between two steps.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.errors import PayloadError
from kiqbridge.features.batches import steps
from kiqbridge.features.batches.ops import (
    StepWriter,
    Stopped,
    end_op,
    guarded,
    result_op,
    results_over_op,
)
from kiqbridge.store.effects import Effect
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import FlowEnd

logger = logging.getLogger(__name__)

_BID: Final = re.compile(r"[0-9a-f]{24}")

_DEATHS: Final = ("dead", "discarded", "gone")


def effects_of(end: FlowEnd, client: Client) -> list[Effect]:
    """The next step, and the count; may raise: the end stays, and is tried again later."""
    return [*_begin_next(end, client), *_count_end(end, client)]


def _begin_next(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """The next step of a chain, or what an event has launched."""
    if "launch" in end.flow:
        launch = steps.launch_of(end.flow["launch"])
        results = None if launch is None else steps.results_of(launch)
        if launch is not None and results is not None and _BID.fullmatch(results[0]):
            return _begin_behind(launch, *results, client)
        return _begin(end.flow["launch"], None, client, is_guarded=False)
    if "next" not in end.flow or not _goes_on(end):
        return ()
    bid = _bid_of(end.flow)
    following = end.flow["next"]
    if bid is not None and isinstance(following, dict):
        following = {**following, "bid": bid}
    output = end.output if steps.passes_value(end.flow) else None
    if output is not None and end.encrypted:
        from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

        output = sealing().decrypt_value(end.jid, json_text.loads(output.encode()))
    return _begin(following, output, client, is_guarded=True, encrypts=end.encrypted)


def _begin_behind(launch: steps.Launch, bid: str, count: int, client: Client) -> Sequence[Effect]:
    """The job behind a group, with what the group's jobs have returned; as a refusal says, not at all."""
    fields = (*(f"result:{place}" for place in range(count)), "refused")
    *texts, refused = client.pool.call("HMGET", client.keys.batch(bid), *fields)
    if refused is None and None not in texts:
        output = f"[{','.join(text.decode() for text in texts)}]"
        ops = _begin(launch, output, client, is_guarded=False)
        return [*ops, results_over_op(client.keys, bid, count)]
    why = f"group {bid}: not all of what its jobs returned is there, so that the job behind it does not begin"
    said = refused.decode(errors="replace") if refused else why
    logger.error("%s; let the jobs return less, or make the group without pass_results", said)
    return [*_never_begun(launch, client), results_over_op(client.keys, bid, count, said)]


def _count_end(end: FlowEnd, client: Client) -> Sequence[Effect]:
    """The count of a batch."""
    bid = _bid_of(end.flow)
    if bid is None:
        return ()
    adds = [each for each in end.flow.get("adds", ()) if isinstance(each, str)]
    if end.flow.get("event") == "death":
        return [end_op(client.keys, bid, "", is_done=False, died=True, adds=adds)]
    is_done = end.outcome == "done" and ("next" not in end.flow or _goes_on(end))
    died = end.outcome in _DEATHS
    counted = end_op(client.keys, bid, end.jid, is_done=is_done, died=died, adds=adds)
    if is_done and steps.gives_result(end.flow):
        text = "" if end.encrypted else end.output or ""
        return [result_op(client.keys, bid, end.flow["place"], text), counted]
    return [counted]


def _goes_on(end: FlowEnd) -> bool:
    """Whether the next step is begun after this end."""
    if end.outcome != "done":
        return False
    if steps.passes_value(end.flow) and end.output is None:
        logger.error(
            "the next job of the chain is not begun: the value of this one has no JSON text of up to 256 KiB; "
            "return such a value, or make the chain without pass_result"
        )
        return False
    return True


def _begin(
    value: object, output: str | None, client: Client, *, is_guarded: bool, encrypts: bool = False
) -> Sequence[Effect]:
    """Begin steps; guarded where the end before them may be left twice, by a job that runs twice."""
    launch = steps.launch_of(value)
    if launch is None:
        logger.error("what follows in the chain cannot be read: it is not begun: %s", value)
        return ()
    try:
        ops = StepWriter(client, is_first=False, encrypts=encrypts).ops(launch, output)
    except Stopped as stopped:
        logger.warning("client middleware stopped the push of job %s: its chain ends", stopped.jid)
        return _never_begun(launch, client)
    except PayloadError as error:
        logger.error("the next job of a chain cannot be pushed, and the chain ends: %s", error)  # noqa: TRY400 - the message has all that is to be known
        return _never_begun(launch, client)
    return guarded(client.keys, launch, ops) if is_guarded else ops


def _never_begun(launch: steps.Launch, client: Client) -> Sequence[Effect]:
    """A callback of a child counts for the parent already, so its end does."""
    bid = _bid_of(launch)
    if bid is None:
        return ()
    return [end_op(client.keys, bid, steps.member_of(launch["steps"][0]), is_done=False)]


def _bid_of(flow: Mapping[str, object]) -> str | None:
    """The batch that is named; only what can be one becomes part of a key, and of a text that a script writes."""
    bid = flow.get("bid")
    return bid if isinstance(bid, str) and _BID.fullmatch(bid) else None
