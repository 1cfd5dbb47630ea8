"""Django's database: its connections around each job, and enqueuing after the commit of a transaction.

Before a job and after it, connections that are broken or older than `CONN_MAX_AGE` are closed, and the log
of queries that `DEBUG = True` keeps is emptied. A connection within `atomic` is left alone: a test's.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, ParamSpec

from asgiref.sync import sync_to_async
from django.db import DEFAULT_DB_ALIAS, connections, reset_queries, transaction

from kiqbridge.client.client import Client
from kiqbridge.contrib.after_commit import (
    AfterCommit,
    Enqueuable,
    Postponed,
    deferring,
    on_push_failed,
    push_committed,
)

__all__ = ["after_commit", "around_job", "deferring_in_transactions", "on_push_failed"]

P = ParamSpec("P")


class Connections:
    """Server middleware, for plain and `async def` jobs.

    Django's asynchronous queries run on the thread of `sync_to_async`, so connections are looked at there.
    """

    def __call__(
        self, _job: Any, _payload: dict[str, Any], _queue: str, call_next: Callable[[], Any]
    ) -> Any:
        """Around a plain job."""
        clean_up()
        try:
            return call_next()
        finally:
            clean_up()

    async def call_async(
        self, _job: Any, _payload: dict[str, Any], _queue: str, call_next: Callable[[], Any]
    ) -> Any:
        """Around an `async def` job."""
        await sync_to_async(clean_up, thread_sensitive=True)()
        try:
            return await call_next()
        finally:
            await sync_to_async(clean_up, thread_sensitive=True)()


def clean_up() -> None:
    """Close what is broken or too old, of this thread, and forget its queries."""
    if not any(connection.in_atomic_block for connection in connections.all(initialized_only=True)):
        reset_queries()
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()


around_job: Final = Connections()
"""In `server.middleware` as the outermost: other middleware may use the database, too."""


def after_commit(job: Enqueuable[P], using: str | None = None) -> AfterCommit[P]:
    """The job, to be pushed when the transaction commits: `after_commit(send).perform_async(42)`.

    Outside of `atomic` it is pushed at once. A rollback, also one to a savepoint, drops it. Within
    `TestCase`, whose transaction never commits, use `captureOnCommitCallbacks(execute=True)`.

    Args:
        job: a declared function or class, or the result of its `set`.
        using: alias of the database, default `default`.
    """
    return AfterCommit(job, _defer_to(using))


def deferring_in_transactions(client: Client) -> Client:
    """The client that declared jobs push through, with `ENQUEUE_AFTER_COMMIT`."""
    if transaction.get_connection(DEFAULT_DB_ALIAS).in_atomic_block:
        return deferring(client, _defer_to(None))
    return client


def _defer_to(using: str | None) -> Callable[[Postponed], None]:
    def defer(postponed: Postponed) -> None:
        connection = transaction.get_connection(using)
        if connection.get_autocommit() and not connection.in_atomic_block:
            postponed.push()
        else:
            transaction.on_commit(partial(push_committed, [postponed]), using=using)

    return defer
