"""Database connections around each job, as Django does it around each request.

Before a job and after it, connections that are broken or older than `CONN_MAX_AGE` are closed, and the log
of queries that `DEBUG = True` keeps is emptied. A connection within `atomic` is left alone: a test's.
"""

from collections.abc import Callable
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.db import connections, reset_queries


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
