"""The rule about queue moves that did not come to their end (docs/shards.md, reliability §16)."""

import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api import Operator
from kiqbridge.doctor.finding import Finding, Rule, counted, listed, printable
from kiqbridge.errors import PayloadError, RedisRefused
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.names import text_of

UNFINISHED: Final = Rule(
    id="shard-unfinished",
    area="wire",
    reports="queues whose move to another shard was interrupted: jobs that it holds in kb:moving:NAME, and jobs that "
    "wait where the queue lay before (only with shards)",
    why="nobody performs what a move holds until it is called again; the others are performed where they are, if a "
    "worker of that shard serves the queue",
    action="run the same command again, which goes on where it was: kiqbridge queue move NAME --to SHARD",
)

AGAIN_S: Final = 1.0
"""A move that goes on has brought a batch to its target by then."""

SAMPLE: Final = 50
"""Jobs that are looked at for one that a move would take along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """A batch on its way: from which shard, of which queue, to which shard, how many jobs; its mark."""

    shard: str
    queue: str
    to: str
    count: int
    mark: bytes


def check_moves(operator: Operator) -> Iterator[Finding]:
    """Moves that were interrupted.

    Args:
        operator: of those shards that answer.

    Raises:
        RedisUnavailable: one went away meanwhile.
    """
    try:
        held, left = _held(operator), _left(operator)
    except RedisRefused as error:
        yield UNFINISHED.unknown(f"a shard does not answer: {error}")
        return
    if held:
        yield UNFINISHED.problem(
            "an interrupted move holds "
            + listed(
                [
                    f"{counted(each.count, 'job')} of {printable(each.queue)} on the way from {each.shard} to "
                    f"{printable(each.to)}"
                    for each in held
                ]
            ),
            action=_again(operator, [(each.queue, each.to) for each in held]),
        )
    if left:
        yield UNFINISHED.warning(
            "jobs wait where their queue lay before: "
            + listed(
                [
                    f"{counted(count, 'job')} of {printable(queue)} on {shard}, which was moved to {to}"
                    for shard, queue, to, count in left
                ]
            ),
            why="a move was interrupted, or somebody pushes to the old place, such as Ruby; they are performed there if "
            "a worker of that shard serves the queue, and new ones elsewhere",
            action=_again(operator, [(queue, to) for _, queue, to, _ in left]),
        )
    if not held and not left:
        yield UNFINISHED.ok("no move of a queue was interrupted")


def _held(operator: Operator) -> list[_Held]:
    first = [each for several in operator.gather(_read_held) for each in several]
    if not first:
        return []
    time.sleep(AGAIN_S)
    marks = {each.mark for several in operator.gather(_read_held) for each in several}
    return [each for each in first if each.mark in marks]


def _read_held(one: Operator) -> list[_Held]:
    pool, keys = one.pool, one.keys
    queues = [text_of(name) for name in pairs_of(pool.call("HGETALL", keys.moving))]
    if not queues:
        return []
    names = [keys.moving_batch(queue) for queue in queues]
    replies = pool.run(
        *(("LINDEX", name, 0) for name in names), *(("LLEN", name) for name in names)
    )
    found = []
    for queue, mark, length in zip(
        queues, replies[: len(queues)], replies[len(queues) :], strict=True
    ):
        words = text_of(mark or b"").split(" ")
        if len(words) == 4:  # noqa: PLR2004 - `NUMBER TEXT KIND SHARD`; else there is none, or it is not ours
            _, _, place, to = words
            # Of a set each job stands behind its score.
            count = (length - 1) // (1 if place == "queue" else 2)
            found.append(_Held(shard=one.shard, queue=queue, to=to, count=count, mark=mark))
    return found


def _left(operator: Operator) -> list[tuple[str, str, str, int]]:
    """Shard, queue, where that lies now, and how many of its jobs wait on this shard, of which some would be moved."""
    found = []
    for one in operator.each():
        for queue in map(text_of, pairs_of(one.pool.call("HGETALL", one.keys.routes))):
            to = _shard_of(operator, queue)
            if to in ("", one.shard):
                continue
            key = one.keys.queue(queue)
            count, sample = one.pool.run(("LLEN", key), ("LRANGE", key, -SAMPLE, -1))
            if any(not _stays(text) for text in sample):
                found.append((one.shard, queue, to, int(count)))
    return found


def _stays(text: bytes) -> bool:
    """Whether a move leaves it: what is kept about jobs of batches, chains and occurrences is where they are."""
    try:
        job = json_text.loads(text)
    except json_text.MalformedJSON:
        return False
    if not isinstance(job, dict):
        return False
    # As in the scripts that move (store/scripts/move_hold.lua): what these say is decided there.
    flow = flow_of(job) or {}
    return "bid" in flow or "next" in flow or isinstance(job.get("tick"), dict)


def _again(operator: Operator, moves: Sequence[tuple[str, str]]) -> str:
    """The commands; `moves` are queues and the shards to which they were to go."""
    known = operator.client.shards
    unknown = sorted({printable(to) for _, to in moves if to not in known})
    first = f"add {', '.join(unknown)} to KIQBRIDGE_SHARDS again; then " if unknown else ""
    # Where it lies by now: with another target the queue would be moved back to that.
    commands = [
        f"kiqbridge queue move {shlex.quote(printable(queue))} --to "
        + shlex.quote((_shard_of(operator, queue) if to in known else "") or printable(to))
        for queue, to in moves
    ]
    return (
        f"{first}run it again, which goes on where it was: {listed(list(dict.fromkeys(commands)))}"
    )


def _shard_of(operator: Operator, queue: str) -> str:
    """Where a queue lies; empty = on no shard."""
    try:
        return operator.client.shard_of(queue)
    except PayloadError:
        return ""
