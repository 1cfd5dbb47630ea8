"""Done: the jobs that have ended, the last first."""

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kiqbridge.api import Operator
from kiqbridge.api.filters import parse_age, parse_terms
from kiqbridge.errors import PayloadError
from kiqbridge.features.done import reading
from kiqbridge.features.done.record import DoneJob
from kiqbridge.web.context import render, url, view_of
from kiqbridge.web.pages.listing import named_by

ROWS: Final = 50
LOOKED_AT: Final = 5_000
"""Records that one page of a filtered list looks at, in ten round trips; the next page goes on where it ended."""

FIELDS: Final = {
    "class": "job_class",
    "queue": "queue",
    "tag": "tag",
    "outcome": "outcome",
    "error_class": "error_class",
    "longer": "longer_than_s",
}
"""Name in the search → attribute of a filter."""


def routes() -> list[Route]:
    """The page."""
    return [Route("/done", show)]


def show(request: Request) -> Response:
    """A page of jobs."""
    view, given = view_of(request), request.query_params
    if path := named_by(request):
        return RedirectResponse(url(request, path), status_code=303)
    q = given.get("q", "").strip()
    before = reading.parse_position(given.get("before", ""))
    where = _filter(q)
    key = ("done", q, before)
    jobs, older = view.read(key, lambda: fetch(view.operator, where, before))
    return render(
        request,
        "done.html",
        jobs=jobs,
        older=older,
        search={
            "path": "/done",
            "what": "done jobs",
            "q": q,
            "hint": "class:Mail outcome:dead longer:10s",
        },
        is_first=before is None,
        total=view.read(("done count",), lambda: reading.count_done(view.operator)),
    )


def fetch(
    operator: Operator, where: reading.DoneFilter, before: reading.Position | None, rows: int = ROWS
) -> tuple[list[DoneJob], reading.Position | None]:
    """The jobs that match, and the position behind which the next page begins; None: no more."""
    found, looked_at, last = list[DoneJob](), 0, None
    for job, position in reading.scan_done(where, operator, before=before, most=LOOKED_AT):
        if len(found) == rows:
            return found, last
        if job is not None:
            found.append(job)
        last, looked_at = position, looked_at + 1
    return found, last if looked_at >= LOOKED_AT else None


def _filter(q: str) -> reading.DoneFilter:
    given, words = parse_terms(f"class:{q}" if q and ":" not in q else q, FIELDS)
    if words:
        raise PayloadError(f"Write what {words!r} is: {', '.join(FIELDS)}, as in class:Mail.")
    texts = {FIELDS[name]: text for name, text in given.items() if name != "longer"}
    return reading.DoneFilter(**texts, longer_than_s=parse_age("longer", given.get("longer", "0")))
