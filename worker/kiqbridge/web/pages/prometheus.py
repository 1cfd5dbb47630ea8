"""`/prometheus`: the numbers of the fleet for a scraper, read from Redis once a second at most (docs/telemetry.md).

It is behind the same authentication as the pages: the names of queues and classes say much.
"""

from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kiqbridge.errors import ConfigError
from kiqbridge.telemetry.prometheus import CONTENT_TYPE, prometheus_text
from kiqbridge.web.context import Site


def show(request: Request) -> Response:
    """The text; `kiqbridge_redis_up` alone, and 0, while Redis does not answer. 501 without the library."""
    try:
        return Response(_text(request.app.state.site), media_type=CONTENT_TYPE)
    except ConfigError as error:
        return PlainTextResponse(f"{error}\n", status_code=HTTPStatus.NOT_IMPLEMENTED)


def _text(site: Site) -> bytes:
    return site.cache.get(("prometheus",), lambda: prometheus_text(site.operator))


ROUTES: Final = [Route("/prometheus", show)]
