"""`app.control`: what it does to a task that waits. All else is for the command line, the page and `kiqbridge.api`."""

from collections.abc import Iterable

from kiqbridge.errors import PayloadError


class Control:
    """Celery's remote control; of it `revoke`."""

    def revoke(self, task_id: str | Iterable[str], *, terminate: bool = False) -> None:
        """Delete tasks that wait: in a queue, for their time, or for their next try. One that runs goes on.

        Args:
            task_id: their ids, or one.
            terminate: refused: no task is ended while it runs.

        Raises:
            PayloadError: `terminate`.
            RedisUnavailable, RedisRefused: not all were looked for.
        """
        if terminate:
            raise PayloadError(
                "revoke: terminate has no counterpart here: a running task runs to its end; give it a time_limit, or "
                "declare an iterable job, which can be cancelled"
            )
        from kiqbridge.api import find_job  # noqa: PLC0415 - few revoke

        for jid in [task_id] if isinstance(task_id, str) else task_id:
            for found in find_job(jid):
                if found.place in _WAITING:
                    found.job.delete()


_WAITING = ("queue", "schedule", "retry")
