"""From the steps of a chain, and from batches, to the effects of the scripts that write them.

A client writes them with push_flow.lua, a worker's outbox with apply_ends.lua; both take the same effects: name of the
part `effect_NAME.lua`, its keys, its arguments.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from kiqbridge.client.client import Client
from kiqbridge.client.job_writer import not_replicated, score
from kiqbridge.client.prepare import PreparedJob, prepare
from kiqbridge.errors import BatchError, RedisRefused
from kiqbridge.features.batches.steps import (
    KEEP_CHAIN_DONE_S,
    KEEP_DONE_S,
    KEEP_OPEN_S,
    MARKS,
    MOST_OUTLINE_BYTES,
    MOST_RESULTS,
    Launch,
    Step,
    after,
    label_of,
    member_of,
    outline_of,
)
from kiqbridge.runtime.clock import client_now
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.wire import json_text
from kiqbridge.wire.batches import BATCH_BYTES, slices_by_bytes
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import FLOW

_PUSH_FLOW: Final = scripts.load("push_flow", __file__)

KEEP_CHAIN_S: Final = 30 * 86_400
"""Seconds after a step of a chain in which it is not begun again, however often the job before it is done."""

MOST_MEMBERS: Final = 1_000
"""Members of a batch that one effect adds, so that no script keeps Redis for longer than some milliseconds."""


def prepare_job(
    client: Client, item: Mapping[str, Any], *, moved: bool = False, bulk: bool = False
) -> PreparedJob | None:
    """A job that a script pushes; None when middleware stops it.

    Args:
        item: as for `push`.
        moved: it is a payload out of Redis: its values are not checked again.
        bulk: it is one of many of one call.

    Raises:
        PayloadError: as `push`.
    """
    profile = client.wire_profile
    job = prepare(item, client_now(), client.middleware, profile, trusted=moved, bulk=bulk)
    if client.fleets is not None and job is not None and not moved:
        client.fleets.check_own(job.queue)
    return job


class BatchMember(NamedTuple):
    """A member of a batch; `text` and class are empty for one that is not pushed here."""

    member: str
    queue: str = ""
    at: float | None = None
    text: bytes = b""
    job_class: str = ""


def batch_keys(keys: Keys, bid: str) -> list[str]:
    """The keys of the effects that count."""
    return [keys.batch(bid), keys.batch_members(bid), keys.batches, keys.flow_ends]


def make_op(
    keys: Keys,
    bid: str,
    *,
    parent: str = "",
    description: str = "",
    callbacks: Mapping[str, Launch] | None = None,
    kind: Literal["", "chain", "group"] = "",
    lanes: Sequence[Sequence[Step]] = (),
) -> Effect:
    """What is kept of a batch.

    Args:
        keys: the namespace.
        bid: its id.
        parent: the batch that it counts for, or "".
        description: for people.
        callbacks: event → the steps that are begun then.
        kind: what it is made of, unless it is a block that was filled.
        lanes: of a chain its steps, of a group those of each member, of a block its chains: for who looks at it.
    """
    fields: list[str | bytes | int] = ["description", description]
    if kind:
        fields += ["kind", kind]
    if outline := outline_of(lanes):
        fields += ["outline", json_text.dumps(outline)]
    if kind == "chain":
        # Its first step comes with it: it needs no seal (`seal_op`).
        fields += ["sealed", 1, "keep", KEEP_CHAIN_DONE_S, "steps", sum(map(len, lanes))]
    if parent:
        fields += ["parent", parent]
    for event, launch in (callbacks or {}).items():
        fields += [f"on_{event}", json_text.dumps(launch)]
        fields += [f"on_{event}_member", member_of(launch["steps"][0])]
    args = [bid, repr(time.time()), KEEP_OPEN_S, *fields]
    return Effect("batch_make", [keys.batch(bid), keys.batches], args)


def outline_ops(keys: Keys, bid: str, lanes: Sequence[Sequence[Step]]) -> Iterable[Effect]:
    """The steps of chains that are added to a batch which is there, for who looks at it."""
    for lane in lanes:
        if outline := outline_of([lane]):
            own = [keys.batch(bid), keys.batch_members(bid)]
            args = (json_text.dumps(outline), member_of(lane[0]), MOST_OUTLINE_BYTES)
            yield Effect("batch_outline", own, args)


def seal_op(keys: Keys, bid: str) -> Effect:
    """All that its maker adds to a batch is in it."""
    return Effect("batch_seal", batch_keys(keys, bid), [*_about(bid)])


def end_op(
    keys: Keys,
    bid: str,
    member: str,
    *,
    is_done: bool,
    died: bool = False,
    adds: Iterable[str] = (),
) -> Effect:
    """The end of a member; without a name only what it adds counts, and whether something died."""
    state = "d" if is_done else "f"
    args = [*_about(bid), member, state, "1" if died else "", *adds]
    return Effect("batch_end", batch_keys(keys, bid), args)


def member_ops(
    keys: Keys, bid: str, placed: Iterable[BatchMember], *, only_new: bool
) -> list[Effect]:
    """Add members to a batch, and push those that have a text."""
    by_queue: dict[str, list[BatchMember]] = {}
    for each in placed:
        by_queue.setdefault(each.queue, []).append(each)
    return [
        _members(keys, bid, queue, part, only_new=only_new)
        for queue, several in by_queue.items()
        for start in range(0, len(several), MOST_MEMBERS)
        for part in _by_bytes(several[start : start + MOST_MEMBERS])
    ]


def _by_bytes(placed: Sequence[BatchMember]) -> Iterable[Sequence[BatchMember]]:
    return (placed[part] for part in slices_by_bytes([p.text for p in placed], BATCH_BYTES))


def _members(
    keys: Keys, bid: str, queue: str, placed: Sequence[BatchMember], *, only_new: bool
) -> Effect:
    classes = {each.job_class for each in placed}
    job_class = classes.pop() if len(classes) == 1 else ""
    args: list[str | bytes | float] = ["new" if only_new else "all", KEEP_OPEN_S, queue, job_class]
    for each in placed:
        args += [each.member, "" if each.at is None else score(each.at), each.text]
    own = [keys.batch(bid), keys.batch_members(bid), keys.queues, keys.queue(queue), keys.schedule]
    return Effect("batch_jobs", own, args)


class Stopped(Exception):  # noqa: N818 - says what happened
    """Client middleware stopped the push of a job.

    Attributes:
        jid: of that job.
    """

    def __init__(self, jid: str) -> None:
        super().__init__(jid)
        self.jid = jid


class StepWriter:
    """Makes the effects that begin steps.

    Args:
        client: prepares the jobs.
        is_first: a client begins what it has just prepared: jobs do not go through middleware again, and a
            repeated call pushes nothing twice.
        encrypts: the value comes from a job with encrypted arguments, so it is encrypted in the next one.
    """

    def __init__(self, client: Client, *, is_first: bool, encrypts: bool = False) -> None:
        self._client = client
        self._encrypts = encrypts
        self._is_first = is_first

    def ops(self, launch: Launch, value: str | None = None) -> list[Effect]:
        """Begin the first of these steps; `value` is the JSON text of what the job before it has returned.

        Raises:
            PayloadError: a job cannot be pushed.
            Stopped: client middleware stopped it.
        """
        first, bid = launch["steps"][0], launch.get("bid", "")
        if "group" in first:
            return self._group(first, launch, bid, value)
        placed = self.placed(launch, value)
        if bid:
            return member_ops(self._client.keys, bid, [placed], only_new=self._is_first)
        keys = self._client.keys
        at = "" if placed.at is None else score(placed.at)
        own = [keys.queues, keys.queue(placed.queue), keys.schedule]
        return [Effect("push", own, [placed.queue, at, placed.text])]

    def placed(self, launch: Launch, value: str | None = None) -> BatchMember:
        """The first step, a job, as it is pushed; raises as `ops`."""
        step = launch["steps"][0]
        payload = dict(step["job"])
        flow = dict(payload.pop(MARKS, {}))
        if "bid" in launch:
            flow["bid"] = launch["bid"]
        following = after(launch)
        if following is not None:
            following.pop("bid", None)  # beside it already
            flow["next"] = following
        elif "place" in launch:
            flow["place"] = launch["place"]
        if flow:
            payload[FLOW] = flow
        if value is not None:
            payload["args"] = [json_text.loads(value.encode()), *payload["args"]]
        at = step.get("at")
        job = self._prepared(payload, at)
        if job is None:
            raise Stopped(payload["jid"])
        if value is not None and self._encrypts:
            from kiqbridge.client.sealing import sealing  # noqa: PLC0415 - for few

            job.payload = sealing().encrypt(job.payload, (0,))
        now = time.time()
        if job.at is not None and job.at <= now:
            job.at = None
        text = self._client.writer.text(job, now)
        return BatchMember(job.jid, job.queue, job.at, text, job.payload["class"])

    def _prepared(self, payload: dict[str, Any], at: float | None) -> PreparedJob | None:
        if self._is_first:
            profile = self._client.wire_profile()
            return PreparedJob(payload=payload, at=at, own_jid=False, profile=profile)
        item = payload if at is None else {**payload, "at": at}
        return prepare_job(self._client, item, moved=True)

    def _group(self, step: Step, launch: Launch, parent: str, value: str | None) -> list[Effect]:
        keys, following = self._client.keys, after(launch)
        ops: list[Effect] = []
        if parent:
            own = [BatchMember(member_of(step))]
            ops += member_ops(keys, parent, own, only_new=self._is_first)
        if following is not None and "results" in step:
            following["results"] = (step["bid"], len(step["group"]))
        callbacks = {} if following is None else {"success": following}
        about = step.get("description", "")
        ops.append(
            make_op(
                keys,
                step["bid"],
                parent=parent,
                description=about,
                callbacks=callbacks,
                kind="group",
                lanes=step["group"],
            )
        )
        placed: list[BatchMember] = []
        for number, steps in enumerate(step["group"]):
            member: Launch = {
                "id": f"{launch['id']}.{launch['n']}.{number}",
                "n": 1,
                "bid": step["bid"],
                "steps": steps,
            }
            if steps[0].get("passes", launch.get("pass")):
                member["pass"] = True
            if "results" in step:
                member["place"] = number
            if "group" in steps[0]:
                ops += self.ops(member, value)
                continue
            with suppress(Stopped):  # it counts for nothing then
                gets = steps[0].get("takes_value", False)
                placed.append(self.placed(member, value if gets else None))
        ops += member_ops(keys, step["bid"], placed, only_new=self._is_first)
        ops.append(seal_op(keys, step["bid"]))
        return ops


def chain_ops(client: Client, launch: Launch) -> list[Effect]:
    """Begin a chain that was enqueued alone: a batch of its own, under its id, counts its steps."""
    keys, bid, steps = client.keys, launch["id"], launch["steps"]
    about = f"{label_of(steps[0])} → {label_of(steps[-1])}"
    return [
        make_op(keys, bid, description=about, kind="chain", lanes=[steps]),
        *StepWriter(client, is_first=True).ops({**launch, "bid": bid}),
    ]


def result_op(keys: Keys, bid: str, place: int, text: str) -> Effect:
    """What a job of a group has returned, for the job behind the group; '' if that is not known."""
    about = f"group {bid}: what {{}}, so that the job behind it does not begin"
    unknown = about.format(
        f"job {place + 1} of it returned is encrypted, or has no JSON text of up to 256 KiB"
    )
    too_many = about.format(f"its jobs returned has more than {MOST_RESULTS:,} bytes as JSON")
    return Effect("batch_result", [keys.batch(bid)], [place, text, MOST_RESULTS, unknown, too_many])


def results_over_op(keys: Keys, bid: str, count: int, why: str = "") -> Effect:
    """What a group's jobs have returned is forgotten: the job behind it begins, or never will."""
    return Effect("batch_results_over", [keys.batch(bid)], [why, *range(count)])


def guarded(keys: Keys, launch: Launch, ops: Sequence[Effect]) -> list[Effect]:
    """The effects, guarded so that they are applied once for this step."""
    return [
        Effect("guard", [keys.chain(launch["id"])], [launch["n"], KEEP_CHAIN_S, len(ops)]),
        *ops,
    ]


def write_ops(client: Client, ops: Sequence[Effect], what: str) -> None:
    """Carry out effects, in one script or in several ones that are not too large.

    Raises:
        RedisUnavailable, RedisRefused: the effects of earlier scripts have been made.
        BatchError: the batch takes no more.
        PushNotReplicated: carried out, but not confirmed by `wait_replicas` replicas.
    """
    for part in _scripts(ops):
        found, doubt = client.writer.run_script(_PUSH_FLOW, *packed(part), repeatable=True)
        for answer in found:
            _check(answer, what)
        if doubt:
            raise not_replicated([what], doubt) from doubt


def _scripts(ops: Sequence[Effect]) -> Iterable[Sequence[Effect]]:
    """Effects as they go together: up to `MOST_MEMBERS` members, with the record and the seal beside them."""
    part: list[Effect] = []
    size = weight = 0
    for op in ops:
        its_size = sum(len(each) for each in op.args if isinstance(each, bytes))
        its_weight = len(op.args) // 3 + 1
        if part and (size + its_size > BATCH_BYTES or weight + its_weight > MOST_MEMBERS + 100):
            yield part
            part, size, weight = [], 0, 0
        part.append(op)
        size, weight = size + its_size, weight + its_weight
    if part:
        yield part


_REFUSED: Final = {
    b"GONE": "there is no such batch (any more); make a new one",
    b"CANCELLED": "the batch is cancelled: nothing was added; make a new one",
    b"OVER": "the batch has succeeded, and its callbacks are under way: nothing was added; make a new one",
}


def _check(answer: object, what: str) -> None:
    if not isinstance(answer, bytes):
        return
    if answer in _REFUSED:
        raise BatchError(f"{what}: {_REFUSED[answer]}")
    raise RedisRefused(
        f"{what}: {answer.decode(errors='replace')}; delete the key that something else has written"
    )


def _about(bid: str) -> tuple[str, str, int, int]:
    return bid, repr(time.time()), KEEP_OPEN_S, KEEP_DONE_S
