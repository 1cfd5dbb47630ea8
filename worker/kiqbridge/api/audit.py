"""Who has done what to jobs, queues and processes: the audit log in Redis, the last 10,000 actions."""

import os
import time
from dataclasses import dataclass

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.errors import RedisRefused
from kiqbridge.store.operating import Note, Noted, read_notes, write_note
from kiqbridge.wire import json_text

_MICROSECONDS = 1_000_000
_KILLS_READ = 500
_MOST_TEXT = 500
"""Characters of a target or a detail that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """An action that was carried out.

    Attributes:
        id: by which `read_audit` goes on.
        at: when it began, epoch seconds.
        by: who.
        via: through what: `api`, `web`, `cli`.
        action: `retry`, `kill`, `delete`, `reschedule`, `requeue`, `move`, `clear`, `pause`, `resume`,
            `quiet`, `stop`, `dump_threads`, `export --take`, `export --give-back`, `restore`, or what
            `record_audit` got.
        target: of what: `retry`, `schedule`, `dead`, `queue:NAME`, several of them, or a process' identity.
        detail: which jobs: one with its class, a filter, or how they were selected.
        count: of how many jobs.
    """

    id: str
    at: float
    by: str
    via: str
    action: str
    target: str
    detail: str
    count: int


def read_audit(
    operator: Operator | None = None, *, most: int = 100, before: str | None = None
) -> list[AuditEntry]:
    """The last actions, the latest first.

    Args:
        operator: default `default_operator()`.
        most: how many at most.
        before: id of an entry: only older ones. Empty if that entry is not kept any more.

    Raises:
        RedisUnavailable: nothing was read.
    """
    whose = operator or default_operator()
    return [_entry(noted) for noted in read_notes(whose.pool, whose.keys, most, before)]


def killed_since(operator: Operator, at: float) -> int:
    """How many jobs operators have killed since then (epoch seconds), by the last 500 actions; 0 if that is not known."""
    try:
        entries = read_audit(operator, most=_KILLS_READ)
    except RedisRefused:
        return 0
    return sum(
        each.count
        for each in entries
        if each.action == "kill" and each.target != "dead" and each.at >= at
    )


def record_audit(
    operator: Operator, action: str, target: str, detail: str = "", count: int = 1
) -> None:
    """Add an entry for an action on something other than jobs.

    Args:
        operator: in whose name it was done.
        action: what was done, a word.
        target: to what.
        detail: more about it.
        count: how many were concerned; with 0 nothing is added.

    Raises:
        RedisUnavailable: it was not added.
    """
    write_note(operator.pool, operator.keys, new_note(operator, action, target, detail), count)


def new_note(operator: Operator, action: str, target: str, detail: str) -> Note:
    """An entry for what begins now, in the name of the operator; nothing is written."""
    now = time.time()
    entry = {
        "at": round(now, 3),
        "by": _kept(operator.by),
        "via": _kept(operator.via),
        "action": _kept(action),
        "target": _kept(target),
        "detail": _kept(detail),
    }
    return Note(f"{int(now * _MICROSECONDS)}-{os.urandom(4).hex()}", now, json_text.dumps(entry))


def _kept(text: str) -> str:
    """No longer than is shown, and without the lone surrogates that JSON cannot carry."""
    cut = text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"
    return cut.encode("utf-8", "replace").decode()


def _entry(noted: Noted) -> AuditEntry:
    found = json_text.read_object(noted.text)
    at = found.get("at")
    return AuditEntry(
        id=noted.id,
        at=float(at) if isinstance(at, int | float) else 0.0,
        count=noted.done,
        **{name: str(found.get(name, "")) for name in ("by", "via", "action", "target", "detail")},
    )
