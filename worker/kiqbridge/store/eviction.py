"""What Redis does when its memory is full: refuse to write, or forget what it holds."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kiqbridge.errors import KiqbridgeError, RedisRefused

logger = logging.getLogger(__name__)

NOEVICTION: Final = "noeviction"
SETTING: Final = "maxmemory-policy"

WHAT_TO_DO: Final = (
    f"set {SETTING} to {NOEVICTION}: CONFIG SET {SETTING} {NOEVICTION} and the server's file, or on "
    "ElastiCache a parameter group of your own, since the default one cannot be changed"
)


def fetch_policy(run: Callable[..., list[Any]]) -> str | None:
    """The eviction policy, None where the server does not answer that.

    Managed services refuse CONFIG, and some INFO.

    Args:
        run: sends commands and returns their replies.

    Raises:
        RedisUnavailable: Redis is away.
    """
    for ask, read in ((("INFO", "memory"), _of_info), (("CONFIG", "GET", SETTING), _of_config)):
        try:
            policy = read(run(ask)[0])
        except RedisRefused as error:
            logger.debug("Redis does not report its eviction policy: %s", error)
            continue
        if policy:
            return policy
    return None


def what_can_be_lost(policy: str) -> str:
    """In words, for a policy other than `noeviction`."""
    if policy.startswith("allkeys"):
        return "any key, whole queues with all their jobs included"
    return (
        "keys with a time to live: the progress of iterable jobs, how often a job was found orphaned, "
        "statistics that are being written, and what the Web UI shows of processes"
    )


def warn_of_eviction(run: Callable[..., list[Any]]) -> None:
    """Log at the start that this Redis may forget what it holds.

    Args:
        run: sends commands and returns their replies.
    """
    try:
        policy = fetch_policy(run)
    except KiqbridgeError as error:
        logger.debug("could not ask for the eviction policy: %s", error)
        return
    if policy is not None and policy != NOEVICTION:
        logger.warning(
            "this Redis has the eviction policy %s: when its memory is full it loses %s; %s",
            policy,
            what_can_be_lost(policy),
            WHAT_TO_DO,
        )


def parse_info(reply: bytes) -> Mapping[str, str]:
    """Fields of a section that INFO answers."""
    lines = (line.partition(":") for line in reply.decode("utf-8", "replace").splitlines())
    return {name: value for name, separator, value in lines if separator}


def _of_info(reply: bytes) -> str | None:
    return parse_info(reply).get("maxmemory_policy")


def _of_config(reply: list[bytes]) -> str | None:
    return reply[1].decode("utf-8", "replace") if len(reply) > 1 else None
