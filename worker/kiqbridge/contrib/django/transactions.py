"""Enqueuing after the commit of a Django transaction."""

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from django.db import DEFAULT_DB_ALIAS, transaction

from kiqbridge.client.client import Client
from kiqbridge.contrib.after_commit import (
    AfterCommit,
    Enqueuable,
    Postponed,
    deferring,
    push_committed,
)

P = ParamSpec("P")


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
