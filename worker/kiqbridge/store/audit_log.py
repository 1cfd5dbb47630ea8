"""The audit log of operators' actions: `kb:audit` (id → time), its entries, and their counts.

An action of many batches is one entry. Each script that does a part of it gets the entry and the
number of the batch, and answers with the count of all batches: so a repeated call neither acts nor
counts twice, and the total is known although a reply was lost.
"""

from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

MOST_ENTRIES: Final = 10_000
"""The last so many are kept; the number in `parts/audit.lua`."""

_NOTE = scripts.load("audit_note")


class Note(NamedTuple):
    """An entry to be: its id, its time (epoch seconds), and its text."""

    id: str
    at: float
    text: bytes


class Noted(NamedTuple):
    """An entry as it lies in Redis."""

    id: str
    text: bytes
    done: int


def audit_keys(keys: Keys) -> list[str]:
    """The three keys, in the order in which scripts get them."""
    return [keys.audit, keys.audit_entries, keys.audit_counts]


def write_note(pool: RedisPool, keys: Keys, note: Note, count: int) -> None:
    """Add an entry that belongs to no script; with a count of 0 nothing is added.

    Raises:
        RedisUnavailable: repeat it with the same note.
    """
    pool.script(_NOTE, audit_keys(keys), [note.id, repr(note.at), note.text, count])


def read_notes(pool: RedisPool, keys: Keys, most: int, before: str | None) -> list[Noted]:
    """Entries, the last first; of `before`, an id, those that are older. Empty if it was forgotten.

    Args:
        pool: of the server.
        keys: the namespace.
        most: how many at most.
        before: id of an entry.

    Raises:
        RedisUnavailable: nothing was read.
    """
    first = 0
    if before is not None:
        rank = pool.call("ZREVRANK", keys.audit, before)
        if rank is None:
            return []
        first = int(rank) + 1
    ids = pool.call("ZRANGE", keys.audit, first, first + most - 1, "REV")
    if not ids:
        return []
    texts, counts = pool.run(
        ("HMGET", keys.audit_entries, *ids), ("HMGET", keys.audit_counts, *ids)
    )
    return [
        Noted(each.decode("utf-8", "replace"), text, int((count or b"0").split()[0]))
        for each, text, count in zip(ids, texts, counts, strict=True)
        if text is not None
    ]
