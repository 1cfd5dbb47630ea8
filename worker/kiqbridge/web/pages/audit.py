"""Audit: who has done what, to which jobs, queues and processes, and how many they were."""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api import AuditEntry, Operator, read_audit
from kiqbridge.api.filters import parse_terms
from kiqbridge.web.context import render, view_of

ROWS: Final = 50
LOOKED_AT: Final = 5_000
"""Entries that one page of a filtered list looks at; the next page goes on where it ended."""
_AT_ONCE: Final = 500
FIELDS: Final[Mapping[str, str]] = {"by": "by", "via": "via", "action": "action", "of": "target"}
"""Name in the search → field of an entry."""


def show(request: Request) -> Response:
    """A page of entries, the latest first."""
    view = view_of(request)
    q = request.query_params.get("q", "").strip()
    wanted = parse(q)
    before = request.query_params.get("before", "") or None
    key = ("audit", tuple(wanted.items()), before)
    entries, older = view.read(key, lambda: fetch(view.operator, wanted, before))
    return render(
        request,
        "audit.html",
        entries=entries,
        older=older,
        search={
            "path": "/audit",
            "what": "the audit",
            "q": q,
            "hint": "by:ana action:delete of:dead via:web",
        },
        is_first=before is None,
    )


def parse(q: str) -> dict[str, str]:
    """Field → text that it contains; words without a name are sought in all fields together (`""`)."""
    given, words = parse_terms(q, FIELDS)
    return {FIELDS[name]: text for name, text in given.items()} | ({"": words} if words else {})


def fetch(
    operator: Operator, wanted: dict[str, str], before: str | None, rows: int = ROWS
) -> tuple[list[AuditEntry], str | None]:
    """The entries that contain what is wanted, and the id before which the next page begins; None: no more.

    Args:
        operator: whose.
        wanted: field → text that it contains, in any case.
        before: only older ones than the entry with this id.
        rows: how many at most.
    """
    found: list[AuditEntry] = []
    looked_at, place = 0, before
    while looked_at < LOOKED_AT:
        most = _AT_ONCE if wanted else rows + 1
        entries = read_audit(operator, most=most, before=place)
        for entry in entries:
            if len(found) == rows:
                return found, place
            place = entry.id
            if _matches(entry, wanted):
                found.append(entry)
        looked_at += len(entries)
        if len(entries) < most:
            return found, None
    return found, place


def _matches(entry: AuditEntry, wanted: dict[str, str]) -> bool:
    return all(text.casefold() in _text_of(entry, name).casefold() for name, text in wanted.items())


def _text_of(entry: AuditEntry, field: str) -> str:
    names = [field] if field else [*FIELDS.values(), "detail"]
    return " ".join(str(getattr(entry, name)) for name in names)
