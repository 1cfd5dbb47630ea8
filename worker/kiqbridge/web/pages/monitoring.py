"""What programs ask: `/healthz` for load balancers, `/prometheus` for a scraper (docs/telemetry.md).

`/healthz` holds no data of anybody. `/prometheus` is behind the same authentication as the pages: the names of queues
and classes say much. Each asks Redis once a second at most.
"""

from http import HTTPStatus
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.operate.telemetry.prometheus import CONTENT_TYPE, prometheus_text
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


def prometheus(request: Request) -> Response:
    """The numbers; `kiqbridge_redis_up` alone, and 0, while Redis does not answer. 501 without the library."""
    site: Site = request.app.state.site
    try:
        text = site.cache.get(("prometheus",), lambda: prometheus_text(site.operator))
    except ConfigError as error:
        return PlainTextResponse(f"{error}\n", status_code=HTTPStatus.NOT_IMPLEMENTED)
    return Response(text, media_type=CONTENT_TYPE)
