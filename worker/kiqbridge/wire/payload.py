"""What a job's payload must look like, and how one is built (protocol §3 to §5).

The payload is a plain dict at the wire, because unknown attributes must survive a round trip
untouched; the known ones are in docs/protocol.md §3.2. A client goes through four steps, each a function
here: `validate` refuses what cannot be a job, `normalize` fills in defaults, `check_json` refuses
values that JSON cannot carry exactly, and `json_text.dumps` writes the text.
"""

import math
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeGuard, cast

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.redaction import shorten, shorten_argument
from kiqbridge.wire.queues import fault_of_name

DEFAULT_OPTIONS: Mapping[str, Any] = {"retry": True, "queue": "default"}
"""Options of a job whose class is only a name (§5.3 step 1)."""

INTERVAL_LIMIT = 1_000_000_000
"""Seconds below this are an interval, others a point in time (§5.6); also the cap of `retry_for`."""

MILLISECONDS_FROM = 100_000_000_000
"""An integer timestamp from here on counts milliseconds (§3.3)."""

TASK_TOKEN = "task_token"  # noqa: S105 - the attribute's name
"""Attribute with the token of a task of Step Functions that waits for the job."""

TASK_HEARTBEAT_S = "task_heartbeat_s"
"""Attribute with the seconds between two heartbeats to that task."""

MAX_TASK_TOKEN = 2048
"""Characters of a token; Step Functions, API reference, `taskToken`."""

FLOW = "flow"
"""Attribute of a job whose end has consequences: a lock, a batch, a chain, a result (flow_mark.py)."""

ENCRYPTED = "kb_encrypted"
"""Attribute: the places of a job's arguments that are encrypted (client/sealing.py)."""

TICK = "tick"
"""Attribute of a job that a schedule enqueued: which schedule, and for which instant (tick_mark.py)."""

MAX_DEPTH = 100
"""Ruby's JSON refuses deeper nesting (§25)."""

Profile = Literal["7", "8"]
"""Timestamps as floats of seconds (`7`, read correctly by every version) or integer ms (`8`)."""

ProfileSetting = Literal["7", "8", "auto"]
"""What may be asked for: a profile, or `auto`, see `wire_profile`."""

_SCALARS = frozenset({int, bool, type(None)})


_DRAWN_AT_ONCE = 340
_drawn: list[str] = []
"""Ids that no job has yet: asking the system for each takes as long as all the rest of it."""

# Copies of this process would give the same ones.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drawn.clear)
_snapshots = sys.modules.get("snapshot_restore_py")
if _snapshots is not None:  # Lambda's runtime has loaded it
    _snapshots.register_after_restore(_drawn.clear)


def new_jid() -> str:
    """12 random bytes as 24 lower-case hex digits (§3.2)."""
    try:
        return _drawn.pop()
    except IndexError:
        first, *others = new_jids(_DRAWN_AT_ONCE)
        _drawn.extend(others)
        return first


def new_jids(count: int) -> list[str]:
    """As many ids as `new_jid` would give, out of one call to the system."""
    digits = os.urandom(12 * count).hex()
    return [digits[start : start + 24] for start in range(0, 24 * count, 24)]


def timestamp(now: float, profile: Profile) -> float | int:
    """`now` (epoch seconds) as the profile writes it inside a payload (§3.3)."""
    return float(now) if profile == "7" else int(now * 1000)


def read_timestamp(value: object) -> float | None:
    """Epoch seconds from any form a payload may carry (§3.3), None if it is no time.

    Float → seconds; integer from 100,000,000,000 → milliseconds; smaller integer → seconds;
    text → parsed as a number (an old producer wrote it so).
    """
    if isinstance(value, str):
        try:
            value = float(value) if "." in value else int(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or not is_number(value):
        return None
    if isinstance(value, int) and value >= MILLISECONDS_FROM:
        return value / 1000
    return float(value)


def parse_profile(text: str, *, source: str) -> ProfileSetting:
    """Read the wire profile; `source` says in the message where it came from.

    Raises:
        ConfigError: neither 7 nor 8 nor auto.
    """
    if text not in ("7", "8", "auto"):
        raise ConfigError(
            f"profile: {text!r} is not a wire profile (from {source}); write 7 (float seconds, read "
            "by every Sidekiq), 8 (integer milliseconds, when every reader is Sidekiq 8) or auto (8 while "
            "only Sidekiq 8 or later is seen)"
        )
    return cast("ProfileSetting", text)


def run_time(when: float | datetime | timedelta, now: float) -> float | None:
    """When to run a job given an interval or a point in time (§5.6), None = at once.

    A timedelta, or a number below 1,000,000,000 (seconds), is an interval; a larger number is epoch
    seconds. What lies in the past runs at once.

    Raises:
        PayloadError: not a number, no timedelta and no datetime with a zone; or an interval of decades.
    """
    if isinstance(when, timedelta):
        if when.total_seconds() >= INTERVAL_LIMIT:
            raise PayloadError(f"at: {when} is over 31 years; give a point in time")
        when = when.total_seconds()
    moment = float(epoch_seconds(when))
    is_interval = moment < INTERVAL_LIMIT and not isinstance(when, datetime)
    at = now + moment if is_interval else moment
    return at if at > now else None


def epoch_seconds(when: object, *, field: str = "at") -> float | int:
    """A number of seconds, or an aware datetime as epoch seconds.

    Raises:
        PayloadError: neither; a datetime without zone is refused, since it names no instant.
    """
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise PayloadError(
                f"{field}: {when!r} has no time zone; use datetime.now(UTC) or the like"
            )
        return when.astimezone(UTC).timestamp()
    if not is_number(when):
        raise PayloadError(
            f"{field}: {shorten(when)} is not a number of seconds; give epoch seconds such as 1700000000.5"
        )
    return when


def validate(item: object) -> Mapping[str, Any]:
    """Refuse what cannot be a job, in Sidekiq's order (§5.1), and return the item.

    Raises:
        PayloadError: names the field and shows the value.
    """
    if not isinstance(item, (dict, Mapping)) or "class" not in item or "args" not in item:
        raise PayloadError(
            f"job: {shorten_argument(item)} is not an object with the keys class and args"
        )
    if not isinstance(item["args"], list):
        raise PayloadError(
            f"args: {shorten_argument(item['args'])} is not a list; write the arguments as a list"
        )
    if not isinstance(item["class"], str) or not item["class"]:
        raise PayloadError(f"class: {shorten(item['class'])} is not the name of a job class")
    if "at" in item and not is_number(item["at"]):
        raise PayloadError(f"at: {shorten(item['at'])} is not a number (epoch seconds)")
    if item.get("tags") and not isinstance(item["tags"], list):
        raise PayloadError(f"tags: {shorten(item['tags'])} is not a list of texts")
    retry_for = item.get("retry_for")
    if retry_for is not None and not (is_number(retry_for) and retry_for <= INTERVAL_LIMIT):
        raise PayloadError(
            f"retry_for: {shorten(retry_for)} is not a number of seconds up to {INTERVAL_LIMIT:,}"
        )
    if "jid" in item and (not isinstance(item["jid"], str) or not item["jid"]):
        raise PayloadError(f"jid: {shorten(item['jid'])} is not a text with at least one character")
    return item


def normalize(
    item: Mapping[str, Any], defaults: Mapping[str, Any], now: float, profile: Profile
) -> dict[str, Any]:
    """Merge a validated item over its defaults and add jid and created_at (§5.3).

    The order of keys is Ruby's: defaults first, then the item's own keys (§3.4).

    Raises:
        PayloadError: the resulting queue is no text or empty.
    """
    payload = {**defaults, **item}
    check_queue(payload.get("queue"))
    if "jid" not in payload:
        payload["jid"] = new_jid()
    if payload.get("retry_for") is not None:
        payload["retry_for"] = int(payload["retry_for"])
    if "created_at" not in payload:
        payload["created_at"] = timestamp(now, profile)
    return payload


def check_queue(queue: object) -> None:
    """Refuse what is no queue name (§5.1, rule 8).

    Raises:
        PayloadError: it is no text, empty, no UTF-8, or holds NUL.
    """
    if not isinstance(queue, str) or not queue:
        raise PayloadError(
            f"queue: {shorten(queue)} is not a queue name; write a text such as default"
        )
    if (not queue.isascii() or "\0" in queue) and (fault := fault_of_name(queue)) is not None:
        raise PayloadError(f"queue: {shorten(queue)} {fault}; write a text such as default")


class JobId(str):
    """A job's id that can be asked about its job (client/job_handle.py); JSON has a plain text for it."""

    __slots__ = ()


def check_json(value: object, field: str, depth: int = 2) -> None:
    """Refuse values that would arrive changed, or not at all, on the other side (§5.2).

    Exactly None, bool, int, finite float, str, list and dict with str keys pass; sub-classes do
    not, since the reader could not restore them: but for a `JobId`, which is nothing else to a reader.

    Raises:
        PayloadError: names the path of the value, such as `args[0].day`.
    """
    kind = type(value)
    if kind is int or kind is bool or value is None:
        return
    if isinstance(value, str) and (kind is str or isinstance(value, JobId)):
        _check_encodable(value, field)
    elif isinstance(value, float) and kind is float:
        if not math.isfinite(value):
            raise PayloadError(f"{field}: {value!r} has no JSON text; send None or a text instead")
    elif kind in (list, dict):
        if not is_plain(value, depth):
            _check_container(value, field, depth)
    else:
        raise PayloadError(
            f"{field}: {shorten_argument(value)} of type {kind.__qualname__} would not arrive as it is; "
            "send None, bool, int, float, str, list or dict (for instance an id or an ISO date)"
        )


def is_plain(container: Any, depth: int = 2) -> bool:
    """A quick look that passes nearly every list or dict; for others `check_json` says why."""
    pending = [(depth, container)]
    while pending:
        depth, container = pending.pop()  # the deepest first: a cycle ends at the limit
        if depth > MAX_DEPTH:
            return False
        if type(container) is dict:
            for key in container:
                if type(key) is not str or not key.isascii():
                    return False
            container = container.values()
        for child in container:
            kind = type(child)
            if kind in _SCALARS or (kind is str and child.isascii()):
                continue
            if kind is list or kind is dict:
                pending.append((depth + 1, child))
            elif not is_surely_fine(child) and not _is_text(child):
                return False
    return True


def _is_text(value: object) -> bool:
    try:
        return (type(value) is str or isinstance(value, JobId)) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def _check_container(value: object, field: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise PayloadError(
            f"{field}: nested deeper than {MAX_DEPTH} levels, which Ruby refuses to read"
        )
    if isinstance(value, list):
        for index, item in enumerate(value):
            if not is_surely_fine(item):
                check_json(item, f"{field}[{index}]", depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str and not isinstance(key, JobId):
                raise PayloadError(
                    f"{field}: key {shorten_argument(key)} is not a text; JSON has only text keys"
                )
            _check_encodable(key, field)
            if not is_surely_fine(item):
                check_json(item, f"{field}.{key}", depth + 1)


def check_arguments(args: list[Any]) -> None:
    """`check_json` for the arguments of one job."""
    for value in args:
        if not is_surely_fine(value):
            check_json(args, "args")
            return


def check_payload(payload: Mapping[str, Any]) -> None:
    """`check_json` for every attribute of a payload."""
    for name, value in payload.items():
        if not is_surely_fine(value):
            check_json(value, name)


def is_surely_fine(value: object) -> bool:
    """A cheap look that passes what nearly all values are; the others need `check_json`."""
    kind = type(value)
    if kind is str:
        return value.isascii()  # type: ignore[attr-defined, no-any-return]
    return kind in _SCALARS or (kind is float and math.isfinite(value))  # type: ignore[arg-type]


def _check_encodable(text: str, field: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PayloadError(
            f"{field}: {shorten_argument(text)} holds a lone surrogate, which UTF-8 cannot carry"
        ) from error


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether this is a number that a double can hold and that is finite; True and False are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no double, and so no score, can hold
        return False


def retries_of(payload: Mapping[str, Any]) -> int:
    """How often a job was tried again: 0 at its first run."""
    count = payload.get("retry_count")
    return count + 1 if type(count) is int and count >= 0 else 0


TICK_HORIZON_S = 17 * 86_400
"""How long a ledger remembers; an older occurrence is stale, so memory stays bounded.

Longer than any delivery may take: a day in EventBridge or in Lambda's own queue, then 14 days in the
dead-letter queue (template.yaml), from which somebody sends it again."""
