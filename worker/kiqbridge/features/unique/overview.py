"""Locks of unique jobs as operators see them: the one model that page, command and API read.

A list is read page by page, those first that are looked at next (locks.py): three round trips. Those of one class are
sought among the names of all, `LOOK_AT` for an answer.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from kiqbridge.api import Operator, Page, record_audit
from kiqbridge.api.acts import Act
from kiqbridge.features.unique.freeing import Lock, looked_at
from kiqbridge.store.key_scan import scan
from kiqbridge.wire.names import glob_of, text_of

LOOK_AT: Final = 100_000
"""Names that are looked at for those of a class."""

_AT_ONCE: Final = 5_000


class HeldLock(NamedTuple):
    """A lock, and the job that owns it.

    Attributes:
        name: `CLASS:SHA256`.
        jid: of the job.
        until: when it does not count any more, however the job ended: epoch seconds.
    """

    name: str
    jid: str
    until: float

    @property
    def job_class(self) -> str:
        """Whose jobs it is for."""
        return self.name.rpartition(":")[0]


def freeing(locks: Sequence[HeldLock]) -> Act:
    """The button that frees them, unless other jobs own them by then."""
    fields = {"name": [each.name for each in locks], "jid": [each.jid for each in locks]}
    asked = "The job that owns it stays as it is: another one with the same arguments may be pushed and run beside it."
    return Act("Free", "/locks", fields, asked)


def list_locks(
    operator: Operator, number: int = 1, size: int = 50, job_class: str = ""
) -> Page[HeldLock]:
    """A page of the locks.

    Args:
        operator: whose.
        number: of the page, from 1 on.
        size: how many it has.
        job_class: only those of this class.

    Raises:
        RedisUnavailable: nothing was read.
    """
    pool, keys = operator.pool, operator.keys
    start = (number - 1) * size
    if job_class:
        found = _named(operator, job_class)
        total, names = len(found), found[start : start + size]
    else:
        total, names = pool.run(
            ("ZCARD", keys.locks_look), ("ZRANGE", keys.locks_look, start, start + size - 1)
        )
    return Page(number=number, size=size, total=int(total), rows=_held(operator, names))


def find_lock(operator: Operator, name: str) -> HeldLock | None:
    """One of them; None: it is free. Raises as `list_locks`."""
    return next(iter(_held(operator, [name.encode("utf-8", "surrogateescape")])), None)


def free_lock(operator: Operator, lock: HeldLock) -> bool:
    """Free a lock, if this job still owns it, with an entry in the audit log; whether it did.

    The job itself stays as it is: another one with the same arguments may be pushed beside it.

    Raises:
        RedisUnavailable: not known; repeat it.
    """
    freed = looked_at(operator.pool, operator.keys, gone=[Lock(lock.name, lock.jid)])
    record_audit(operator, "free", f"lock:{lock.name}", f"job {lock.jid}", freed)
    return bool(freed)


def _held(operator: Operator, names: Sequence[bytes]) -> list[HeldLock]:
    if not names:
        return []
    values = operator.pool.call("HMGET", operator.keys.locks, *names)
    found = []
    for name, value in zip(names, values, strict=True):
        until, _, jid = (value or b"").partition(b" ")
        if until.isdigit():
            found.append(HeldLock(text_of(name), text_of(jid), float(until)))
    return found


def _named(operator: Operator, job_class: str) -> list[bytes]:
    key, pattern = operator.keys.locks_look, f"{glob_of(job_class)}:*"
    pages = scan(operator.pool, "ZSCAN", key, match=pattern, count=_AT_ONCE)
    return sorted({name for page in islice(pages, LOOK_AT // _AT_ONCE) for name in page[::2]})
