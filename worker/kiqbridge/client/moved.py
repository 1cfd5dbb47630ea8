"""What is pushed in the place of a job that is moved out of a set into its queue (protocol §9.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

from kiqbridge.client.client import Client
from kiqbridge.client.prepare import prepare
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import timestamp
from kiqbridge.wire.stamping import stamp


def prepare_moved(
    client: Client, payload: Mapping[str, Any], now: float, original: bytes
) -> tuple[str, bytes] | None:
    """A payload: (queue, text to push), None when client middleware stops it.

    Raises:
        PayloadError: it cannot be a job.
    """
    # As it is: JSON that is no object must be refused here, not fail as a mapping and keep every
    # other due job waiting.
    job = prepare(payload, now, client.middleware, client.wire_profile, trusted=True)
    if job is None:
        return None
    job.payload["enqueued_at"] = timestamp(now, job.profile)
    return job.queue, json_text.dumps_moved(job.payload, original)


def stamp_moved(
    client: Client, members: Sequence[bytes], now: float
) -> list[tuple[str, bytes] | None]:
    """The result of `prepare_moved` for each member; None where that must be asked."""
    if len(client.middleware):
        return [None] * len(members)
    return stamp(members, json_text.dumps(timestamp(now, client.wire_profile())))
