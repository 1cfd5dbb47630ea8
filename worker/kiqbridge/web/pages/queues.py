"""Queues: how many jobs wait in each, and for how long; the jobs of one; pause, move, kill, delete, clear."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api import ProcessSet, Queue, QueueRates, QueueStats, Stats, fetch_queue_rates
from kiqbridge.api.queue_rates import Minutes, fetch_queue_minutes
from kiqbridge.api.waits import why_queue_waits
from kiqbridge.store.pauses import Pause
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import require_role, requires
from kiqbridge.web.pages.acting import Place, act, chosen_action, jobs, role_for_all, show_jobs
from kiqbridge.web.pages.listing import Listing, page_of
from kiqbridge.web.plots import sparkline

PER_PAGE: Final = 100
HISTORY_FRESH_S: Final = 10.0
ACTIONS: Final[Mapping[str, str]] = {"move": "Move", "kill": "Kill", "delete": "Delete"}
PAUSES: Final[Mapping[str, str]] = {
    "": "until it is resumed",
    "600": "for 10 min",
    "3600": "for 1 h",
    "14400": "for 4 h",
    "86400": "for 1 d",
    "604800": "for 7 d",
}
"""Seconds, as a form has them, and what they are called."""


def show_all(request: Request) -> Response:
    """A page of the queues, the longest first."""
    view = view_of(request)
    rows = view.read(("queues",), lambda: _fetch_rows(view))
    history = fetch_history(view)
    return render(
        request,
        "queues.html",
        page=page_of(rows, request, PER_PAGE),
        longest=max((stats.size for _, stats, *_ in rows), default=0),
        waiting=sum(stats.size for _, stats, *_ in rows),
        rates=_fetch_rates(view),
        trend_of=lambda name: trend(history, name),
    )


def fetch_history(view: View) -> Minutes:
    """What the queues were in the last hour."""
    return view.read(
        ("queue history",), lambda: fetch_queue_minutes(view.operator), HISTORY_FRESH_S
    )


def _fetch_rates(view: View) -> Mapping[str, QueueRates]:
    minutes = fetch_history(view)
    load = partial(fetch_queue_rates, view.operator, minutes)
    return view.read(("queue rates",), load, HISTORY_FRESH_S)


def trend(history: Minutes, name: str) -> Markup:
    """The sizes of a queue in the last hour."""
    sizes = [minute[name].size if name in minute else None for minute in history.values()]
    return sparkline(sizes, label=f"Jobs in {name} in the last hour") if any(sizes) else Markup("")


def _fetch_rows(view: View) -> list[tuple[str, QueueStats, Pause | None, int]]:
    """Name, size and latency, why it is paused, and how many processes take jobs from it, of each queue."""
    operator, pauses = view.operator, view.paused("queue")
    at_work = [process for process in ProcessSet(operator) if not process.is_quiet]
    served = Counter(name for process in at_work for name in set(process.queues))
    # A queue can be paused before the first job was pushed to it.
    nothing = dict.fromkeys(pauses, QueueStats(size=0, latency=0.0))
    found = sorted((nothing | dict(Stats(operator).queues)).items(), key=lambda each: each[0])
    return [
        (name, stats, pauses.get(name), served[name])
        for name, stats in sorted(found, key=lambda each: -each[1].size)
    ]


def show(request: Request) -> Response:
    """The jobs of one; or the question before all of them are acted on."""
    view = view_of(request)
    place, queue = _place_of(request)

    def more(_: Listing) -> Mapping[str, Any]:
        return {
            "queue": queue,
            "pause": view.paused("queue").get(queue.name),
            "latency": view.read(("queue", queue.name), lambda: queue.latency),
            "pauses": PAUSES,
            "wait": view.read(
                ("why", queue.name), lambda: why_queue_waits(queue.name, view.operator, view.now)
            ),
            "rates": _fetch_rates(view).get(queue.name),
            "plot": trend(fetch_history(view), queue.name),
        }

    return show_jobs(request, place, "queue.html", more)


def pause_of(form: FormData) -> tuple[str, float | None, str]:
    """Why something is to be paused, for how many seconds (None: until it is resumed), and that in words."""
    length = str(form.get("for_s") or "")
    if length not in PAUSES:
        raise HTTPException(400, "Choose how long it is to be paused.")
    return str(form.get("reason") or "")[:200], float(length) if length else None, PAUSES[length]


@requires("operator")
def post(request: Request, form: FormData) -> Response:
    """Pause, resume or clear the queue, or act on its jobs."""
    place, queue = _place_of(request)
    action, _ = chosen_action(form)
    back = "/queues" if request.query_params.get("back") == "queues" else place.path
    if action == "pause":
        reason, for_s, words = pause_of(form)
        queue.pause_it(reason, for_s)
        return redirect(request, back, notice=f"{queue.name} is paused {words}.")
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
    return act(request, form, place)


def _place_of(request: Request) -> tuple[Place, Queue]:
    queue = Queue(request.path_params["name"], view_of(request).operator)
    return place_in(queue), queue


def place_in(queue: Queue) -> Place:
    """A queue, as what acts on its jobs needs it."""
    name = f"in the queue {queue.name}"
    return Place(jobs=queue, path=f"/queues/{queue.name}", name=name, labels=ACTIONS)
