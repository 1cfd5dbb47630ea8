"""Queues: how many jobs wait in each, and for how long; pause and resume."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Operator, Page, ProcessSet, QueueStats, Stats
from kiqbridge.store.pauses import Pause
from kiqbridge.web.context import render, view_of
from kiqbridge.web.pages.listing import parse_listing

PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue in the list.

    Attributes:
        latency: seconds for which its oldest job has waited; negative if its `enqueued_at` is in the future.
        pause: why no worker takes its jobs; None if they do.
        served_by: how many processes take jobs from it, quiet ones left out.
    """

    name: str
    size: int
    latency: float
    pause: Pause | None
    served_by: int


def show(request: Request) -> Response:
    """A page of the queues, the longest first."""
    view = view_of(request)
    number = parse_listing(request.query_params, view).number
    rows = view.read(("queues",), lambda: _fetch_rows(view.operator))
    return render(
        request,
        "queues.html",
        page=Page(
            number=number,
            size=PER_PAGE,
            total=len(rows),
            rows=rows[(number - 1) * PER_PAGE : number * PER_PAGE],
        ),
        longest=max((row.size for row in rows), default=0),
        waiting=sum(row.size for row in rows),
    )


def _fetch_rows(operator: Operator) -> list[QueueRow]:
    pauses = {each.name: each for each in operator.pauses() if each.kind == "queue"}
    served = Counter(
        name
        for process in ProcessSet(operator)
        if not process.is_quiet
        for name in set(process.queues)
    )
    found = Stats(operator).queues
    # A queue can be paused before the first job was pushed to it.
    nothing = QueueStats(size=0, latency=0.0)
    rows = [
        QueueRow(
            name=name,
            size=stats.size,
            latency=stats.latency,
            pause=pauses.get(name),
            served_by=served[name],
        )
        for name, stats in (dict.fromkeys(pauses, nothing) | dict(found)).items()
    ]
    return sorted(rows, key=lambda row: (-row.size, row.name))


ROUTES: Final = [Route("/queues", show)]
