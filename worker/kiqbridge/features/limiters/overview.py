"""Limiters as operators see them: the one model that page, command and API read.

Listed are those that were entered within the last day (known.py), the last used first; a page is three round trips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast, get_args

from kiqbridge.api import Operator, Page, record_audit
from kiqbridge.api.acts import Act, page_of
from kiqbridge.api.processes import identity_of
from kiqbridge.features.limiters.store import Asked, Kind, LimitState, read_limits, reset_limit
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.names import text_of

MOST_SHOWN: Final = 200
"""Owners, and callers that wait, of one limiter."""

_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who holds a lock of a concurrent limiter.

    Attributes:
        jid, job_class: of the job; "" outside one.
        since: epoch seconds.
        until: when it is void unless it is renewed; None: while its worker lives.
        process: the identity of the worker; "": a program outside one, or a child process.
    """

    jid: str
    job_class: str
    since: float
    until: float | None
    process: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LimiterView:
    """A limiter with those who hold it, and those who wait: up to `MOST_SHOWN` of each.

    Attributes:
        state: what is taken.
        owners: of a concurrent one, who has held it for the longest time first.
        waiting: jids of jobs, else `HOST:PID:THREAD`; who has waited last first.
    """

    state: LimitState
    owners: Sequence[Owner]
    waiting: Sequence[str]


def list_limiters(operator: Operator, number: int = 1, size: int = 50) -> Page[LimitState]:
    """A page of the limiters that are in use.

    Raises:
        RedisUnavailable: nothing was read.
    """
    pool, keys = operator.pool, operator.keys
    start = (number - 1) * size
    total, names = pool.run(
        ("ZCARD", keys.limiters), ("ZRANGE", keys.limiters, start, start + size - 1, "REV")
    )
    terms = pool.call("HMGET", keys.limiter_terms, *names) if names else []
    asked = [
        each
        for name, text in zip(names, terms, strict=True)
        if (each := _asked(text_of(name), text)) is not None
    ]
    rows = read_limits(pool, keys, asked)
    return Page(number=number, size=size, total=int(total), rows=rows)


def read_limiter(operator: Operator, kind: str, name: str) -> LimiterView | None:
    """One of them; None: it was not entered within the last day. Raises as `list_limiters`."""
    pool, keys = operator.pool, operator.keys
    word = f"{kind} {name}"
    asked = _asked(word, pool.call("HGET", keys.limiter_terms, word))
    if asked is None:
        return None
    [state] = read_limits(pool, keys, [asked])
    waiting = pool.call("ZRANGE", keys.limit_waits(kind, name), 0, MOST_SHOWN - 1, "REV")
    return LimiterView(
        state=state,
        owners=read_owners(operator, [name])[0] if kind == "concurrent" else (),
        waiting=[text_of(each) for each in waiting][: state.waits],
    )


def resetting(state: LimitState) -> Act:
    """The button that resets it."""
    path = page_of(f"limiters/{state.kind}", state.name)
    asked = f"What is taken of it is forgotten. Jobs that hold it go on, so that for a while more than {state.limit:g} may pass."
    return Act("Reset", path, {"action": "reset"}, asked)


def reset_limiter(operator: Operator, kind: str, name: str) -> bool:
    """Forget what is taken of it, with an entry in the audit log; False: nothing was. Raises as `list_limiters`."""
    is_reset = reset_limit(operator.pool, operator.keys.limit(kind, name))
    record_audit(operator, "reset", f"limiter:{kind}:{name}")
    return is_reset


def _asked(word: str, terms: bytes | None) -> Asked | None:
    kind, _, name = word.partition(" ")
    limit, _, per = (terms or b"").partition(b" ")
    try:
        numbers = float(limit), float(per)
    except ValueError:
        return None
    return Asked(cast("Kind", kind), name, *numbers) if kind in get_args(Kind) else None


def read_owners(operator: Operator, names: Sequence[str]) -> list[list[Owner]]:
    """Who holds each of these concurrent limiters, in one round trip. Raises as `list_limiters`."""
    keys = [operator.keys.limit("concurrent", name) for name in names]
    replies = operator.pool.run(*(("HSCAN", key, 0, "COUNT", MOST_SHOWN) for key in keys))
    return [
        sorted(
            (
                _owner(text_of(token), text_of(value))
                for token, value in islice(pairs_of(fields).items(), MOST_SHOWN)
            ),
            key=lambda each: each.since,
        )
        for _, fields in replies
    ]


def _owner(token: str, value: str) -> Owner:
    _, _, job = token.partition(" ")
    jid, _, job_class = job.partition(" ")
    since, until, incarnation = [*value.split(" ", 2), "", ""][:3]
    return Owner(
        jid=jid,
        job_class=job_class,
        since=_seconds(since),
        until=None if incarnation else _seconds(until),
        process=identity_of(incarnation) if incarnation else "",
    )


def _seconds(text: str) -> float:
    return int(text) / _US if text.isdecimal() else 0.0
