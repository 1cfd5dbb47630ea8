"""A message to a team every working day, by an async function."""

import asyncio
import logging

from kiqbridge import job

logger = logging.getLogger(__name__)


@job(name="WeekdayDigest", queue="mailers", retry=3)
async def weekday_digest(team: str) -> None:
    """Send the digest; replace the pause by the call to your mail service."""
    await asyncio.sleep(0.05)
    logger.info("digest sent to team %s", team)
