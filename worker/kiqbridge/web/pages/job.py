"""Job: where one is, its life, arguments and error, its text, and what can be done to it."""

import json
from typing import TYPE_CHECKING, Any, Final, cast

from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from kiqbridge.api import Found, JobHistory, JobRecord, JobSet, Queue, SortedEntry, history_of
from kiqbridge.errors import PayloadError
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.acting import DELAYS, DONE, find_jobs, target_of, token_of
from kiqbridge.web.pages.job_sets import SCREENS
from kiqbridge.web.pages.queues import ACTIONS
from kiqbridge.web.shown import ARGS_HIDDEN, PAGE_CHARACTERS
from kiqbridge.wire.job_faults import remarks
from kiqbridge.wire.payload import TICK
from kiqbridge.wire.tick_mark import tick_mark_of

if TYPE_CHECKING:
    from kiqbridge.api.whereabouts import Place

FOUND_FRESH_S: Final = 2.0
MOST_LOOKS: Final = 28
"""Commands that look for a job in queues and sets, each through up to 1,500 jobs; a link goes on behind them."""
NO_JID: Final = "-"
"""Stands in an address for the jid of a job that has none."""
_DIGITS: Final = 15
_LONGEST_BID: Final = 100
MAX_EDITED: Final = 50_000
"""Bytes of a job whose arguments a form offers for editing."""


def show(request: Request) -> Response:
    """The life of a job, and its text while it has one; 404 with where was looked if nothing of it is kept."""
    view = view_of(request)
    jid, given = request.path_params["jid"], request.query_params
    named = _names(given)
    history = _history(view, jid, given.get("in", ""), given.get("key", ""), **named)
    found, job = history.found, history.job
    if job is None:
        page = "gone_job.html" if history.is_known else "no_job.html"
        status = 200 if history.is_known or history.rest else 404
        return render(request, page, status, jid=jid, history=history, query=dict(given))
    if request.query_params.get("raw"):
        return PlainTextResponse(_raw(view, job))
    screen = SCREENS.get(found[0].name) if isinstance(job, SortedEntry) else None
    return render(
        request,
        "job.html",
        job=job,
        history=history,
        query=dict(given),
        found=found,
        places=[
            (place_of(each), _address(each), each)
            for each in found
            if each.place != "in flight" or not any(other.place == "working" for other in found)
        ],
        screen=screen,
        labels=screen.actions if screen else ACTIONS,
        token=token_of(job),
        args="" if view.hides_args else _args(view, job),
        editable=_editable(view, job),
        remarks=remarks(job),
        tick=tick_mark_of(job.item),
        raw=_raw(view, job)[: PAGE_CHARACTERS + 1],
        most=PAGE_CHARACTERS,
        delays=DELAYS,
        known=_KNOWN if job.tags else _KNOWN - {"tags"},
    )


@requires("operator")
def act(request: Request, form: FormData) -> Response:
    """Retry, kill, delete, reschedule, move, or push it with other arguments."""
    view = view_of(request)
    jid = request.path_params["jid"]
    named = _names(request.query_params)
    history = _history(view, jid, str(form.get("in") or ""), str(form.get("key") or ""), **named)
    found, action = history.found, str(form.get("action") or "")
    if not found or not token_of(found[0].job):
        gone = "is in no queue and in no set any more: it runs, has ended, or was deleted"
        if not found and history.rest:
            gone = f"is not where it was, and {history.rest}"
        raise HTTPException(404, f"Job {jid} {gone}. Nothing was done.")
    if action == "delete" and not form.get("confirmed"):
        return _ask_to_delete(request, jid, found[0])
    notice = _carry_out(view, found[0].job, action, form)
    return redirect(request, _address(found[0]), notice=notice)


def _ask_to_delete(request: Request, jid: str, found: Found) -> Response:
    hidden = [("in", _hint(found)), ("key", token_of(found.job))]
    return render(
        request,
        "confirm.html",
        here=f"/jobs/{jid}",
        query=dict(hidden),
        action="delete",
        label="Delete",
        question="Delete 1 job?",
        detail=f"The job {found.job.jid} {place_of(found)}.",
        hidden=hidden,
        entries=[found.job],
        at=None,
    )


def _carry_out(view: View, job: Any, action: str, form: FormData) -> str:
    gone = f"Job {job.jid} had moved on before: nothing was done."
    if action == "requeue" and isinstance(job, SortedEntry):
        # What the form changes: only what differs from what it was made with.
        try:
            changes: dict[str, Any] = {"args": json.loads(str(form.get("args") or ""))}
        except ValueError as error:
            raise PayloadError(f"args: this is no JSON ({error}); nothing was done") from None
        if not isinstance(changes["args"], list):
            raise PayloadError("args: write a list, as [1, true]; nothing was done")
        for name in ("queue", "job_class"):
            value = str(form.get(name) or "").strip()
            if value and value != form.get(f"{name}_before"):
                changes[name] = value
        jid = job.requeue(**changes)
        return f"Job {job.jid} was pushed as edited." if jid else gone
    if action not in job.parent.actions:
        raise HTTPException(400, f"There is no action {action!r} for a job of {job.parent.target}.")
    to = target_of(action, form)
    at = _new_time(view, form) if action == "reschedule" else None
    what = "pushed to its queue" if action == "retry" else DONE[action]
    where = f" to the queue {to}" if to else ""
    done = job.parent.apply(action, [job], at=at, to=to or None)
    return f"Job {job.jid} was {what}{where}." if done else gone


def _new_time(view: View, form: FormData) -> float:
    moment = view.moment(str(form.get("at") or ""))
    if moment is not None:
        return moment.timestamp()
    delay = str(form.get("in_s") or "")
    if delay not in DELAYS:
        raise HTTPException(400, "Choose when the job is to be due.")
    return view.now + float(delay)


def _names(given: QueryParams) -> dict[str, Any]:
    """What a link says that names the job: the occurrence of a schedule, a batch."""
    at, schedule = given.get("at", ""), given.get("schedule", "")
    mark = {"schedule": schedule, "at": int(at) if at.isdecimal() and len(at) <= _DIGITS else None}
    return {
        "tick": tick_mark_of({TICK: mark}),
        "bid": given.get("bid", "")[:_LONGEST_BID],
        "cursor": given.get("cursor", ""),
    }


def _history(view: View, jid: str, hint: str, token: str, **named: Any) -> JobHistory:
    """Where the link says that it was, without a search; else everywhere."""
    found = _found(view, jid, hint, token)
    if found is None and jid != NO_JID:
        key = ("job", jid, *named.values())
        return view.read(
            key, lambda: history_of(jid, view.operator, most=MOST_LOOKS, **named), FOUND_FRESH_S
        )
    return history_of(jid, view.operator, found=found or [])


def _found(view: View, jid: str, hint: str, token: str) -> list[Found] | None:
    """Where the link says that it was; None: it is there no more, or the link does not say."""
    kind, _, name = hint.partition(":")
    place: Queue | JobSet | None = None
    if kind == "queue" and name:
        place = Queue(name, view.operator)
    elif kind in SCREENS:
        place = SCREENS[kind].kind(view.operator)
    for job in find_jobs(place, [token]) if place else []:
        if (job.jid or NO_JID) == jid:
            return [Found(place=cast("Place", kind), name=name or kind, job=job)]
    return None


def _hint(found: Found) -> str:
    return f"queue:{found.name}" if found.place == "queue" else found.place


def place_of(found: Found) -> str:
    """Where it is, in words."""
    return {
        "queue": f"waits in the queue {found.name}",
        "retry": "waits for its next try",
        "schedule": "is scheduled",
        "dead": "is dead",
        "working": f"runs in {found.name}",
        "in flight": f"was taken from the queue {found.name} by a worker, and has not ended",
        "suspects": f"waits in the queue {found.name} to run alone",
    }[found.place]


def _address(found: Found) -> str:
    if found.place == "queue":
        return f"/queues/{found.name}"
    if found.name in SCREENS:
        return SCREENS[found.name].path
    return "/busy"


def _editable(view: View, job: JobRecord) -> str | None:
    """The arguments for the form, as they stand on the wire; None where they cannot be edited."""
    if not isinstance(job, SortedEntry) or not isinstance(job.item.get("args"), list):
        return None
    if view.hides_some or len(job.text) > MAX_EDITED:
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


def _args(view: View, job: JobRecord) -> str:
    args = job.display_args
    return _pretty(args if view.redactor is None else view.redactor.arguments(args))


def _raw(view: View, job: JobRecord) -> str:
    if not view.hides_args:
        text = job.text.decode("utf-8", "backslashreplace")
    elif job.is_readable:
        text = _pretty({**job.item, "args": ARGS_HIDDEN})
    else:
        return ARGS_HIDDEN  # it is unknown which part of it is an argument
    return text if view.redactor is None else view.redactor.text(text)


_KNOWN: Final = frozenset(
    [
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
        "retry",
        "retry_count",
        "tags",
        "tick",
    ]
)
"""Fields that have a place of their own on the page; the others are listed."""
