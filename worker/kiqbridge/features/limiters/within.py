"""Entering a limit, with `with` or `async with`: ask, wait for room, and leave.

1. One round trip asks. Where the limit is reached the answer says when there is room, as far as that is known.
2. If that is later than the caller would wait, or its worker stops, `OverLimit` is raised at once. Else it waits
   and asks again: on the calling thread, or as a task of the event loop, while a thread asks Redis.
3. On leaving, a lock is given back, whatever was raised within.
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from kiqbridge.client.current import RUNTIME
from kiqbridge.errors import OverLimit
from kiqbridge.features.limiters.store import Answer
from kiqbridge.runtime import frames

if TYPE_CHECKING:
    from kiqbridge.features.limiters.limiter import Limiter

_FIRST_LOOK_S: Final = 0.05
_LOOK_S: Final = 0.5
"""Between two looks whether there is room; also how soon the end of the worker is noticed."""

_random = random.Random()  # noqa: S311 - spreads out who waits


def _refuse_points(points: float) -> None:
    raise TypeError(f"points_used({points:g}): only limiters of the kind points have points")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One entry into a limit: asked for until it is granted, then left.

    Attributes:
        take: asks once, in one round trip.
        leave: it is over, or was given up.
        correct: it took so many points, and not as many as it was granted.
    """

    take: Callable[[], Answer]
    leave: Callable[[], object] = lambda: None
    correct: Callable[[float], object] = _refuse_points


class Within:
    """The time within a limit; used once."""

    def __init__(self, limiter: "Limiter", amount: float) -> None:
        self._limiter = limiter
        self._amount = amount
        self._attempt: Attempt | None = None

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
        """Correct the estimate by what a request has truly cost, once; for the kind `points`.

        What was not needed is free again; what was taken beyond it is owed, and drains before others enter.

        Raises:
            TypeError: the limiter is of another kind, or nothing was entered.
            RedisUnavailable: not corrected; with `ReplyLost` nobody can say.
        """
        if self._attempt is None:
            raise TypeError(
                "points_used is called within the limit: with LIMIT.within_limit() as used:"
            )
        self._attempt.correct(points)

    def _begin(self) -> Attempt:
        if self._attempt is not None:
            raise RuntimeError("this was entered before; call within_limit() for each time")
        if _unlimited:
            return Attempt(lambda: Answer(taken=True), correct=lambda _points: None)
        return self._limiter.attempt(self._limiter.place(), self._amount)


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

    def __init__(self, limiter: "Limiter") -> None:
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
        error.limiter = limiter.name
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
