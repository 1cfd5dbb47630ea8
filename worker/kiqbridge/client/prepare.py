"""From an item to a payload that may be written (protocol §5.1 to §5.4).

1. `validate` refuses what cannot be a job, `normalize` fills in what is missing:
   `{"class": "Nop", "args": [1]}` becomes `{"retry": true, "queue": "default", "class": "Nop", "args": [1],
   "jid": "5d0a54ab1f7a4bd7c5a3a0f1", "created_at": 1768208460.5}`.
2. Client middleware may change the payload, or stop the push.
3. `check_payload` refuses values that JSON cannot carry exactly.

Nothing is written here, and all that is wrong with an item is refused here: before Redis.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.registry import definition_of
from kiqbridge.errors import PayloadError
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.payload import (
    DEFAULT_OPTIONS,
    Profile,
    check_payload,
    check_queue,
    normalize,
    shorten,
    validate,
)
from kiqbridge.wire.raw_job import check_size


@dataclass(slots=True, kw_only=True)
class PreparedJob:
    """A checked payload, without the times that are set when it is written.

    Attributes:
        payload: without `at`; `enqueued_at` is set when it is written.
        at: when to run, epoch seconds; None = at once.
        own_jid: the jid was drawn here, so meeting it in Redis means that an earlier reply was lost.
        profile: how its times are written.
    """

    payload: dict[str, Any]
    at: float | None
    own_jid: bool
    profile: Profile

    @property
    def queue(self) -> str:
        """Queue name without prefix."""
        return self.payload["queue"]  # type: ignore[no-any-return] # `prepare` has checked it

    @property
    def jid(self) -> str:
        """The job's id."""
        return self.payload["jid"]  # type: ignore[no-any-return] # as above


def prepare(
    item: Mapping[str, Any],
    now: float,
    middleware: Chain[ClientMiddleware],
    wire_profile: Callable[[], Profile],
    *,
    trusted: bool = False,
    bulk: bool = False,
) -> PreparedJob | None:
    """Build the payload of one job; None when middleware stopped it.

    Args:
        item: as for `Client.push`.
        now: epoch seconds, for `created_at`.
        middleware: around the push.
        wire_profile: called for an item that is valid; with `auto` it may ask Redis.
        trusted: the item is a payload out of Redis: its values are not checked again, and `active_job`
            is an attribute like others.
        bulk: the job is one of many of one call (Active Job's wrappers differ).

    Raises:
        PayloadError: names the field and shows the value.
    """
    own_jid = not isinstance(item, (dict, Mapping)) or "jid" not in item
    profile: Profile | None = None
    if active_job.is_active_job(item) and not trusted:
        rails_job = active_job.parse(item)
        profile = wire_profile()
        item = active_job.wrap(rails_job, now, profile, bulk=bulk)
    declared: object = item.get("class") if isinstance(item, Mapping) else None
    definition = definition_of(declared)
    if definition is not None:
        item = {**item, "class": definition.name}
    item = validate(item)
    profile = profile or wire_profile()
    defaults = definition.options if definition else DEFAULT_OPTIONS
    payload = normalize(item, defaults, now, profile)
    if len(middleware):
        stopped_or_payload = middleware.invoke(
            (declared, payload, payload["queue"]), lambda: payload
        )
        if not stopped_or_payload:
            return None
        payload = dict(validate(stopped_or_payload))
        check_queue(payload.get("queue"))
    at = payload.pop("at", None)
    if not trusted:
        check_payload(payload)
    return PreparedJob(payload=payload, at=at, own_jid=own_jid, profile=profile)


def text_of_payload(payload: Mapping[str, Any], max_bytes: int) -> bytes:
    """The payload's JSON text.

    Raises:
        PayloadError: it has none, or more than `max_bytes` bytes (0 = no limit).
    """
    try:
        text = json_text.dumps(payload)
    except (TypeError, ValueError) as error:
        raise no_text(payload, error) from error
    check_size(text, max_bytes)
    return text


def no_text(payload: Mapping[str, Any], error: Exception) -> PayloadError:
    """The error for a payload that JSON has no text for."""
    return PayloadError(f"job: {shorten(payload)} has no JSON text: {error}")
