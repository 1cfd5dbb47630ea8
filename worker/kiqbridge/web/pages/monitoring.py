"""What load balancers ask: `/healthz`, which holds no data of anybody, and asks Redis once a second at most."""

from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from kiqbridge.errors import KiqbridgeError
from kiqbridge.web.context import Site

_THREAD: Final = CapacityLimiter(1)


async def health(request: Request) -> Response:
    """200 when Redis answers, else 503 with the kind of error.

    On a thread of its own: other pages may hold all of theirs.
    """
    return await to_thread.run_sync(_health, request.app.state.site, limiter=_THREAD)


def _health(site: Site) -> Response:
    problem = site.cache.get(("healthz",), lambda: _problem(site))
    if problem:
        return JSONResponse({"status": "unavailable", "reason": problem}, status_code=503)
    return JSONResponse({"status": "ok"})


def _problem(site: Site) -> str:
    try:
        site.operator.pool.call("PING")
    except KiqbridgeError as error:
        # The message has the address of Redis: it is for the log and the pages, not for everybody.
        return f"Redis does not answer ({type(error).__name__})"
    return ""
