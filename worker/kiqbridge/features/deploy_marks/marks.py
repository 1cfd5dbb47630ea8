"""Writing a mark, in one script."""

import time

from kiqbridge.client.deploy_mark import DeployMark
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import check_json

MARKS_TTL_S = 90 * 86_400
LOCK_TTL_S = 60
"""A label is marked once within this time, however many machines of a deployment report it."""

_MARK = scripts.load("deploy_mark", __file__)


def parse_label(label: object) -> str:
    """A label as it may be kept.

    Raises:
        PayloadError: not a text, or nothing can be seen of it.
    """
    if not isinstance(label, str) or not label.strip():
        raise PayloadError(
            f"label: {shorten(label)} is not a text with at least one visible character; write what was "
            "deployed, such as a version"
        )
    check_json(label, "label")
    return label.strip()


def minute_of(now: float) -> str:
    """The minute of `now` (epoch seconds) as marks are written, such as 2026-11-20T11:33:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:00Z", time.gmtime(now))


def mark(redis: RedisPool, keys: Keys, label: str, now: float) -> DeployMark:
    """Mark a deployment in the minute of `now` (epoch seconds), in one script; the rules are those of `Client.deploy_mark`.

    Raises:
        PayloadError: as `parse_label`.
        RedisUnavailable, RedisRefused: nothing was written.
    """
    label, at = parse_label(label), minute_of(now)
    day = time.strftime("%Y%m%d", time.gmtime(now))
    known_at, standing, new = redis.script(
        _MARK, [keys.deploy_lock(label), keys.marks(day)], [at, label, LOCK_TTL_S, MARKS_TTL_S]
    )
    return DeployMark(
        label=label, at=known_at.decode(), standing=standing.decode(errors="replace"), new=bool(new)
    )
