"""SQLAlchemy: jobs enqueued within a session's transaction are pushed when it commits.

    from kiqbridge.contrib.sqlalchemy import after_commit

    with Session(engine) as session, session.begin():
        session.add(order)
        session.flush()
        jid = after_commit(session, send_receipt).perform_async(order.id)

Nothing is pushed if the transaction is rolled back, or the session closed without a commit. A rollback to a
savepoint (`begin_nested`) drops what was enqueued since that savepoint. With an `AsyncSession` the push
after the commit does not block the event loop.
"""

from asyncio import to_thread
from typing import Any, ParamSpec

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session
from sqlalchemy.util import await_only
from sqlalchemy.util.concurrency import in_greenlet

from kiqbridge.contrib.after_commit import (
    AfterCommit,
    Enqueuable,
    Postponed,
    on_push_failed,
    push_committed,
)

__all__ = ["after_commit", "on_push_failed"]

P = ParamSpec("P")
AnySession = Session | AsyncSession | scoped_session[Any] | async_scoped_session[Any]
_KEY = "kiqbridge.after_commit"
"""In `Session.info`: what waits for the commit of that session."""


def after_commit(session: AnySession, job: Enqueuable[P]) -> AfterCommit[P]:
    """The job, to be pushed when the transaction of this session commits.

    Without a transaction it is the next one that counts.

    Args:
        session: of any kind; for one of `scoped_session` that of this thread or task.
        job: a declared function or class, or the result of its `set`.
    """
    if isinstance(session, scoped_session | async_scoped_session):
        return after_commit(session(), job)
    synchronous = session.sync_session if isinstance(session, AsyncSession) else session
    waiting = synchronous.info.get(_KEY)
    if waiting is None:
        waiting = synchronous.info[_KEY] = Waiting(synchronous)
    return AfterCommit(job, waiting.add)


class Waiting:
    """What waits for the commit of one session, by the transaction or savepoint that it belongs to."""

    def __init__(self, session: Session) -> None:
        self._by_transaction: dict[SessionTransaction | None, list[Postponed]] = {}
        event.listen(session, "after_transaction_create", self._created)
        event.listen(session, "after_commit", self._committed)
        event.listen(session, "after_transaction_end", self._ended)
        self._current = session.get_nested_transaction, session.get_transaction

    def add(self, postponed: Postponed) -> None:
        """Keep it for the innermost savepoint that is open, else for the transaction, the next one if none is."""
        self._by_transaction.setdefault(self._innermost(), []).append(postponed)

    def _innermost(self) -> SessionTransaction | None:
        nested, outermost = self._current
        return nested() or outermost()

    def _created(self, _session: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is None and None in self._by_transaction:
            self._by_transaction[transaction] = self._by_transaction.pop(None)

    def _committed(self, _session: Session) -> None:
        """Also called when a savepoint is released: its jobs are those of what is around it then."""
        transaction = self._innermost()
        postponed = self._by_transaction.pop(transaction, [])
        if not postponed:
            return
        if transaction is not None and transaction.nested:
            # The savepoint or transaction around one; between them may be that of a flush.
            found = transaction.parent
            while found is not None and not found.nested and found.parent is not None:
                found = found.parent
            self._by_transaction.setdefault(found, []).extend(postponed)
        elif in_greenlet():  # an AsyncSession, on its event loop
            await_only(to_thread(push_committed, postponed))
        else:
            push_committed(postponed)

    def _ended(self, _session: Session, transaction: SessionTransaction) -> None:
        """What is left was neither committed nor released."""
        self._by_transaction.pop(transaction, None)
