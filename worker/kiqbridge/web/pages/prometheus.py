"""`/prometheus`: the numbers of the fleet for a scraper, read from Redis once a second at most (docs/telemetry.md).

It is behind the same authentication as the pages: queues and classes have telling names.
"""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.telemetry.prometheus import CONTENT_TYPE, prometheus_text
from kiqbridge.web.context import Site


def show(request: Request) -> Response:
    """The text; `kiqbridge_redis_up` alone, and 0, while Redis does not answer."""
    site: Site = request.app.state.site
    text = site.cache.get(("prometheus",), lambda: prometheus_text(site.operator))
    return Response(text, media_type=CONTENT_TYPE)


ROUTES: Final = [Route("/prometheus", show)]
