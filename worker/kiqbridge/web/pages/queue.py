"""Queue: its jobs by page or filter, the next to be taken or the last pushed first; pause, move, kill, delete, clear."""

from collections.abc import Mapping
from typing import Final, cast

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import Page, Queue, QueuedJob
from kiqbridge.api.actions import Action
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import Role, require_role, requires
from kiqbridge.web.pages.job_sets import MOST_AT_ONCE, jobs
from kiqbridge.web.pages.listing import (
    Listing,
    Rows,
    looks_through,
    parse_listing,
    read_shared,
)
from kiqbridge.web.pages.selection import find_queued, queued_token
from kiqbridge.web.searches import searching

ACTIONS: Final[Mapping[Action, str]] = {"move": "Move", "kill": "Kill", "delete": "Delete"}
DONE: Final[Mapping[Action, str]] = {
    "move": "moved",
    "kill": "moved to the dead set",
    "delete": "deleted",
}
PAUSES: Final[Mapping[str, str]] = {
    "": "until it is resumed",
    "600": "for 10 min",
    "3600": "for 1 h",
    "86400": "for 1 d",
}


def show(request: Request) -> Response:
    """The jobs; or the question before all of them are acted on."""
    view = view_of(request)
    queue = _queue_of(request)
    asked = parse_listing(request.query_params, view)
    rows = _read(view, queue, asked)
    confirmed = request.query_params.get("confirm", "")
    if confirmed:
        return _ask_for_all(request, queue, asked, rows, confirmed)
    pause, latency = view.read(("queue", queue.name), lambda: (queue.pause, queue.latency))
    return render(
        request,
        "queue.html",
        queue=queue,
        here=_path(queue),
        listing=asked,
        rows=rows,
        pause=pause,
        latency=latency,
        tokens=[queued_token(job) for job in rows.page.rows],
        actions=ACTIONS,
        pauses=PAUSES,
        newest_first=asked.order == "newest",
        role_for_all=_role_for_all,
    )


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Pause and resume; of jobs: one (`one`), those that were chosen (`key`), all that match (`all`), or clear."""
    queue = _queue_of(request)
    name, _, token = str(form.get("one") or form.get("action") or "").partition(" ")
    if name == "pause":
        return _pause(request, queue, form)
    if name == "resume":
        resumed = queue.resume()
        notice = f"{queue.name} is served again." if resumed else f"{queue.name} was not paused."
        return redirect(request, _back(request, queue), notice=notice)
    if name == "clear":
        if not form.get("confirmed"):
            return redirect(request, _path(queue), confirm="clear")
        return _clear(request, queue)
    return _act_on_jobs(request, queue, form, _action_of(name), token)


def _act_on_jobs(
    request: Request, queue: Queue, form: FormData, action: Action, token: str
) -> Response:
    to = str(form.get("to") or "").strip() if action == "move" else None
    if to == "":
        raise HTTPException(400, "Write the name of the queue to move the jobs to.")
    asked = parse_listing(request.query_params, view_of(request))
    where = f" to {to}" if to else ""
    if form.get("all"):
        require_role(request, _role_for_all(action))
        if not form.get("confirmed"):
            query = {**asked.filter_query, "confirm": action, "to": to}
            return redirect(request, _path(queue), notice="", **query)
        done = queue.apply_all(action, asked.where or None, to=to, limit=MOST_AT_ONCE)
        notice = f"{jobs(done)} {DONE[action]}{where}."
        if done >= MOST_AT_ONCE:
            notice = f"The first {notice} There may be more: do it again."
        return redirect(request, _path(queue), notice=notice, **asked.filter_query)
    tokens = [token] if token else [str(each) for each in form.getlist("key")]
    found = find_queued(queue, tokens)
    if action == "delete" and found and not form.get("confirmed"):
        return render(
            request,
            "confirm.html",
            here=_path(queue),
            query=asked.query,
            action=action,
            label=ACTIONS[action],
            question=f"Delete {jobs(len(found))}?",
            detail=f"{jobs(len(found))} that you chose in the queue {queue.name}.",
            hidden=[("key", queued_token(job)) for job in found],
            entries=found[:20],
            at=None,
        )
    done = queue.apply(action, found, to=to)
    notice = f"{jobs(done)} {DONE[action]}{where}."
    if not tokens:
        notice = "No job was chosen: nothing was done."
    elif done < len(tokens):
        notice += f" {jobs(len(tokens) - done)} moved on before."
    return redirect(request, _path(queue), notice=notice, **asked.query)


def _pause(request: Request, queue: Queue, form: FormData) -> Response:
    length = str(form.get("for_s") or "")
    if length not in PAUSES:
        raise HTTPException(400, "Choose how long the queue is to be paused.")
    queue.pause_it(str(form.get("reason") or "")[:200], float(length) if length else None)
    return redirect(
        request, _back(request, queue), notice=f"{queue.name} is paused {PAUSES[length]}."
    )


def _clear(request: Request, queue: Queue) -> Response:
    require_role(request, "admin")
    count = queue.clear()
    return redirect(request, "/queues", notice=f"{queue.name} is cleared: {jobs(count)} deleted.")


def _ask_for_all(
    request: Request, queue: Queue, asked: Listing, rows: Rows[QueuedJob], name: str
) -> Response:
    clears = name == "clear"
    action: Action = "delete" if clears else _action_of(name)
    require_role(request, "admin" if clears else _role_for_all(action))
    exact = rows.looked_at is None or (rows.start == 0 and rows.next_start is None)
    count = rows.all if clears else rows.page.total
    number = jobs(count) if exact or clears else f"{jobs(count)} or more"
    to = request.query_params.get("to", "").strip()
    if action == "move" and not to:
        raise HTTPException(400, "Write the name of the queue to move the jobs to.")
    label = "Clear" if clears else ACTIONS[action] + (f" to {to}" if action == "move" else "")
    chosen = f" that match {asked.where}" if asked.where and not clears else ""
    return render(
        request,
        "confirm.html",
        here=_path(queue),
        query={} if clears else asked.query,
        action="clear" if clears else action,
        label=label,
        question=f"{label}: {number} of {queue.name}?",
        detail=f"All jobs{chosen} in the queue {queue.name}: {number}."
        + ("" if exact else f" Of {rows.all:,}, {rows.looked_at or 0:,} were looked at.")
        + (" The queue's name leaves the list, until the next job is pushed." if clears else ""),
        hidden=[("all", "1"), *([("to", to)] if action == "move" else [])],
        entries=rows.page.rows[:5],
        at=None,
    )


def _read(view: View, queue: Queue, asked: Listing) -> Rows[QueuedJob]:
    oldest_first = asked.order != "newest"

    def read(number: int, size: int) -> Page[QueuedJob]:
        return queue.page(number, size, oldest_first=oldest_first)

    return read_shared(view, f"queue:{queue.name}", read, asked)


def _queue_of(request: Request) -> Queue:
    return Queue(request.path_params["name"], view_of(request).operator)


def _path(queue: Queue) -> str:
    return f"/queues/{queue.name}"


def _back(request: Request, queue: Queue) -> str:
    return "/queues" if request.query_params.get("back") == "queues" else _path(queue)


def _action_of(name: str) -> Action:
    if name not in ACTIONS:
        raise HTTPException(400, f"There is no action {name!r} for a queue.")
    return cast("Action", name)


def _role_for_all(action: str) -> Role:
    return "admin" if action in ("delete", "clear") else "operator"


ROUTES: Final = [
    Route("/queues/{name:path}", searching(show, looks_through)),
    Route("/queues/{name:path}", act, methods=["POST"]),
]
