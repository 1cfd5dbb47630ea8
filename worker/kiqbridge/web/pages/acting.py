"""Acting on jobs of a set or of a queue: one (`one`), those that were chosen (`key`), or all that match (`all`).

Each row carries where it was seen and a digest of its text. A jid would not do: a job may have none, and two may have
the same. A job that was moved, or written anew, has another place or digest, and is not found: so a form that
lay open never hits another job.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kiqbridge.api import Applied, JobRecord, JobSet, Page, Queue, QueuedJob, SortedEntry
from kiqbridge.api.sets import score_text
from kiqbridge.web.context import redirect, render, url, view_of
from kiqbridge.web.guard import Role, require_role
from kiqbridge.web.pages.listing import Listing, Rows, named_by, parse_listing, read_shared

DELAYS: Final[Mapping[str, str]] = {
    "60": "in 1 min",
    "600": "in 10 min",
    "3600": "in 1 h",
    "21600": "in 6 h",
    "86400": "in 1 d",
    "604800": "in 7 d",
}
MOST: Final = 200
"""Jobs of one form."""
_MAX_DELAY_S: Final = 366 * 86_400.0
_AT_ONE_SCORE: Final = 10_000
_READ_AT_ONCE: Final = 500
_TAKEN_MEANWHILE: Final = 50_000
_JOINED_MEANWHILE: Final = 200
"""Jobs that may have been given back to the consuming end of a queue since it was shown."""
MOST_AT_ONCE: Final = 20_000
"""Jobs that one POST acts on: a few seconds. What is left is named, with the same button again."""
DONE: Final[Mapping[str, str]] = {
    "retry": "pushed to their queues",
    "kill": "moved to the dead set",
    "delete": "deleted",
    "reschedule": "given another time",
    "move": "moved",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the jobs are.

    Attributes:
        jobs: the set or the queue.
        path: of its page.
        name: as a part of a sentence: `under Retries`, `in the queue mail`.
        labels: action → the words of its button.
    """

    jobs: JobSet | Queue
    path: str
    name: str
    labels: Mapping[str, str]

    def require(self, action: str) -> None:
        """Refuse an action that does not exist here.

        Raises:
            HTTPException: 400; names it.
        """
        if action not in self.labels:
            raise HTTPException(400, f"There is no action {action!r} for jobs {self.name}.")

    def page(self, number: int, size: int, *, newest_first: bool) -> Page[Any]:
        """A page of the jobs."""
        if isinstance(self.jobs, Queue):
            return self.jobs.page(number, size, oldest_first=not newest_first)
        return self.jobs.page(number, size, newest_first=newest_first)


def role_for_all(action: str) -> Role:
    """Who may do it to all that match: what cannot be undone is for administrators."""
    return "admin" if action in ("delete", "clear") else "operator"


def chosen_action(form: FormData) -> tuple[str, str]:
    """What the pressed button does, and the token of its row; empty if it means the chosen ones."""
    action, _, token = str(form.get("one") or form.get("action") or "").partition(" ")
    return action, token


def show_jobs(
    request: Request, place: Place, template: str, more: Callable[[Listing], Mapping[str, Any]]
) -> Response:
    """A page of a list of jobs; or the question before all that match are acted on.

    Args:
        request: its address has filter, page and order.
        place: where the jobs are.
        template: of the page.
        more: what else it shows.
    """
    if path := named_by(request):
        return RedirectResponse(url(request, path), status_code=303)
    view = view_of(request)
    asked = parse_listing(request.query_params, view)
    is_usual = not isinstance(place.jobs, Queue) and place.jobs.newest_first
    newest_first = asked.order == "newest" if asked.order else is_usual
    read = partial(place.page, newest_first=newest_first)
    rows = read_shared(view, place.jobs.target, read, asked)
    if action := request.query_params.get("confirm", ""):
        return ask_for_all(request, place, asked, rows, action)
    return render(
        request,
        template,
        here=place.path,
        labels=place.labels,
        search={
            "path": place.path,
            "what": place.name.removeprefix("under "),
            "q": asked.q,
            "more": {name: text for name, text in asked.filter_query.items() if name != "q"},
        },
        listing=asked,
        rows=rows,
        token_of=token_of,
        newest_first=newest_first,
        role_for_all=role_for_all,
        delays=DELAYS,
        **more(asked),
    )


def act(request: Request, form: FormData, place: Place) -> Response:
    """Do what the form asks for, or ask first; then back to the page.

    Args:
        request: its address has the filter.
        form: as it was sent.
        place: where the jobs are.
    """
    action, token = chosen_action(form)
    place.require(action)
    view = view_of(request)
    asked = parse_listing(request.query_params, view)
    how: dict[str, Any] = {"to": target_of(action, form)} if action == "move" else {}
    if action == "reschedule" and (form.get("confirmed") or not form.get("all")):
        how["at"] = view.now + _delay_s(form)
    jobs_of: Any = place.jobs  # the actions of a set and of a queue are other literals
    done_what = DONE[action] + (f" to {how['to']}" if "to" in how else "")
    if form.get("all"):
        require_role(request, role_for_all(action))
        if not form.get("confirmed"):
            query = {**asked.filter_query, "confirm": action, "to": how.get("to")}
            return redirect(request, place.path, notice="", **query)
        done = jobs_of.apply_all(action, asked.where or None, limit=MOST_AT_ONCE, **how)
        notice = f"{jobs(done)} {done_what}."
        if done >= MOST_AT_ONCE:
            notice = f"The first {notice} There may be more: do it again."
        notice += staying(done)
        return redirect(request, place.path, notice=notice, **asked.filter_query)
    back = {**asked.query, **({"page": asked.number} if asked.number > 1 else {})}
    tokens = [token] if token else [str(each) for each in form.getlist("key")]
    found = find_jobs(place.jobs, tokens)
    if action == "delete" and found and not form.get("confirmed"):
        return render(
            request,
            "confirm.html",
            here=place.path,
            query=back,
            action=action,
            label=place.labels[action],
            question=f"Delete {jobs(len(found))}?",
            detail=f"{jobs(len(found))} that you chose {place.name}.",
            hidden=[("key", token_of(job)) for job in found],
            entries=found[:20],
            at=None,
        )
    done = jobs_of.apply(action, found, **how)
    notice = f"{jobs(done)} {done_what}."
    if not tokens:
        notice = "No job was chosen: nothing was done."
    elif left := len(tokens) - done - done.refused:
        notice += f" {jobs(left)} moved on before."
    notice += staying(done)
    return redirect(request, place.path, notice=notice, **back)


def staying(done: Applied) -> str:
    """A sentence about those that it cannot be done to; empty if there are none."""
    stay = "stays where it is" if done.refused == 1 else "stay where they are"
    return f" {jobs(done.refused)} {stay}: {done.reason[:300]}." if done.refused else ""


def ask_for_all(
    request: Request, place: Place, asked: Listing, rows: Rows[Any], action: str
) -> Response:
    """The page that names filter and count, with the button that does it to all; `clear` knows no filter."""
    clears = action == "clear"
    if not clears:
        place.require(action)
    require_role(request, role_for_all(action))
    to = target_of(action, request.query_params)
    exact = clears or rows.looked_at is None or (rows.start == 0 and rows.next_start is None)
    what = jobs(rows.all if clears else rows.page.total) + ("" if exact else " or more")
    label = "Clear" if clears else place.labels[action] + (f" to {to}" if to else "")
    matching = f" that match {asked.where}" if asked.where and not clears else ""
    detail = f"All jobs {place.name}{matching}: {what}."
    if not exact:
        detail += f" Of {rows.all:,}, {rows.looked_at or 0:,} were looked at."
    if clears:
        detail += " The queue's name leaves the list, until the next job is pushed."
    return render(
        request,
        "confirm.html",
        here=place.path,
        query={} if clears else asked.query,
        action=action,
        label=label,
        question=f"{label}: {what} {place.name}?",
        detail=detail,
        hidden=[("all", "1"), *([("to", to)] if to else [])],
        entries=rows.page.rows[:5],
        at=DELAYS if action == "reschedule" else None,
    )


def target_of(action: str, given: Mapping[str, Any]) -> str:
    """The queue to which `move` moves; empty for other actions.

    Raises:
        HTTPException: 400, none is named.
    """
    to = str(given.get("to") or "").strip() if action == "move" else ""
    if action == "move" and not to:
        raise HTTPException(400, "Write the name of the queue to move the jobs to.")
    return to


def _delay_s(form: FormData) -> float:
    text = str(form.get("in_s") or "")
    if not (text.isascii() and text.isdecimal() and float(text) <= _MAX_DELAY_S):
        raise HTTPException(400, "Choose when the jobs are to be due, up to a year from now.")
    return float(text)


def jobs(number: int) -> str:
    """`1 job`, `1,234 jobs`."""
    return f"{number:,} job" if number == 1 else f"{number:,} jobs"


def digest_of(job: JobRecord) -> str:
    """Sixteen characters that stand for a text."""
    return hashlib.blake2b(job.text, digest_size=8).hexdigest()


def token_of(job: JobRecord) -> str:
    """`SCORE-DIGEST` of a member of a set, `FROM_TAIL-DIGEST` of a job in a queue; empty for others."""
    if isinstance(job, SortedEntry):
        return f"{score_text(job.score)}-{digest_of(job)}"
    return f"{job.from_tail or 0}-{digest_of(job)}" if isinstance(job, QueuedJob) else ""


def find_jobs(place: JobSet | Queue, tokens: Sequence[str]) -> Sequence[JobRecord]:
    """The jobs that these tokens mean, those left out that are not there any more."""
    known = tokens[:MOST]
    return _in_queue(place, known) if isinstance(place, Queue) else _in_set(place, known)


def _in_set(job_set: JobSet, tokens: Sequence[str]) -> list[SortedEntry]:
    wanted: defaultdict[float, set[str]] = defaultdict(set)
    for token in tokens:
        score, _, digest = token.rpartition("-")
        number = _score(score)
        if number is not None:
            wanted[number].add(digest)
    return [entry for at, digests in wanted.items() for entry in _at_score(job_set, at, digests)]


def _in_queue(queue: Queue, tokens: Sequence[str]) -> list[QueuedJob]:
    """A job comes nearer to the consuming end when others are taken: it is looked for from where it was to that end."""
    wanted: dict[str, int] = {}
    for token in tokens:
        place, _, digest = token.partition("-")
        if place.isascii() and place.isdecimal() and len(place) < len(str(10**12)):
            wanted[digest] = int(place)
    found: list[QueuedJob] = []
    end = max(wanted.values(), default=-1) + _JOINED_MEANWHILE
    least = max(0, min(wanted.values(), default=0) - _TAKEN_MEANWHILE)
    while wanted and end >= least:
        first = max(0, end - _READ_AT_ONCE + 1)
        found += [
            job
            for job in queue.oldest(first, end - first + 1)
            if wanted.pop(digest_of(job), None) is not None
        ]
        end = first - 1
    return sorted(found, key=lambda job: job.from_tail or 0)  # as they would be taken


def _at_score(job_set: JobSet, score: float, digests: set[str]) -> list[SortedEntry]:
    text = score_text(score)
    found: list[SortedEntry] = []
    for offset in range(0, _AT_ONE_SCORE, _READ_AT_ONCE):
        rows = job_set.operator.pool.call(
            "ZRANGE", job_set.redis_key, text, text, "BYSCORE", "LIMIT", offset, _READ_AT_ONCE
        )
        entries = [SortedEntry(job_set, row, score) for row in rows]
        found += [entry for entry in entries if digest_of(entry) in digests]
        if len(found) == len(digests) or len(rows) < _READ_AT_ONCE:
            break
    return found


def _score(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None  # no token of ours
    return None if math.isnan(number) else number
