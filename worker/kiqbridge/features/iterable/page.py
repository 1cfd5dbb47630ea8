"""What the page Busy shows of iterable jobs: how far they are; and a button that cancels one."""

from collections.abc import Iterable, Mapping

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Operator, record_audit
from kiqbridge.features.iterable.progress import Iteration, fetch_iterations
from kiqbridge.web.context import redirect, view_of
from kiqbridge.web.guard import requires


def routes() -> list[Route]:
    """What the button calls."""
    return [Route("/busy/cancel", cancel, methods=["POST"])]


def shown(operator: Operator, jids: Iterable[str]) -> tuple[str, Mapping[str, Iteration]]:
    """The progress of those of these jobs that are iterable; raises as `fetch_iterations`."""
    return "iterable.html", fetch_iterations(jids, operator)


@requires("operator")
def cancel(request: Request, form: FormData) -> Response:
    """Ask an iterable job to end."""
    jid = str(form.get("jid", ""))
    operator = view_of(request).operator
    if jid not in fetch_iterations([jid], operator):
        raise HTTPException(
            404,
            "This job has no progress in Redis: it has ended, or is not iterable and cannot be cancelled.",
        )
    operator.client.cancel(jid)
    record_audit(operator, "cancel", f"job:{jid}")
    return redirect(
        request,
        "/busy",
        notice=f"{jid} was asked to end: it does so before its next item, within about 5 s, and counts as complete.",
    )
