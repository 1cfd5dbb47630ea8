"""Doctor: what is wrong with Redis, with the jobs in it and with the workers, why that matters, what to do."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.features.doctor.finding import sentence
from kiqbridge.web.context import render, view_of

FRESH_S: Final = 20.0
"""An examination is thousands of commands: all viewers share one."""
ORDER: Final = ("problem", "warning", "unknown", "ok")


def routes() -> list[Route]:
    """The page."""
    return [Route("/doctor", show)]


def show(request: Request) -> Response:
    """All findings, the worst first; what is well is folded."""
    from kiqbridge.features.doctor.examination import examine  # noqa: PLC0415 - other pages need none of its rules

    view = view_of(request)
    found = view.read(("doctor",), lambda: examine(view.operator), FRESH_S)
    by_status = {
        status: [each for each in found if each.status.value == status] for status in ORDER
    }
    return render(request, "doctor.html", by_status=by_status, total=len(found), sentence=sentence)
