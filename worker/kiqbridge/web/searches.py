"""GETs that search: on threads of their own, few at once, for a bounded time.

A search reads up to all queues and sets. On the threads of the other pages 60 of them would be all that the page does,
for as long as they take; here the other pages go on, and what would wait for long is refused.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from anyio import CapacityLimiter, Semaphore, move_on_after, to_thread
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.errors import RedisUnavailable
from kiqbridge.store import deadline

AT_ONCE: Final = 2
BEGIN_WITHIN_S: Final = 5.0
WITHIN_S: Final = 10.0
"""About ten million jobs on an idle machine; from the search's own begin, not from that of its wait."""

Handler = Callable[[Request], Response]


class Searches:
    """The searches of one application.

    Args:
        begin_within_s: seconds that one may wait for those before it.
        within_s: seconds that one may take.
    """

    def __init__(
        self, *, begin_within_s: float = BEGIN_WITHIN_S, within_s: float = WITHIN_S
    ) -> None:
        self._begin_within_s = begin_within_s
        self._within_s = within_s
        self._turns = Semaphore(AT_ONCE)
        self._threads = CapacityLimiter(AT_ONCE)

    async def run(self, handler: Handler, request: Request) -> Response:
        """What the handler answers.

        Raises:
            HTTPException: 503, too many are before it, or its time is over.
        """
        with move_on_after(self._begin_within_s) as wait:
            await self._turns.acquire()
        if wait.cancelled_caught:
            raise HTTPException(
                503, "Too many searches at once: try again in some seconds.", {"Retry-After": "5"}
            )
        try:
            return await to_thread.run_sync(self._search, handler, request, limiter=self._threads)
        finally:
            self._turns.release()

    def _search(self, handler: Handler, request: Request) -> Response:
        with deadline.within(self._within_s):
            try:
                return handler(request)
            except RedisUnavailable:
                if not deadline.is_over():
                    raise
                raise HTTPException(
                    503,
                    f"The search was ended after {self._within_s:g} s: there are too many jobs to look through. "
                    "kiqbridge job JID and kiqbridge dead list search without this limit.",
                ) from None


def searching(
    handler: Handler, needed: Callable[[Request], bool] = lambda _: True
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint out of a handler that searches, if `needed` says so of the request."""

    async def endpoint(request: Request) -> Response:
        if not needed(request):
            return await run_in_threadpool(handler, request)
        searches: Searches = request.app.state.site.searches
        return await searches.run(handler, request)

    return endpoint
