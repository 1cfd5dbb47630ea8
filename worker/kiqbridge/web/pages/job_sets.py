"""Retries, Scheduled, Dead: the members of a set by page or filter, what they consist of, and actions on them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kiqbridge.api import DeadSet, JobSet, RetrySet, ScheduledSet
from kiqbridge.api.groups import Groups, fetch_groups
from kiqbridge.web.context import View, render, view_of
from kiqbridge.web.guard import requires
from kiqbridge.web.pages.acting import Place, act, show_jobs
from kiqbridge.web.pages.listing import Listing, looks_through
from kiqbridge.web.searches import searching

AT_ONCE: Final = 200
"""Members whose groups the page of a set shows: about two milliseconds."""
DUE: Final[Mapping[str, float]] = {
    "due": 0,
    "1 min": 60,
    "5 min": 300,
    "15 min": 900,
    "1 h": 3600,
    "4 h": 14_400,
    "12 h": 43_200,
    "1 d": 86_400,
    "3 d": 259_200,
    "7 d": 604_800,
    "30 d": 2_592_000,
}
"""Within which span from now on → its seconds."""
AT_MOST: Final = 15_000
"""Members that the page of groups looks at: about a fifth of a second."""


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
    actions: Mapping[str, str]
    empty: str

    def place(self, view: View) -> Place:
        """The set, as what acts on its jobs needs it."""
        return Place(
            jobs=self.kind(view.operator),
            path=self.path,
            name=f"under {self.title}",
            labels=self.actions,
        )


_LABELS: Final = {
    "move": "Move",  # the first one: Enter in the field of the queue does it
    "retry": "Retry now",
    "reschedule": "Reschedule",
    "kill": "Kill",
    "delete": "Delete",
}
SCREENS: Final = {
    screen.kind.name: screen
    for screen in (
        Screen(
            path="/retries",
            title="Retries",
            kind=RetrySet,
            when="Next try",
            has_errors=True,
            actions=_LABELS,
            empty="No job has failed and waits for its next try.",
        ),
        Screen(
            path="/scheduled",
            title="Scheduled",
            kind=ScheduledSet,
            when="Due",
            has_errors=False,
            actions={**_LABELS, "retry": "Add to queue"},
            empty="No job is to run later. Recurring jobs are under Schedules.",
        ),
        Screen(
            path="/dead",
            title="Dead",
            kind=DeadSet,
            when="Died",
            has_errors=True,
            actions={name: _LABELS[name] for name in ("move", "retry", "delete")},
            empty="No job has used up its retries, or all that had were retried, deleted or dropped.",
        ),
    )
}


def show(request: Request, screen: Screen) -> Response:
    """Groups, if jobs have errors, then the rows; or the question before all that match are acted on."""
    view = view_of(request)
    place = screen.place(view)

    def more(asked: Listing) -> Mapping[str, Any]:
        shows_groups = screen.has_errors and not asked.where and asked.number == 1
        job_set = screen.kind(view.operator)
        groups = read_groups(view, job_set, AT_ONCE, 5.0) if shows_groups else None
        shows_due = screen.kind.name != "dead" and not asked.where and asked.number == 1
        due = (
            view.read(("due", screen.path), lambda: fetch_due(job_set, view.now))
            if shows_due
            else []
        )
        return {"screen": screen, "groups": groups, "due": due}

    return show_jobs(request, place, "job_set.html", more)


def fetch_due(job_set: JobSet, now: float) -> list[tuple[str, int]]:
    """How many members are due within each span from now on, in one round trip; empty if there is none."""
    edges = ["-inf", *(f"{now + after_s:.3f}" for after_s in DUE.values()), "+inf"]
    counts = job_set.operator.pool.run(
        *(
            ("ZCOUNT", job_set.redis_key, low, f"({high}" if high != "+inf" else high)
            for low, high in itertools.pairwise(edges)
        )
    )
    found = list(zip([*DUE, "later"], counts, strict=True))
    return found if any(counts) else []


def show_groups(request: Request, screen: Screen) -> Response:
    """The groups of many more members, by an address of its own since it takes longer."""
    view = view_of(request)
    groups = read_groups(view, screen.kind(view.operator), AT_MOST, 30.0)
    return render(request, "groups.html", screen=screen, groups=groups)


def read_groups(view: View, job_set: JobSet, most: int, fresh_s: float) -> Groups:
    """Shared by all who look."""
    return view.read(("groups", job_set.name, most), lambda: fetch_groups(job_set, most), fresh_s)


def routes(screen: Screen) -> list[Route]:
    """The pages of a set; those with errors have their groups besides."""

    @requires("operator")
    def post(request: Request, form: FormData) -> Response:
        return act(request, form, screen.place(view_of(request)))

    groups = searching(partial(show_groups, screen=screen))
    return [
        Route(screen.path, searching(partial(show, screen=screen), looks_through)),
        Route(screen.path, post, methods=["POST"]),
        *([Route(f"{screen.path}/groups", groups)] if screen.has_errors else []),
    ]
