"""When a job is too old to begin: `expires_in`, the option of Sidekiq Pro, and the instant that it means.

`expires_in` is in seconds from the time of the job. Our client writes that instant as well, as `expires_at`, since
the payload of a scheduled job does not say for when it was scheduled. For a job that another client has pushed it
counts from `enqueued_at`, when it last came into its queue: a scheduled one may be older than that.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeGuard

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import is_number, read_timestamp

EXPIRES_IN: Final = "expires_in"
EXPIRES_AT: Final = "expires_at"


def set_expiry(payload: dict[str, Any], at: float) -> None:
    """Write when a job expires, given its time (epoch seconds).

    Raises:
        PayloadError: `expires_in` is no number of seconds above 0.
    """
    seconds = payload[EXPIRES_IN]
    if seconds is None:
        return
    if not _is_positive(seconds):
        raise PayloadError(
            f"{EXPIRES_IN}: {shorten(seconds)} is not a number of seconds above 0; in set or a declaration it "
            "may be a timedelta"
        )
    payload[EXPIRES_AT] = float(at) + float(seconds)


def expiry_of(payload: Mapping[str, Any]) -> float | None:
    """When a job expires, epoch seconds; None: never, or nothing says so that can be read."""
    at = payload.get(EXPIRES_AT)
    if _is_positive(at):
        return float(at)
    seconds = payload.get(EXPIRES_IN)
    since = read_timestamp(payload.get("enqueued_at"))
    if since is None:
        since = read_timestamp(payload.get("created_at"))
    if since is None or not _is_positive(seconds):
        return None
    return since + float(seconds)


def _is_positive(value: object) -> TypeGuard[int | float]:
    return is_number(value) and value > 0
