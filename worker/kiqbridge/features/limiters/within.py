"""Entering a limit, with `with` or `async with`: ask, wait for room, and leave.

1. One round trip asks. Where the limit is reached the answer says when there is room, as far as that is known.
2. If that is later than the caller would wait, or its worker stops, `OverLimit` is raised at once. Else it waits
   and asks again: on the calling thread, or as a task of the event loop, while a thread asks Redis.
3. On leaving, a lock is given back, whatever was raised within.
"""

import asyncio
import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypedDict, Unpack

from kiqbridge.client.current import RUNTIME
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError, OverLimit
from kiqbridge.features.limiters import store as limits
from kiqbridge.features.limiters.known import Watched
from kiqbridge.features.limiters.store import Answer, Asked, Attempt, Kind
from kiqbridge.runtime import frames

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.wire.keys import Keys

_FIRST_LOOK_S: Final = 0.05
_LOOK_S: Final = 0.5
"""Between two looks whether there is room; also how soon the end of the worker is noticed."""

_random = random.Random()  # noqa: S311 - spreads out who waits


Per = Literal["second", "minute", "hour", "day"]
"""Names of intervals; others are given in seconds."""

_INTERVALS: Final[dict[str, float]] = {
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
}
_LONGEST_NAME: Final = 200


class PatienceOptions(TypedDict, total=False):
    """What each limiter takes: what happens where its limit is reached."""

    wait_timeout_s: float
    """Seconds that a caller waits for room, before `OverLimit`; 0 = not at all; default 5."""
    put_off_s: float
    """Seconds for which a job is put off at first; doubled each time, up to 15 minutes; default 15."""
    max_put_offs: int
    """How often a job is put off before `OverLimit` is an error like others; default 20."""
    client: "Client | None"
    """Whose Redis holds the limiter; None: that of the worker, outside one the default client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """What happens where a limit is reached, see `PatienceOptions`."""

    wait_timeout_s: float = 5.0
    put_off_s: float = 15.0
    max_put_offs: int = 20
    client: "Client | None" = None


class Place(NamedTuple):
    """Where the state of a limiter is, and who asks: an incarnation, or ""."""

    pool: "RedisPool"
    keys: "Keys"
    owner: str


class Limiter(ABC):
    """A limit that is shared by all who use its name; made by `concurrent`, `window`, `bucket`, `leaky` and `points`.

    Attributes:
        kind: what is limited.
        name: its name among those of its kind.
    """

    kind: Kind

    def __init__(self, name: str, **patience: Unpack[PatienceOptions]) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name) <= _LONGEST_NAME
            or not name.isprintable()
        ):
            raise ConfigError(
                f"limiter {name!r}: the name is not a text of 1 to {_LONGEST_NAME} printable characters"
            )
        self.name = name
        self.patience = Patience(**patience)
        self._check("wait_timeout_s", self.patience.wait_timeout_s, least=0)
        self._check("put_off_s", self.patience.put_off_s)
        self._check("max_put_offs", self.patience.max_put_offs, least=0, whole=True)

    def __repr__(self) -> str:
        return f"<limiter {self.kind} {self.name}>"

    def within_limit(self) -> "Within":
        """Enter the limit, for the body of `with` or `async with`, once.

        Raises, on entering:
            OverLimit: the limit stayed reached for `wait_timeout_s`, or it is certain that it will, or the
                worker stops.
            RedisUnavailable: unknown.
        """
        return Within(self, 1.0)

    def status(self) -> limits.LimitState | None:
        """Its state in Redis; None: it has none, nothing is taken.

        Raises:
            RedisUnavailable: nothing was read.
        """
        place = self.place()
        [state] = limits.read_limits(place.pool, place.keys, [self.asked()])
        return state if state.used or state.waits else None

    def reset(self) -> bool:
        """Forget its state, so that all of it is free; False: there was none.

        A job that holds a lock of a concurrent limiter continues, and is not counted any more.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        return limits.reset_limit(*self._state(self.place()))

    def place(self) -> Place:
        """The place of its state in Redis, for the caller."""
        client, runtime = self.patience.client, RUNTIME.get()
        if client is None and runtime is not None:
            return Place(runtime.redis, runtime.client.keys, runtime.incarnation())
        client = client or default_client()
        return Place(client.pool, client.keys, "")

    def entry(self, amount: float) -> Watched:
        """One entry into the limit, which is not made yet, with a note of it for operators."""
        place = self.place()
        attempt = self.attempt(place, amount)
        put_off_s = self.patience.put_off_s
        return Watched(attempt, place.pool, place.keys, self.asked(), put_off_s)

    @abstractmethod
    def asked(self) -> Asked:
        """Its name and numbers."""

    @abstractmethod
    def attempt(self, place: Place, amount: float) -> Attempt:
        """One entry into the limit, not yet made."""

    def _state(self, place: Place) -> tuple["RedisPool", str]:
        return place.pool, place.keys.limit(self.kind, self.name)

    def _check(
        self, what: str, value: object, *, least: float | None = None, whole: bool = False
    ) -> None:
        kinds = int if whole else int | float
        if (
            isinstance(value, kinds)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and (value > 0 if least is None else value >= least)
        ):
            return
        wanted = "whole number" if whole else "number"
        bound = "above 0" if least is None else f"of at least {least:g}"
        raise ConfigError(f"limiter {self.name!r}: {what} {value!r} is not a {wanted} {bound}")

    def _interval_s(self, per: float | str) -> float:
        known = _INTERVALS.get(per) if isinstance(per, str) else per
        if known is None:
            raise ConfigError(
                f"limiter {self.name!r}: per {per!r} is none of {', '.join(_INTERVALS)}, and no number of seconds"
            )
        self._check("per", known, least=0.001)
        return float(known)


class Within:
    """The time within a limit; used once."""

    def __init__(self, limiter: Limiter, amount: float) -> None:
        self._limiter = limiter
        self._amount = amount
        self._attempt: Attempt | Watched | None = None

    @frames.may_take_long
    def __enter__(self) -> Self:
        attempt = self._begin()
        wait = _Wait(self._limiter)
        try:
            while not (answer := attempt.take()).taken:
                time.sleep(wait.next_s(answer))
        except BaseException:
            attempt.leave()
            raise
        self._attempt = attempt
        return self

    def __exit__(self, *_error: object) -> None:
        if self._attempt is not None:
            self._attempt.leave()

    async def __aenter__(self) -> Self:
        attempt = self._begin()
        wait = _Wait(self._limiter)
        try:
            while not (answer := await _in_thread(attempt.take)).taken:  # noqa: ASYNC110 - Redis sends no event
                await asyncio.sleep(wait.next_s(answer))
        except BaseException:
            await _in_thread(attempt.leave)
            raise
        self._attempt = attempt
        return self

    async def __aexit__(self, *_error: object) -> None:
        if self._attempt is not None:
            await _in_thread(self._attempt.leave)

    def points_used(self, points: float) -> None:
        """Correct the estimate once, by the true cost of a request; for the kind `points`.

        Unused points are free again; points beyond the estimate are owed, and drain before others enter.

        Raises:
            TypeError: the limiter is of another kind, or nothing was entered.
            RedisUnavailable: not corrected; with `ReplyLost` that is unknown.
        """
        if self._attempt is None:
            raise TypeError(
                "points_used is called within the limit: with LIMIT.within_limit() as used:"
            )
        self._attempt.correct(points)

    def _begin(self) -> Attempt | Watched:
        if self._attempt is not None:
            raise RuntimeError("this was entered before; call within_limit() for each time")
        if _unlimited:
            return Attempt(lambda: Answer(taken=True), correct=lambda _points: None)
        return self._limiter.entry(self._amount)


_unlimited: list[None] = []
"""One for each `unlimited` that has begun."""


@contextmanager
def unlimited() -> Iterator[None]:
    """Within, no limiter of this process limits anything, and none asks Redis: for tests of jobs."""
    _unlimited.append(None)
    try:
        yield
    finally:
        _unlimited.pop()


class _Wait:
    """How long one caller waits for room."""

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter
        self._patience = limiter.patience
        self._until = time.monotonic() + self._patience.wait_timeout_s
        self._look_s = _FIRST_LOOK_S
        self._stopped = RUNTIME.get()

    def next_s(self, answer: Answer) -> float:
        """Seconds until the next look.

        Raises:
            OverLimit: there is no use in waiting.
        """
        left_s = self._until - time.monotonic()
        is_stopping = self._stopped is not None and self._stopped.is_stopping()
        if left_s <= 0 or answer.wait_s > left_s or is_stopping:
            raise self._over(answer.wait_s)
        look_s = self._look_s * (0.5 + _random.random())
        self._look_s = min(self._look_s * 1.5, _LOOK_S)
        return min(answer.wait_s or look_s, _LOOK_S, left_s)

    def _over(self, wait_s: float) -> OverLimit:
        limiter, patience = self._limiter, self._patience
        room = f", and there is room in {wait_s:.1f} s at the earliest" if wait_s else ""
        error = OverLimit(
            f"limiter {limiter.name} ({limiter.kind}) is at its limit{room}; waited up to "
            f"{patience.wait_timeout_s:g} s. A job comes back later by itself; other code tries again later"
        )
        error.limiter, error.kind = limiter.name, limiter.kind
        error.wait_s = wait_s
        error.put_off_s = patience.put_off_s
        error.max_put_offs = patience.max_put_offs
        return error


async def _in_thread(function: Callable[[], Any]) -> Any:
    """Call it beside the event loop; it ends, and is waited for, even where the task is cancelled."""
    running = asyncio.get_running_loop().run_in_executor(None, function)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                continue
        if not running.cancelled():
            running.exception()  # seen
        raise
