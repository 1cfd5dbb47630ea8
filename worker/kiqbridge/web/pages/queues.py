"""Queues: how many jobs wait in each, and for how long; the jobs of one; pause, move, kill, delete, clear."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Operator, Page, ProcessSet, Queue, QueuedJob, QueueStats, Stats
from kiqbridge.store.pauses import Pause
from kiqbridge.web.context import redirect, render, view_of
from kiqbridge.web.guard import require_role, requires
from kiqbridge.web.pages.acting import (
    Place,
    act,
    ask_for_all,
    chosen_action,
    jobs,
    role_for_all,
    target_of,
    token_of,
)
from kiqbridge.web.pages.listing import looks_through, page_of, parse_listing, read_shared
from kiqbridge.web.searches import searching

PER_PAGE: Final = 100
ACTIONS: Final[Mapping[str, str]] = {"move": "Move", "kill": "Kill", "delete": "Delete"}
PAUSES: Final[Mapping[str, str]] = {
    "": "until it is resumed",
    "600": "for 10 min",
    "3600": "for 1 h",
    "86400": "for 1 d",
}


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


def show_all(request: Request) -> Response:
    """A page of the queues, the longest first."""
    view = view_of(request)
    rows = view.read(("queues",), lambda: _fetch_rows(view.operator))
    return render(
        request,
        "queues.html",
        page=page_of(rows, request, PER_PAGE),
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


def show(request: Request) -> Response:
    """The jobs of one; or the question before all of them are acted on."""
    view = view_of(request)
    place, queue = _place_of(request)
    asked = parse_listing(request.query_params, view)

    def read(number: int, size: int) -> Page[QueuedJob]:
        return queue.page(number, size, oldest_first=asked.order != "newest")

    rows = read_shared(view, f"queue:{queue.name}", read, asked)
    if action := request.query_params.get("confirm", ""):
        return ask_for_all(request, place, asked, rows, action)
    pause, latency = view.read(("queue", queue.name), lambda: (queue.pause, queue.latency))
    return render(
        request,
        "queue.html",
        queue=queue,
        here=place.path,
        listing=asked,
        rows=rows,
        pause=pause,
        latency=latency,
        token_of=token_of,
        actions=ACTIONS,
        pauses=PAUSES,
        newest_first=asked.order == "newest",
        role_for_all=role_for_all,
    )


@requires("operator")
def post(request: Request, form: FormData) -> Response:
    """Pause, resume or clear the queue, or act on its jobs."""
    place, queue = _place_of(request)
    action, _ = chosen_action(form)
    back = "/queues" if request.query_params.get("back") == "queues" else place.path
    if action == "pause":
        length = str(form.get("for_s") or "")
        if length not in PAUSES:
            raise HTTPException(400, "Choose how long the queue is to be paused.")
        queue.pause_it(str(form.get("reason") or "")[:200], float(length) if length else None)
        return redirect(request, back, notice=f"{queue.name} is paused {PAUSES[length]}.")
    if action == "resume":
        resumed = queue.resume()
        notice = f"{queue.name} is served again." if resumed else f"{queue.name} was not paused."
        return redirect(request, back, notice=notice)
    if action == "clear":
        if not form.get("confirmed"):
            return redirect(request, place.path, confirm="clear")
        require_role(request, role_for_all("clear"))
        notice = f"{queue.name} is cleared: {jobs(queue.clear())} deleted."
        return redirect(request, "/queues", notice=notice)
    place.require(action)
    if action == "move":
        return act(request, form, place, to=target_of(action, form))
    return act(request, form, place)


def _place_of(request: Request) -> tuple[Place, Queue]:
    queue = Queue(request.path_params["name"], view_of(request).operator)
    name = f"in the queue {queue.name}"
    return Place(jobs=queue, path=f"/queues/{queue.name}", name=name, labels=ACTIONS), queue


ROUTES: Final = [
    Route("/queues", show_all),
    Route("/queues/{name:path}", searching(show, looks_through)),
    Route("/queues/{name:path}", post, methods=["POST"]),
]
