"""Retries, Scheduled, Dead: the members of a set by page or filter, what they consist of, and actions on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import DeadSet, JobSet, Page, RetrySet, ScheduledSet, SortedEntry
from kiqbridge.api.actions import Action
from kiqbridge.web.context import View, redirect, render, view_of
from kiqbridge.web.guard import Role, require_role, requires
from kiqbridge.web.pages import grouping
from kiqbridge.web.pages.listing import (
    Listing,
    Rows,
    looks_through,
    parse_listing,
    read_shared,
)
from kiqbridge.web.pages.selection import entry_token, find_entries
from kiqbridge.web.searches import searching

MOST_AT_ONCE: Final = 20_000
"""Jobs that one POST acts on: a few seconds. What is left is named, with the same button again."""
DELAYS: Final[Mapping[str, str]] = {
    "60": "in 1 min",
    "600": "in 10 min",
    "3600": "in 1 h",
    "21600": "in 6 h",
    "86400": "in 1 d",
    "604800": "in 7 d",
}
DONE: Final[Mapping[Action, str]] = {
    "retry": "pushed to their queues",
    "kill": "moved to the dead set",
    "delete": "deleted",
    "reschedule": "given another time",
}
_MAX_DELAY_S: Final = 366 * 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What is particular to one of the sets.

    Attributes:
        path: of its page.
        title: its heading.
        kind: the set.
        when: what a score means, as the head of its column.
        has_errors: whether its members have failed.
        actions: what can be done to them, with labels.
        empty: what it means when it has no member.
    """

    path: str
    title: str
    kind: type[JobSet]
    when: str
    has_errors: bool
    actions: Mapping[Action, str]
    empty: str

    def role_for_all(self, action: Action) -> Role:
        """Who may do it to all that match: what cannot be undone is for administrators."""
        return "admin" if action == "delete" else "operator"


SCREENS: Final = {
    screen.kind.name: screen
    for screen in (
        Screen(
            path="/retries",
            title="Retries",
            kind=RetrySet,
            when="Next try",
            has_errors=True,
            actions={
                "retry": "Retry now",
                "reschedule": "Reschedule",
                "kill": "Kill",
                "delete": "Delete",
            },
            empty="No job has failed and waits for its next try.",
        ),
        Screen(
            path="/scheduled",
            title="Scheduled",
            kind=ScheduledSet,
            when="Due",
            has_errors=False,
            actions={"retry": "Add to queue", "reschedule": "Reschedule", "delete": "Delete"},
            empty="No job is to run later. Recurring jobs are under Schedules.",
        ),
        Screen(
            path="/dead",
            title="Dead",
            kind=DeadSet,
            when="Died",
            has_errors=True,
            actions={"retry": "Retry now", "delete": "Delete"},
            empty="No job has used up its retries, or all that had were retried, deleted or dropped.",
        ),
    )
}


def show(request: Request, screen: Screen) -> Response:
    """Groups, if jobs have errors, then the rows; or the question before all that match are acted on."""
    view = view_of(request)
    asked = parse_listing(request.query_params, view)
    action = request.query_params.get("confirm", "")
    if action:
        return _ask_for_all(request, screen, asked, _action_of(screen, action))
    job_set = screen.kind(view.operator)
    rows = _read(view, job_set, asked)
    groups = None
    if screen.has_errors and not asked.where and asked.number == 1:
        groups = view.read(
            ("groups", job_set.name),
            lambda: grouping.fetch_groups(job_set, grouping.AT_ONCE),
            grouping.AT_ONCE_FRESH_S,
        )
    return render(
        request,
        "job_set.html",
        screen=screen,
        listing=asked,
        rows=rows,
        groups=groups,
        tokens=[entry_token(entry) for entry in rows.page.rows],
        delays=DELAYS,
        newest_first=_newest_first(job_set, asked),
    )


def show_groups(request: Request, screen: Screen) -> Response:
    """The groups of many more members, by an address of its own since it takes longer."""
    view = view_of(request)
    job_set = screen.kind(view.operator)
    groups = view.read(
        ("groups of many", job_set.name),
        lambda: grouping.fetch_groups(job_set, grouping.AT_MOST),
        grouping.AT_MOST_FRESH_S,
    )
    return render(request, "groups.html", screen=screen, groups=groups)


def act(request: Request, form: FormData, screen: Screen) -> Response:
    """One job (`one`), those that were chosen (`key`), or all that match the filter (`all`)."""
    view = view_of(request)
    asked = parse_listing(request.query_params, view)
    name, _, token = str(form.get("one") or form.get("action") or "").partition(" ")
    action = _action_of(screen, name)
    if form.get("all") and not form.get("confirmed"):
        query = {**asked.filter_query, "confirm": action}
        return redirect(request, screen.path, notice="", **query)
    at = view.now + _delay_s(form) if action == "reschedule" else None
    job_set = screen.kind(view.operator)
    if form.get("all"):
        return _act_on_all(request, screen, asked, action, at)
    tokens = [token] if token else [str(each) for each in form.getlist("key")]
    entries = find_entries(job_set, tokens)
    if action == "delete" and entries and not form.get("confirmed"):
        return render(
            request,
            "confirm.html",
            here=screen.path,
            query=_back(asked),
            action=action,
            label=screen.actions[action],
            question=f"Delete {jobs(len(entries))}?",
            detail=f"{jobs(len(entries))} that you chose under {screen.title}.",
            hidden=[("key", entry_token(entry)) for entry in entries],
            entries=entries[:20],
            at=None,
        )
    done = job_set.apply(action, entries, at=at)
    return redirect(request, screen.path, notice=_notice(action, done, len(tokens)), **_back(asked))


def _act_on_all(
    request: Request, screen: Screen, asked: Listing, action: Action, at: float | None
) -> Response:
    require_role(request, screen.role_for_all(action))
    job_set = screen.kind(view_of(request).operator)
    done = job_set.apply_all(action, asked.where or None, at=at, limit=MOST_AT_ONCE)
    notice = f"{jobs(done)} {DONE[action]}."
    if done >= MOST_AT_ONCE:
        notice = f"The first {notice} There may be more: do it again."
    return redirect(request, screen.path, notice=notice, **asked.filter_query)


def _ask_for_all(request: Request, screen: Screen, asked: Listing, action: Action) -> Response:
    """The page that names filter and count, with the button that does it."""
    require_role(request, screen.role_for_all(action))
    view = view_of(request)
    rows = _read(view, screen.kind(view.operator), asked)
    exact = rows.looked_at is None or (rows.start == 0 and rows.next_start is None)
    number = f"{rows.page.total:,}" if exact else f"{rows.page.total:,} or more"
    what = f"{number} job{'' if number == '1' else 's'}"
    return render(
        request,
        "confirm.html",
        here=screen.path,
        query=asked.query,
        action=action,
        label=screen.actions[action],
        question=f"{screen.actions[action]}: {what}?",
        detail=(
            f"All jobs under {screen.title} that match {asked.where}: {what}"
            + ("." if exact else f" (of {rows.all:,}, {rows.looked_at or 0:,} were looked at).")
            if asked.where
            else f"All jobs under {screen.title}: {what}."
        ),
        hidden=[("all", "1")],
        entries=rows.page.rows[:5],
        at=DELAYS if action == "reschedule" else None,
    )


def _read(view: View, job_set: JobSet, asked: Listing) -> Rows[SortedEntry]:
    newest_first = _newest_first(job_set, asked)

    def read(number: int, size: int) -> Page[SortedEntry]:
        return job_set.page(number, size, newest_first=newest_first)

    return read_shared(view, job_set.name, read, asked)


def _newest_first(job_set: JobSet, asked: Listing) -> bool:
    return asked.order == "newest" if asked.order else job_set.newest_first


def _action_of(screen: Screen, name: str) -> Action:
    if name not in screen.actions:
        raise HTTPException(400, f"There is no action {name!r} for {screen.title}.")
    return cast("Action", name)


def _delay_s(form: FormData) -> float:
    text = str(form.get("in_s") or "")
    if not (text.isascii() and text.isdecimal() and float(text) <= _MAX_DELAY_S):
        raise HTTPException(400, "Choose when the jobs are to be due, up to a year from now.")
    return float(text)


def _notice(action: Action, done: int, asked_for: int) -> str:
    if not asked_for:
        return "No job was chosen: nothing was done."
    gone = asked_for - done
    left = f" {jobs(gone)} moved on before." if gone else ""
    return f"{jobs(done)} {DONE[action]}.{left}"


def _back(asked: Listing) -> dict[str, object]:
    return {**asked.query, **({"page": asked.number} if asked.number > 1 else {})}


def jobs(number: int) -> str:
    """`1 job`, `1,234 jobs`."""
    return f"{number:,} job" if number == 1 else f"{number:,} jobs"


def _routes(screen: Screen) -> list[Route]:
    """The pages of a set; those with errors have their groups besides."""

    @requires("operator")
    def post(request: Request, form: FormData) -> Response:
        return act(request, form, screen)

    found = [
        Route(screen.path, searching(partial(show, screen=screen), looks_through)),
        Route(screen.path, post, methods=["POST"]),
    ]
    if screen.has_errors:
        groups = searching(partial(show_groups, screen=screen))
        found.append(Route(f"{screen.path}/groups", groups))
    return found


ROUTES: Final = [route for screen in SCREENS.values() for route in _routes(screen)]
