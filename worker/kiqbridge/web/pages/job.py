"""Job: where one is, its life, arguments and error, its text, and what can be done to it."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from kiqbridge.api import Found, JobRecord, Queue, QueuedJob, SortedEntry, find_job
from kiqbridge.errors import PayloadError
from kiqbridge.web.context import View, redirect, render, url, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.lint import remarks
from kiqbridge.web.pages.job_sets import DELAYS, DONE, SCREENS
from kiqbridge.web.pages.selection import entry_token, find_entries, find_queued, queued_token
from kiqbridge.web.searches import searching
from kiqbridge.web.shown import PAGE_CHARACTERS
from kiqbridge.web.timeline import place_of, steps, tick_of

if TYPE_CHECKING:
    from kiqbridge.api.actions import Action
    from kiqbridge.api.whereabouts import Place

FOUND_FRESH_S: Final = 2.0
NO_JID: Final = "-"
"""Stands in an address for the jid of a job that has none."""
MAX_EDITED: Final = 50_000
"""Bytes of a job whose arguments a form offers for editing."""


def show(request: Request) -> Response:
    """Everything about a job; 404 with where was looked if it is nowhere."""
    view = view_of(request)
    jid = request.path_params["jid"]
    found = _find(
        view, jid, request.query_params.get("in", ""), request.query_params.get("key", "")
    )
    if not found:
        return render(request, "no_job.html", 404, jid=jid)
    job = found[0].job
    if request.query_params.get("raw"):
        return PlainTextResponse(_raw(view, job))
    args = _pretty(_visible_args(view, job))
    return render(
        request,
        "job.html",
        job=job,
        found=found,
        places=[(place_of(each), _address(each), each) for each in found],
        screen=SCREENS.get(found[0].name) if isinstance(job, SortedEntry) else None,
        token=_token(job),
        steps=steps(job, found[0].place, view.now),
        args=args,
        editable=_editable(view, job),
        remarks=remarks(job),
        tick=tick_of(job),
        raw=_raw(view, job)[: PAGE_CHARACTERS + 1],
        most=PAGE_CHARACTERS,
        delays=DELAYS,
        known=_KNOWN if job.tags else _KNOWN - {"tags"},
    )


def find(request: Request) -> Response:
    """From the form in the header to the page of the job with this id."""
    jid = request.query_params.get("jid", "").strip()
    if not jid:
        raise HTTPException(400, "Write the id of a job: the 24 letters and digits of its jid.")
    return RedirectResponse(url(request, f"/jobs/{jid}"), status_code=303)


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Retry, kill, delete, reschedule, move, or push it with other arguments."""
    view = view_of(request)
    jid = request.path_params["jid"]
    found = _find(view, jid, str(form.get("in") or ""), str(form.get("key") or ""))
    job = found[0].job if found else None
    action = str(form.get("action") or "")
    if action == "delete" and job is not None and _token(job) and not form.get("confirmed"):
        return _ask_to_delete(request, jid, found[0])
    if isinstance(job, SortedEntry):
        notice = _act_on_entry(view, job, action, form)
        return redirect(request, SCREENS[job.parent.name].path, notice=notice)
    if isinstance(job, QueuedJob):
        notice = _act_on_queued(job, action, form)
        return redirect(request, f"/queues/{job.parent.name}", notice=notice)
    raise HTTPException(
        404,
        f"Job {jid} is in no queue and in no set any more: it runs, has ended, or was deleted. Nothing was done.",
    )


def _ask_to_delete(request: Request, jid: str, found: Found) -> Response:
    place = f"queue:{found.name}" if found.place == "queue" else found.place
    return render(
        request,
        "confirm.html",
        here=f"/jobs/{jid}",
        query={"in": place, "key": _token(found.job)},
        action="delete",
        label="Delete",
        question="Delete 1 job?",
        detail=f"The job {found.job.jid} {place_of(found)}.",
        hidden=[("in", place), ("key", _token(found.job))],
        entries=[found.job],
        at=None,
    )


def _act_on_entry(view: View, job: SortedEntry, action: str, form: FormData) -> str:
    if action == "requeue":
        jid = job.requeue(**_edited(form))
        return f"Job {job.jid} was pushed as edited." if jid else _gone(job)
    if action == "reschedule":
        done = job.reschedule(_new_time(view, form))
    elif action in ("retry", "kill", "delete"):
        done = bool(job.parent.apply(cast("Action", action), [job]))
    else:
        raise HTTPException(400, f"There is no action {action!r} for a job.")
    return f"Job {job.jid} {_was(DONE[cast('Action', action)])}." if done else _gone(job)


def _act_on_queued(job: QueuedJob, action: str, form: FormData) -> str:
    to = str(form.get("to") or "").strip()
    if action == "move" and not to:
        raise HTTPException(400, "Write the name of the queue to move the job to.")
    if action == "delete":
        done, what = job.delete(), "was deleted"
    elif action == "kill":
        done, what = job.kill(), "was moved to the dead set"
    elif action == "move":
        done, what = job.move(to), f"was moved to the queue {to}"
    else:
        raise HTTPException(400, f"There is no action {action!r} for a job in a queue.")
    return f"Job {job.jid} {what}." if done else _gone(job)


def _edited(form: FormData) -> dict[str, Any]:
    """What the form changes: only what differs from what it was made with."""
    changes: dict[str, Any] = {}
    text = str(form.get("args") or "")
    try:
        args = json.loads(text)
    except ValueError as error:
        raise PayloadError(f"args: this is no JSON ({error}); nothing was done") from None
    if not isinstance(args, list):
        raise PayloadError("args: write a list, as [1, true]; nothing was done")
    changes["args"] = args
    for name in ("queue", "job_class"):
        value = str(form.get(name) or "").strip()
        if value and value != form.get(f"{name}_before"):
            changes[name] = value
    return changes


def _new_time(view: View, form: FormData) -> float:
    at = str(form.get("at") or "")
    if at:
        try:
            moment = datetime.fromisoformat(at)
            return (moment if moment.tzinfo else moment.replace(tzinfo=view.zone)).timestamp()
        except (ValueError, OverflowError):
            raise HTTPException(
                400, f"{at!r} is no date and time, such as 2026-11-22T18:05."
            ) from None
    delay = str(form.get("in_s") or "")
    if delay not in DELAYS:
        raise HTTPException(400, "Choose when the job is to be due.")
    return view.now + float(delay)


def _find(view: View, jid: str, place: str, token: str) -> list[Found]:
    """Where the link says that it was, without a search; else everywhere."""
    hinted = _at(view, place, token)
    if hinted is not None and (hinted.job.jid or NO_JID) == jid:
        return [hinted]
    if jid == NO_JID:
        return []
    return view.read(("job", jid), lambda: find_job(jid, view.operator), FOUND_FRESH_S)


def _at(view: View, place: str, token: str) -> Found | None:
    kind, _, name = place.partition(":")
    if kind == "queue" and name:
        waiting = find_queued(Queue(name, view.operator), [token])
        if not waiting:
            return None
        return Found(place="queue", name=name, job=waiting[0])
    screen = SCREENS.get(kind)
    if screen is None:
        return None
    members = find_entries(screen.kind(view.operator), [token])
    if not members:
        return None
    return Found(place=cast("Place", kind), name=kind, job=members[0])


def _token(job: JobRecord) -> str:
    if isinstance(job, SortedEntry):
        return entry_token(job)
    return queued_token(job) if isinstance(job, QueuedJob) else ""


def _address(found: Found) -> str:
    if found.place == "queue":
        return f"/queues/{found.name}"
    if found.name in SCREENS:
        return SCREENS[found.name].path
    return "/busy"


def _visible_args(view: View, job: JobRecord) -> Sequence[Any]:
    redactor = view.redactor
    shown: Sequence[Any] = (
        job.display_args if redactor is None else redactor.arguments(job.display_args)
    )
    return shown


def _editable(view: View, job: JobRecord) -> str | None:
    """The arguments for the form, as they stand on the wire; None where they cannot be edited."""
    if not isinstance(job, SortedEntry) or not isinstance(job.item.get("args"), list):
        return None
    if view.redactor is not None or len(job.text) > MAX_EDITED:
        return None
    try:
        text = _pretty(job.args)
        text.encode()
    except UnicodeEncodeError:  # lone surrogates would not come back from a form
        return json.dumps(job.args, indent=2)
    return text


def _pretty(value: Any) -> str:
    try:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "too deeply nested to be shown: see the payload"


def _raw(view: View, job: JobRecord) -> str:
    text = job.text.decode("utf-8", "backslashreplace")
    return text if view.redactor is None else view.redactor.text(text)


def _was(done: str) -> str:
    return f"was {done}".replace("pushed to their queues", "pushed to its queue")


def _gone(job: JobRecord) -> str:
    return f"Job {job.jid} had moved on before: nothing was done."


_KNOWN: Final = frozenset(
    {
        "args",
        "class",
        "created_at",
        "enqueued_at",
        "error_backtrace",
        "error_class",
        "error_message",
        "failed_at",
        "jid",
        "queue",
        "retried_at",
        "retry_count",
        "tags",
        "tick",
    }
)
"""Fields that have a place of their own on the page; the others are listed."""

ROUTES: Final = [
    Route("/jobs", find),
    Route("/jobs/{jid:path}", searching(show)),
    Route("/jobs/{jid:path}", act, methods=["POST"]),
]
