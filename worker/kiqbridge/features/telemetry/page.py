"""`/prometheus` of the web page, for a scraper (docs/reference/logging.md).

It is behind the same authentication as the pages: the names of queues and classes say much. It asks Redis once a second
at most.
"""

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kiqbridge.errors import ConfigError
from kiqbridge.features.telemetry.prometheus import CONTENT_TYPE, prometheus_text
from kiqbridge.web.context import view_of


def routes() -> list[Route]:
    """What a scraper asks."""
    return [Route("/prometheus", prometheus)]


def prometheus(request: Request) -> Response:
    """The numbers; `kiqbridge_redis_up` alone, and 0, while Redis does not answer. 501 without the library."""
    view = view_of(request)
    try:
        text = view.read(("prometheus",), lambda: prometheus_text(view.site.operator))
    except ConfigError as error:
        return PlainTextResponse(f"{error}\n", status_code=HTTPStatus.NOT_IMPLEMENTED)
    return Response(text, media_type=CONTENT_TYPE)
