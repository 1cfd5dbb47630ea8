"""Sources and spill: what makes jobs of events, what came in, and what waits in SQS while Redis was away."""

import os
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kiqbridge import seams
from kiqbridge.api.sources import fetch_sources
from kiqbridge.web.context import render, view_of

FILE_FRESH_S: Final = 30.0


def show(request: Request) -> Response:
    """All sources of jobs besides clients."""
    view = view_of(request)
    found = view.read(("sources",), lambda: fetch_sources(view.operator))
    parts = [
        view.read(("source", claim.feature.name), partial(claim, os.environ), FILE_FRESH_S)
        for claim in seams.found("source")
    ]
    return render(request, "sources.html", found=found, parts=parts)
