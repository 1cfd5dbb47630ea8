"""Acting on jobs of a set or of a queue: one (`one`), those that were chosen (`key`), or all that match (`all`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api import JobSet, Queue
from kiqbridge.web.context import redirect, render, view_of
from kiqbridge.web.guard import Role, require_role
from kiqbridge.web.pages.listing import Listing, Rows, parse_listing
from kiqbridge.web.pages.selection import find_jobs, token_of

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


def role_for_all(action: str) -> Role:
    """Who may do it to all that match: what cannot be undone is for administrators."""
    return "admin" if action in ("delete", "clear") else "operator"


def chosen_action(form: FormData) -> tuple[str, str]:
    """What the pressed button does, and the token of its row; empty if it means the chosen ones."""
    action, _, token = str(form.get("one") or form.get("action") or "").partition(" ")
    return action, token


def act(request: Request, form: FormData, place: Place, **how: Any) -> Response:
    """Do what the form asks for, or ask first; then back to the page.

    Args:
        request: its address has the filter.
        form: as it was sent.
        place: where the jobs are.
        how: `to` of `move`, `at` of `reschedule`.
    """
    action, token = chosen_action(form)
    asked = parse_listing(request.query_params, view_of(request))
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
    elif done < len(tokens):
        notice += f" {jobs(len(tokens) - done)} moved on before."
    return redirect(request, place.path, notice=notice, **back)


def ask_for_all(
    request: Request,
    place: Place,
    asked: Listing,
    rows: Rows[Any],
    action: str,
    *,
    delays: Mapping[str, str] | None = None,
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
        at=delays if action == "reschedule" else None,
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


def jobs(number: int) -> str:
    """`1 job`, `1,234 jobs`."""
    return f"{number:,} job" if number == 1 else f"{number:,} jobs"
