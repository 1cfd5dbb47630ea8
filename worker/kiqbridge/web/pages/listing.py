"""Which rows of a long list are shown: filter, page and order, all of it in the address, so that it is a link.

A page without a filter is one round trip, however long the list is. A filter looks at the jobs one by
one, in the order of the list, at most `LOOK_AT` for an answer; the next ones are a link.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request

from kiqbridge.api import Filter, JobRecord, Page
from kiqbridge.api.filters import parse_search
from kiqbridge.web.context import View

HIDDEN_FILTERS: Final = ("arg", "text", "error")
"""They look into what may be hidden: who may not see it could guess it by them, letter by letter."""
ROWS: Final = (25, 50, 100)
LOOK_AT: Final = 5_000
"""Jobs that a filter looks at for one page: about a tenth of a second."""
CHUNK: Final = 500
"""Jobs of one read: well below a millisecond at the server."""
FILTERED_FRESH_S: Final = 5.0
_NAMED: Final = re.compile(r"[0-9a-f]{24}|jid:(?P<jid>\S+)|batch:(?P<bid>\S+)", re.ASCII)
_MOST_PAGES: Final = 10**9

Row = TypeVar("Row", bound=JobRecord)
ReadPage = Callable[[int, int], Page[Row]]
"""Reads a page by its number, from 1 on, and its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What an address asks for.

    Attributes:
        q: the filter as it stands in the address.
        where: the filter.
        number: of the page, from 1 on.
        per: rows of a page.
        order: `newest`, `oldest`, or empty: as people expect of this list.
        start: how many jobs a filter passes over, which it has looked at for the page before.
    """

    q: str
    where: Filter
    number: int = 1
    per: int = ROWS[0]
    order: str = ""
    start: int = 0

    @property
    def query(self) -> dict[str, object]:
        """All but the page's number, for links to other pages of it."""
        return self.filter_query | ({"start": self.start} if self.start else {})

    @property
    def filter_query(self) -> dict[str, str]:
        """Filter, order and length of the pages, from its first job on."""
        per = {"per": str(self.per)} if self.per != ROWS[0] else {}
        order = {"order": self.order} if self.order else {}
        return {**({"q": self.q} if self.q else {}), **per, **order}

    @property
    def key(self) -> tuple[object, ...]:
        """All of it, for the cache."""
        return (self.q, self.number, self.per, self.order, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Generic[Row]):
    """What is shown of a list.

    Attributes:
        page: of all, or of those that match among the jobs that were looked at.
        all: how many there are in the list.
        looked_at: how many the filter has looked at, from `start` on; None without a filter.
        start: how many it has passed over.
    """

    page: Page[Row]
    all: int
    looked_at: int | None = None
    start: int = 0

    @property
    def next_start(self) -> int | None:
        """Where the filter goes on; None if it has seen all, or there is none."""
        if self.looked_at is None or self.start + self.looked_at >= self.all:
            return None
        return self.start + self.looked_at


def looks_through(request: Request) -> bool:
    """Whether the address has a filter, or asks what an action on all would be done to."""
    return any(request.query_params.get(name) for name in ("q", "confirm"))


def named_by(request: Request) -> str:
    """The path of the job or batch that alone is sought; else empty."""
    found = _NAMED.fullmatch(request.query_params.get("q", "").strip())
    if not found:
        return ""
    return f"/batches/{found['bid']}" if found["bid"] else f"/jobs/{found['jid'] or found[0]}"


def parse_listing(query: QueryParams, view: View) -> Listing:
    """What the address asks for; numbers that are none become the first ones.

    Raises:
        PayloadError: a filter that cannot be read.
        HTTPException: 403, a filter that looks into what is hidden from who asks.
    """
    q = query.get("q", "").strip()
    where = parse_search(q)
    if view.hides_some and any(getattr(where, name) for name in HIDDEN_FILTERS):
        raise HTTPException(
            403,
            f"Words without a name, and the filters {', '.join(HIDDEN_FILTERS)}, search values that are hidden from the role {view.role}: search by class, error_class, queue, tag, older or newer, as in class:Mail*.",
        )
    per = number_of(query.get("per", ""), ROWS[0])
    order = query.get("order", "")
    return Listing(
        q=q,
        where=where,
        number=number_of(query.get("page", ""), 1),
        per=per if per in ROWS else ROWS[0],
        order=order if order in ("newest", "oldest") else "",
        start=number_of(query.get("start", ""), 0, least=0) // CHUNK * CHUNK,
    )


def fetch_rows(
    read: ReadPage[Row], listing: Listing, now: float, look_at: int = LOOK_AT
) -> Rows[Row]:
    """The rows of a page.

    Args:
        read: reads a page of the list, in the order that is shown.
        listing: which.
        now: epoch seconds, for ages.
        look_at: jobs that a filter looks at.
    """
    if not listing.where:
        page = read(listing.number, listing.per)
        return Rows(page=page, all=page.total)
    first = (listing.number - 1) * listing.per
    matching: list[Row] = []
    matches = looked_at = total = 0
    for number in range(listing.start // CHUNK + 1, (listing.start + look_at) // CHUNK + 1):
        chunk = read(number, CHUNK)
        total = chunk.total
        looked_at += len(chunk.rows)
        for row in _that_match(chunk.rows, listing.where, now):
            if first <= matches < first + listing.per:
                matching.append(row)
            matches += 1
        if len(chunk.rows) < CHUNK:
            break
    page = Page(number=listing.number, size=listing.per, total=matches, rows=matching)
    return Rows(page=page, all=total, looked_at=looked_at, start=listing.start)


def page_of(rows: Sequence[Any], request: Request, size: int) -> Page[Any]:
    """The page of a short list that the address asks for."""
    number = number_of(request.query_params.get("page", ""), 1)
    first = (number - 1) * size
    return Page(number=number, size=size, total=len(rows), rows=rows[first : first + size])


def read_shared(view: View, place: str, read: ReadPage[Row], listing: Listing) -> Rows[Row]:
    """The rows of `fetch_rows`, read once for all users of the same page; a filtered page is read more rarely."""
    fresh_s = FILTERED_FRESH_S if listing.where else 1.0
    return view.read(
        ("rows", place, listing.key), lambda: fetch_rows(read, listing, view.now), fresh_s
    )


def _that_match(rows: Sequence[Row], where: Filter, now: float) -> list[Row]:
    needle = where.needle()  # most texts need not be parsed to be passed over
    return [row for row in rows if needle in row.text and where.matches(row, now)]


def number_of(text: str, otherwise: int, least: int = 1) -> int:
    """The number that an address names; where it is none, another one."""
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(_MOST_PAGES)):
        return otherwise
    return max(least, int(text))
