"""Where jobs come from besides clients: stacks that published their schedules, and events enqueued once.

An event that AWS delivers again is recognized by its guard (docs/reference/events.md); these say what came in by which
source, and which job it became.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.store.manifests import StandingManifest, manifests_of
from kiqbridge.store.replies import number_in
from kiqbridge.wire.guards import WITH_QUEUE, Source
from kiqbridge.wire.names import text_of

LOOKED_AT: Final = 500
"""Guards that are looked at: those that will be kept the longest."""
SHOWN: Final = 25

_SCOPE: Final = re.compile(r"(\d+):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A delivery that was enqueued, and will not be again.

    Attributes:
        source: where the name comes from, such as `sqs`; `""` = the name was too long to be kept.
        job_class: of its job; `""` = it holds for any class.
        name: what identifies the delivery within its source.
        jid: of its job.
        enqueued_at: epoch seconds; None if the name was too long to be kept.
        until: when it is forgotten, epoch seconds.
    """

    source: str
    job_class: str
    name: str
    jid: str
    enqueued_at: float | None
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The events that came from AWS.

    Attributes:
        stacks: those that published their schedules.
        guards: how many deliveries are remembered.
        looked_at: of how many of them the following is known.
        by_source: source → how many of those.
        latest: the last ones that were enqueued, the latest first.
    """

    stacks: Sequence[StandingManifest]
    guards: int
    looked_at: int
    by_source: Mapping[str, int]
    latest: Sequence[Guard]


def fetch_sources(operator: Operator | None = None) -> Sources:
    """The events that came from AWS, in two round trips.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    keys, pool = whose.keys, whose.pool
    manifests, total, names = pool.run(
        ("HGETALL", keys.manifests),
        ("ZCARD", keys.guards_until),
        ("ZREVRANGE", keys.guards_until, 0, LOOKED_AT - 1),
    )
    values = pool.call("HMGET", keys.guards, *names) if names else []
    guards = [
        parse_guard(text_of(name), text_of(value))
        for name, value in zip(names, values, strict=True)
        if value is not None
    ]
    guards.sort(key=lambda guard: guard.enqueued_at or 0.0, reverse=True)
    return Sources(
        stacks=sorted(manifests_of(manifests).values(), key=lambda each: each.stack),
        guards=total,
        looked_at=len(guards),
        by_source=dict(Counter(guard.source for guard in guards).most_common()),
        latest=guards[:SHOWN],
    )


def parse_guard(field: str, value: str) -> Guard:
    """A guard out of its field (wire/guards.py) and its value `UNTIL JID`."""
    until_text, _, jid = value.partition(" ")
    until = number_in(until_text)
    origin, _, rest = field.partition(":")
    source = origin.removesuffix(WITH_QUEUE)
    if source not in set(Source):
        return Guard(source="", job_class="", name="", jid=jid, enqueued_at=None, until=until)
    parts: list[str] = []
    while (head := _SCOPE.match(rest)) is not None:
        end = head.end() + int(head[1])
        if rest[end : end + 1] != ":":
            break
        parts.append(rest[head.end() : end])
        rest = rest[end + 1 :]
    if source != origin:
        del parts[:1]
    scope, *inner = parts or [""]
    return Guard(
        source=source,
        job_class=scope,
        name=" ".join([*(part for part in inner if not part.isdigit()), rest]),
        jid=jid,
        enqueued_at=until - Source(source).keep_s,
        until=until,
    )
