"""Declaring jobs that Rails performs."""

from typing import ClassVar

from kiqbridge.client.job import RemoteJob


class RemoteActiveJob(RemoteJob):
    """As `RemoteJob`, for Rails' Active Jobs: enqueued as `perform_later` does. Public as `kiqbridge.rails`.

        class NightlyJob(RemoteActiveJob):
            queue = "rails"

            def perform(self, day: date, *, copy: bool = False) -> None: ...

        NightlyJob.perform_async(date(2026, 1, 1), copy=True)

    Arguments are those of docs/how_to/rails.md, keyword arguments included.
    """

    _is_active_job: ClassVar[bool] = True
