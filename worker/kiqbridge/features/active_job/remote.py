"""Declaring jobs that Rails performs."""

from typing import ClassVar

from kiqbridge.client.job import RemoteJob


class RemoteActiveJob(RemoteJob):
    """A job of Rails' Active Job, which Ruby performs; enqueued as `perform_later` does. Public as `kiqbridge.rails`.

        class NightlyJob(RemoteActiveJob):
            queue = "rails"

            def perform(self, day: date, *, copy: bool = False) -> None: ...

        NightlyJob.perform_async(date(2026, 1, 1), copy=True)

    Arguments are those of docs/reference/job_options.md, keyword arguments included.
    """

    _is_active_job: ClassVar[bool] = True
