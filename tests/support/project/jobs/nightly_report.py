"""The report of a finished day, written class-style as in Ruby."""

import logging
from datetime import UTC, datetime, timedelta

from kiqbridge import Job

logger = logging.getLogger(__name__)


class NightlyReport(Job):
    """Reports on the day that lies `day_offset` days back."""

    queue = "low"
    retry = 5

    def perform(self, day_offset: int = 1) -> None:
        """Collect the day's figures; replace the log line by your own report."""
        day = (datetime.now(UTC) - timedelta(days=day_offset)).date()
        logger.info("report for %s is ready", day.isoformat())
