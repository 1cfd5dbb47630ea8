"""A sign of life, every few minutes: the whole chain from the rule to the worker is up."""

import logging
from datetime import UTC, datetime

from kiqbridge import job

logger = logging.getLogger(__name__)


@job(name="HealthPulse", retry=0, dead=False)
def health_pulse() -> None:
    """Say that jobs run here; a missed one is not worth repeating, the next comes soon."""
    logger.info("pulse at %s UTC", datetime.now(UTC).strftime("%H:%M:%S"))
