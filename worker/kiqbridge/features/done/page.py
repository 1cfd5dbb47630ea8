"""Done: the jobs that have ended, the last first."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Operator
from kiqbridge.features.done.reading import (
    DoneFilter,
    Position,
    count_done,
    parse_position,
    scan_done,
)
from kiqbridge.features.done.record import DoneJob
from kiqbridge.web.context import render, view_of

ROWS: Final = 50
LOOKED_AT: Final = 5_000
"""Records that one page of a filtered list looks at, in ten round trips; the next page goes on where it ended."""

FIELDS: Final = {
    "class": "Class",
    "queue": "Queue",
    "tag": "Tag",
    "outcome": "Outcome",
    "error_class": "Error",
    "longer_than_s": "Took at least (s)",
}
_MOST_CHARACTERS: Final = 200


def routes() -> list[Route]:
    """The page."""
    return [Route("/done", show)]


def show(request: Request) -> Response:
    """A page of jobs."""
    view, given = view_of(request), request.query_params
    wanted = {name: given.get(name, "").strip()[:_MOST_CHARACTERS] for name in FIELDS}
    wanted = {name: text for name, text in wanted.items() if text}
    before = parse_position(given.get("before", ""))
    where = _filter(wanted)
    key = ("done", tuple(wanted.items()), before)
    jobs, older = view.read(key, lambda: fetch(view.operator, where, before))
    return render(
        request,
        "done.html",
        jobs=jobs,
        older=older,
        wanted=wanted,
        fields=FIELDS,
        is_first=before is None,
        total=view.read(("done count",), lambda: count_done(view.operator)),
    )


def fetch(
    operator: Operator, where: DoneFilter, before: Position | None, rows: int = ROWS
) -> tuple[list[DoneJob], Position | None]:
    """The jobs that match, and the position behind which the next page begins; None: no more."""
    found, looked_at, last = list[DoneJob](), 0, None
    for job, position in scan_done(where, operator, before=before, most=LOOKED_AT):
        if len(found) == rows:
            return found, last
        if job is not None:
            found.append(job)
        last, looked_at = position, looked_at + 1
    return found, last if looked_at >= LOOKED_AT else None


def _filter(wanted: dict[str, str]) -> DoneFilter:
    try:
        longer_than_s = float(wanted.get("longer_than_s", 0))
    except ValueError:
        raise HTTPException(400, "Write a number of seconds.") from None
    names = {"class": "job_class"}
    texts = {
        names.get(name, name): text for name, text in wanted.items() if name != "longer_than_s"
    }
    return DoneFilter(**texts, longer_than_s=longer_than_s)
