"""What a job belongs to and what follows it, for those who look at its life: its batch, its chain, the job before it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kiqbridge.api.life import End, Known, Part, Relative, Wait
from kiqbridge.api.operator import Operator
from kiqbridge.features.batches.status import PENDING, BatchStatus, read_statuses
from kiqbridge.features.batches.steps import CALLBACK_OF, Launch, Step, batch_of, launch_of
from kiqbridge.wire import json_text
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import FLOW

MOST_BATCHES: Final = 500
"""Batches that are looked through for a job that is nowhere, those that are kept longest first."""

MOST_STEPS: Final = 50
_EVENTS: Final = ("success", "complete", "death")


def part_of(operator: Operator, known: Known) -> Part | None:
    """The seam `history`."""
    if known.job is not None:
        return _of_payload(operator, known.job.item)
    return _step_before(known) or _in_batches(operator, known)


def _of_payload(operator: Operator, payload: Mapping[str, Any]) -> Part | None:
    about, bid = payload.get(CALLBACK_OF), batch_of(payload)
    callback = about.get("bid") if isinstance(about, dict) else None
    bids = [each for each in (bid, callback) if isinstance(each, str)]
    flow = payload.get(FLOW)
    launch = launch_of(flow.get("next")) if isinstance(flow, dict) else None
    if not bids and launch is None:
        return None
    found = dict(zip(bids, read_statuses(operator.client, bids), strict=True))
    parents = [
        Relative(
            kind=status.kind if (status := found[each]) else "batch",
            id=each,
            text=_how_far(status, is_callback=each is callback),
        )
        for each in bids
    ]
    if launch is None:
        return Part(parents=parents)
    if launch["id"] not in bids:
        parents.append(Relative(kind="chain", id=launch["id"], text=f"step {launch['n'] - 1}"))
    return Part(parents=parents, children=list(_steps(launch)))


def _how_far(status: BatchStatus | None, *, is_callback: bool) -> str:
    name = "its callback" if is_callback else ""
    if status is None:
        return f"{name} (the batch is kept no more)".strip()
    counts = f"{status.pending:,} of {status.total:,} pending, {status.failed:,} failed"
    return ", ".join(filter(None, (status.description, name, counts)))


def _steps(launch: Launch) -> Iterator[Relative]:
    for number, step in enumerate(launch["steps"][:MOST_STEPS], launch["n"]):
        if "group" in step:
            size = len(step["group"])
            yield Relative(kind="group", id=step["bid"], text=f"step {number}, {size:,} members")
        else:
            text = f"step {number}, {step['job'].get('class')}"
            yield Relative(kind="job", id=step["job"]["jid"], text=text)


def _step_before(known: Known) -> Part | None:
    """Of a job that waits in the text of another one."""
    for each in known.carriers:
        flow = each.job.item.get(FLOW)
        launch = launch_of(flow.get("next")) if isinstance(flow, dict) else None
        job = launch and _job_in(launch["steps"], known.jid)
        if launch and job:
            before = f"{each.job.display_class} {each.job.jid}"
            text = f"a step of chain {launch['id']}, which is at job {before}"
            return _named(job, wait=Wait(kind="step", text=text, about=f"job:{each.job.jid}"))
    return None


def _in_batches(operator: Operator, known: Known) -> Part | None:
    """Of a job that is nowhere: a batch counts it, or begins it at its end."""
    pool, keys, jid, given = operator.pool, operator.keys, known.jid, known.bid
    newest = [] if given else pool.call("ZRANGE", keys.batches, 0, MOST_BATCHES - 1, "REV")
    bids = [given] if given else [text_of(bid) for bid in newest]
    states = pool.run(*(("HGET", keys.batch_members(bid), jid) for bid in bids)) if bids else []
    state_of = {bid: text_of(state) for bid, state in zip(bids, states, strict=True) if state}
    for bid, state in state_of.items():
        [status] = read_statuses(operator.client, [bid])
        parents = [Relative(kind="batch", id=bid, text=_how_far(status, is_callback=False))]
        if state in PENDING and not known.is_all:
            return Part(parents=parents)
        if state in PENDING:
            text = f"batch {bid} counts it as pending, and it is in no queue and no set"
            return Part(parents=parents, wait=Wait(kind="batch", text=text, about=f"batch:{bid}"))
        outcome, said = ("done", "") if state == "d" else ("gone", "it ended without success")
        return Part(parents=parents, end=End(outcome=outcome, at=0, source="batch", message=said))
    fields = [f"on_{event}" for event in _EVENTS]
    replies = pool.run(*(("HMGET", keys.batch(bid), *fields) for bid in bids)) if bids else []
    name = jid.encode("utf-8", "surrogatepass")
    for bid, texts in zip(bids, replies, strict=True):
        for event, text in zip(_EVENTS, texts, strict=True):
            launch = launch_of(json_text.loads(text)) if text and name in text else None
            job = launch and _job_in(launch["steps"], jid)
            if job:
                [status] = read_statuses(operator.client, [bid])
                far = _how_far(status, is_callback=False)
                if getattr(status, f"{event}_at", None) is not None:
                    about = f"its callback on {event}, which was pushed; {far}"
                    return _named(job, parents=[Relative(kind="batch", id=bid, text=about)])
                said = f"pushed on {event} of batch {bid}: {far}"
                return _named(job, wait=Wait(kind="batch", text=said, about=f"batch:{bid}"))
    return None


def _named(
    job: Mapping[str, Any], *, wait: Wait | None = None, parents: Sequence[Relative] = ()
) -> Part:
    names = {name: str(job.get(name) or "") for name in ("class", "queue")}
    return Part(wait=wait, parents=parents, job_class=names["class"], queue=names["queue"])


def _job_in(steps: Sequence[Step], jid: str) -> Mapping[str, Any] | None:
    for step in steps:
        if "group" in step:
            for member in step["group"]:
                if job := _job_in(member, jid):
                    return job
        elif step["job"]["jid"] == jid:
            return step["job"]
    return None
