"""What is on the screen: which screen, page and filter are asked for, and the frame that was read for them."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from kiqbridge.api import Filter, Stats, Verdict
from kiqbridge.api.filters import parse_filter
from kiqbridge.errors import PayloadError

MAX_NAME: Final = 200
"""Characters of a name in a table."""

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[Sequence[Role]] = ("viewer", "operator", "admin")
"""Each may what those before it may."""

Kind = Literal[
    "shards",
    "queues",
    "waiting",
    "work",
    "processes",
    "retry",
    "dead",
    "schedule",
    "schedules",
    "history",
]
Tone = Literal["", "good", "warn", "bad", "dim"]

SCREENS: Final[Mapping[str, str]] = {
    "now": "Now",
    "busy": "Busy",
    "queues": "Queues",
    "retries": "Retries",
    "dead": "Dead",
    "scheduled": "Scheduled",
    "schedules": "Schedules",
}
"""Name → title, in the order of the number keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What the user looks at.

    Attributes:
        screen: a name of SCREENS.
        page: from 1 on.
        typed: a filter that `parse_words` reads; "" = all.
        queue: its jobs are looked at, on the screen Queues; "" = all queues.
    """

    screen: str = "now"
    page: int = 1
    typed: str = ""
    queue: str = ""

    @property
    def where(self) -> Filter:
        """Which jobs; an empty one = all."""
        return parse_words(self.typed)[0]

    @property
    def needle(self) -> str:
        """What rows of queues, processes and schedules contain, in any case."""
        return parse_words(self.typed)[1].casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table.

    Attributes:
        title: its head.
        width: characters; 0 = a share of what the others leave.
        share: how large a share.
        is_number: whether its cells end at the right.
    """

    title: str
    width: int = 0
    share: int = 1
    is_number: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a table.

    Attributes:
        key: the same as long as it is about the same thing.
        cells: texts that can be shown, one for each column.
        tone: how it looks.
        item: what an action acts on.
    """

    key: str
    cells: Sequence[str]
    item: Any
    tone: Tone = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A table.

    Attributes:
        kind: what its rows are.
        title: above it.
        columns: of each row.
        rows: those of this page.
        total: rows of all pages; None = unknown, because of a filter.
        pages: how many pages there are.
        note: what is said besides, such as how much was looked at.
        empty: what is said in place of no rows.
    """

    kind: Kind
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    total: int | None = None
    pages: int = 1
    note: str = ""
    empty: str = "nothing here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What one look at Redis found.

    Attributes:
        view: for which it was read.
        at: epoch seconds.
        stats: counts.
        listings: up to three tables.
        verdict: whether all is well, on the screen Now.
        missing: shards that are away → why.
    """

    view: View
    at: float
    stats: Stats
    listings: Sequence[Listing]
    verdict: Verdict | None = None
    missing: Mapping[str, str] = field(default_factory=dict)


def may(role: Role, needed: Role) -> bool:
    """Whether a role is enough."""
    return ROLES.index(role) >= ROLES.index(needed)


def parse_words(text: str) -> tuple[Filter, str]:
    """A filter as people type it, `class=Mail* error=timeout 4711`, and its words without a name.

    Raises:
        PayloadError: an unknown name, an age that is no number, an open quotation mark.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PayloadError(f"{text}: {error}; close the quotation mark") from error
    known = {*(each.name for each in fields(Filter)), "class"}
    named: dict[str, str] = {}
    bare: list[str] = []
    for word in words:
        name, sign, value = word.partition("=")
        if sign and (name in known or name.isidentifier()):
            named[name] = value
        else:
            bare.append(word)
    needle = " ".join(bare)
    if needle:
        named.setdefault("text", needle)
    return parse_filter(named), needle
