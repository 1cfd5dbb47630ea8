"""Queues: how many jobs wait in each, and for how long; pause and resume."""

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Operator, Stats
from kiqbridge.store.pauses import Pause, list_pauses
from kiqbridge.web.context import render, view_of


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue in the list; `latency` in seconds."""

    name: str
    size: int
    latency: float
    pause: Pause | None


def show(request: Request) -> Response:
    """The list of queues, the longest first."""
    view = view_of(request)
    rows = view.read(("queues",), lambda: _fetch_rows(view.operator))
    return render(
        request,
        "queues.html",
        rows=rows,
        longest=max((row.size for row in rows), default=0),
        waiting=sum(row.size for row in rows),
    )


def _fetch_rows(operator: Operator) -> list[QueueRow]:
    pauses = {
        each.name: each
        for each in list_pauses(operator.pool, operator.keys)
        if each.kind == "queue"
    }
    found = Stats(operator).queues
    rows = [
        QueueRow(name=name, size=each.size, latency=each.latency, pause=pauses.pop(name, None))
        for name, each in found.items()
    ]
    # A queue can be paused before the first job was pushed to it.
    return rows + [
        QueueRow(name=name, size=0, latency=0.0, pause=pause) for name, pause in pauses.items()
    ]


ROUTES: Final = [Route("/queues", show)]
