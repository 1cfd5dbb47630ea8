"""Search: the jobs that an expression finds in all sets and queues, the first of each place; a jid leads to its job."""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kiqbridge.api import Queue, Stats
from kiqbridge.web.context import View, render, url, view_of
from kiqbridge.web.pages import listing
from kiqbridge.web.pages.acting import Place, token_of
from kiqbridge.web.pages.job_sets import SCREENS
from kiqbridge.web.pages.queues import place_in

LOOK_AT: Final = listing.CHUNK
"""Jobs of each place: a round trip, and six milliseconds if all of them match."""
QUEUES: Final = 20
"""The longest ones that are looked through."""
SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """What was found in one place.

    Attributes:
        place: the set or the queue.
        title: its heading.
        rows: the first of those that match.
    """

    place: Place
    title: str
    rows: listing.Rows[Any]


def show(request: Request) -> Response:
    """The jobs, by place; or the way to write what is sought."""
    view = view_of(request)
    if path := listing.named_by(request):
        return RedirectResponse(url(request, path), status_code=303)
    asked = listing.parse_listing(request.query_params, view)

    def load() -> tuple[list[Hits], list[str]]:
        known = dict(Stats(view.operator).queues)
        names = sorted(known, key=lambda name: -known[name].size)
        hits = [
            Hits(place=place, title=title, rows=listing.fetch_rows(read, asked, view.now, LOOK_AT))
            for place, title in _places(view, names, asked.where.queue)
            for read in [partial(place.page, newest_first=True)]
        ]
        word = (asked.where.queue or asked.where.text).casefold()
        return hits, [each for each in names if word and word in each.casefold()][:QUEUES]

    hits, queues = (
        view.read(("search", asked.q), load, listing.FILTERED_FRESH_S) if asked.where else ([], [])
    )
    return render(
        request,
        "search.html",
        listing=asked,
        found=[each for each in hits if each.rows.page.rows],
        looked_at=sum(each.rows.looked_at or 0 for each in hits),
        left=[each for each in hits if each.rows.next_start],
        queues=queues,
        shown=SHOWN,
        token_of=token_of,
    )


def _places(view: View, queues: list[str], glob: str) -> Iterator[tuple[Place, str]]:
    for screen in SCREENS.values():
        yield screen.place(view), screen.title
    fitting = [name for name in queues if not glob or fnmatchcase(name, glob)]
    for name in fitting[:QUEUES]:
        yield place_in(Queue(name, view.operator)), name
