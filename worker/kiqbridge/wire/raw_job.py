"""What can be known of a job's text, and done to it, without parsing it.

A text may be what kills a process: 10 MB of nested lists are 300 MB of Python objects. Code that must
survive it (the reaper, the poller, the parent of a child process that runs a suspect) works on its
bytes alone, in time and memory that grow with its length and with nothing else.

What cannot be read at all, malformed or too long, is kept as a job that can: `unreadable_job`. Ruby's
Web UI parses every member of the dead set, and one that it cannot parse takes down the whole page.

What readers in Ruby need of a job's attributes: its Web UI and its sets raise over others, for all jobs.

`DeadSet#each` of a set with one member whose `tags` are a number shows none of the others. So code that
writes a job into a set puts aside what they cannot show. Nothing is lost: the values are kept in the attribute
`unreadable`, which no reader looks at.
"""

import base64
import binascii
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kiqbridge.errors import PayloadError
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import Profile, new_jid, timestamp

KEPT_IN: Final = "unreadable"
"""Attribute that holds what was put aside: name → value."""

_MOST_INFLATED_BYTES = 1_000_000


def showable(payload: dict[str, Any]) -> dict[str, Any]:
    """The job as every reader can show it; the same object where nothing stands in the way.

    `tags` that are no list, times that are no finite number and an `error_backtrace` that cannot be
    inflated are put aside; a `jid` that is no text is replaced, since pages are found by it.
    """
    odd = [
        name
        for name, is_shown in _CHECKS.items()
        if name in payload and not is_shown(payload[name])
    ]
    if not odd:
        return payload
    kept = payload.get(KEPT_IN)
    aside = {**(kept if isinstance(kept, dict) else {}), **{name: payload[name] for name in odd}}
    shown = {name: value for name, value in payload.items() if name not in odd}
    if "jid" in odd:
        shown["jid"] = new_jid()
    shown[KEPT_IN] = aside
    return shown


def replacements(strings: Mapping[bytes, bytes], others: Mapping[bytes, bytes]) -> dict[str, Any]:
    """Attributes to write behind those of a text that is not parsed, of which readers take the last.

    Args:
        strings: name → value of the plain strings of the text's outermost object.
        others: name → first character of the value, for the others.
    """
    found: dict[str, Any] = {}
    if b"tags" in strings or others.get(b"tags", b"[") not in b"[nf":
        found["tags"] = None
    if not strings.get(b"jid") and others.get(b"jid") != b'"':
        found["jid"] = new_jid()
    for name in (b"created_at", b"enqueued_at"):
        if name in strings or others.get(name, b"n") not in b"-0123456789nf":
            found[name.decode()] = None
    trace = strings.get(b"error_backtrace")
    odd = others.get(b"error_backtrace", b"n") not in b"[nf"
    if odd or (trace is not None and not _is_backtrace(trace.decode(errors="replace"))):
        found["error_backtrace"] = None
    return found


def _is_tags(value: object) -> bool:
    return value is None or value is False or isinstance(value, list)


def _is_time(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return value is not True
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def _is_jid(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_backtrace(value: object) -> bool:
    if value is None or value is False or isinstance(value, list):
        return True
    if not isinstance(value, str):
        return False
    try:
        packed = base64.b64decode(value)
        lines = zlib.decompressobj().decompress(packed, _MOST_INFLATED_BYTES)
        return isinstance(json_text.loads(lines), list)
    except (binascii.Error, zlib.error, ValueError, json_text.MalformedJSON):
        return False


_CHECKS: Final[Mapping[str, Callable[[object], bool]]] = {
    "tags": _is_tags,
    "jid": _is_jid,
    "created_at": _is_time,
    "enqueued_at": _is_time,
    "failed_at": _is_time,
    "retried_at": _is_time,
    "error_backtrace": _is_backtrace,
}
"""Attribute → whether readers show this value."""


DEFAULT_MAX_PAYLOAD_BYTES = 10_000_000

FAILURE_BYTES = 100_000
"""What failures add to a text: a job that a client may push must not be too long when it is retried."""

MAX_PARSED_BYTES = 1_000_000
"""A longer text is not parsed where its process must survive it: as objects it may take thirty times its bytes."""

UNREADABLE_CLASS = "Unreadable"

_JID = re.compile(rb'"jid"\s*:\s*"([A-Za-z0-9_.:-]+)"')
_JID_NAME = b'"jid"'
_LONGEST_JID = 100
"""Bytes of a jid that becomes part of a key's name."""

_COUNT = re.compile(rb'"retry_count"\s*:\s*(\d{1,9})(?=[\s,}])')
_COUNT_NAME = b'"retry_count"'
_BLANK = b" \t\r\n"
_IS_UNREADABLE = b'{"class":"' + UNREADABLE_CLASS.encode() + b'","args":['

# Possessive: nothing is tried twice, also in a text whose last string does not end.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_VALUE = re.compile(rb'\s*+:\s*+(?:"([^"\\]*+)"|(\S))')


def jid_in(text: bytes) -> bytes | None:
    """The value of the last `"jid"` in a text whose value is made of `[A-Za-z0-9_.:-]`, in linear time.

    The last one, since all clients write the job's own jid behind its arguments, which may hold the
    jids of other jobs. Inside of a JSON string it is never found: quotes are escaped there. None if
    there is none, or if it is longer than 100 bytes. The same in Lua, anchored to stay linear:
    `^.*"jid"%s*:%s*"([%w_.:-]+)"`.
    """
    found = _last(_JID, _JID_NAME, text)
    return found if found is not None and len(found) <= _LONGEST_JID else None


def retry_count_in(text: bytes) -> int | None:
    """The last `retry_count` in a text that is a whole number from 0, as `jid_in`."""
    count = _last(_COUNT, _COUNT_NAME, text)
    return None if count is None else int(count)


def _last(pattern: "re.Pattern[bytes]", name: bytes, text: bytes) -> bytes | None:
    end = len(text)
    while (start := text.rfind(name, 0, end)) >= 0:
        found = pattern.match(text, start)
        if found:
            return found[1]
        end = start
    return None


def check_size(text: bytes, limit: int) -> None:
    """Refuse a text that is longer than `limit` bytes; 0 = no limit.

    Raises:
        PayloadError: names size and limit.
    """
    if limit and len(text) > limit:
        raise too_long(text, limit)


def too_long_to_keep(text: bytes, max_bytes: int) -> PayloadError:
    """`too_long`, for a text that is longer than `max_kept_bytes`."""
    return too_long(text, max_bytes - FAILURE_BYTES)


def too_long(text: bytes, limit: int) -> PayloadError:
    """The error for a text that is longer than `limit` bytes, the setting max_payload_bytes."""
    return PayloadError(
        f"job: its text has {len(text):,} bytes, more than the {limit:,} that max_payload_bytes allows; put "
        "the data into S3 and pass its key, or raise KIQBRIDGE_MAX_PAYLOAD_BYTES for clients and workers"
    )


def max_kept_bytes(limit: int) -> int:
    """How long a text may be that a client could push within `limit` (0 = none) and that has failed since."""
    return limit + FAILURE_BYTES if limit else sys.maxsize


def unreadable_job(
    text: bytes, *, error_class: str, error_message: str, queue: str, now: float, profile: Profile
) -> bytes:
    r"""A job for the dead set that any Sidekiq can show, with an unreadable text as its one argument.

    Nothing of the text is lost: what is no UTF-8 is shown with `\xNN` in the place of such bytes, and kept
    exactly as `unreadable_base64`. One that is such a job already stays as it is.
    """
    if text.startswith(_IS_UNREADABLE):
        return text
    exact: dict[str, object] = {}
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        import base64  # noqa: PLC0415 - hardly ever needed

        shown = text.decode(errors="backslashreplace")
        exact = {"unreadable_base64": base64.b64encode(text).decode()}
    jid = jid_in(text)
    at = timestamp(now, profile)
    rest = json_text.dumps(
        {
            "retry": 0,
            "queue": queue,
            "jid": jid.decode() if jid else new_jid(),
            "created_at": at,
            "error_message": error_message,
            "error_class": error_class,
            "failed_at": at,
            "retry_count": 0,
            **exact,
        }
    )
    # Not orjson, which sets aside eight times a string's length.
    argument = json.dumps(shown, ensure_ascii=False).encode()
    return b"%b%b],%b" % (_IS_UNREADABLE, argument, rest[1:])


def failed_text(
    text: bytes, *, error_class: str, error_message: str, queue: str, now: float, profile: Profile
) -> bytes:
    """A job's text with what is recorded about a failure (§8.1), put before its last brace.

    Of a name that is written twice all readers take the last. What cannot be an object becomes an
    `unreadable_job`.
    """
    stripped = text.strip(_BLANK)
    if not (stripped.startswith(b"{") and stripped.endswith(b"}") and len(stripped) > 1):
        return unreadable_job(
            text,
            error_class=error_class,
            error_message=error_message,
            queue=queue,
            now=now,
            profile=profile,
        )
    count = retry_count_in(stripped)
    at = timestamp(now, profile)
    times: dict[str, object] = (
        {"failed_at": at, "retry_count": 0}
        if count is None
        else {"retried_at": at, "retry_count": count + 1}
    )
    found = outline(stripped)
    odd = replacements(found.strings, found.others) if found else {}
    return with_more(
        stripped,
        {
            "queue": queue,
            "error_message": error_message,
            "error_class": error_class,
            **times,
            **odd,
        },
    )


def with_more(text: bytes, more: dict[str, object]) -> bytes:
    """An object's text with further members at its end."""
    added = json_text.dumps(more)[1:]
    body = text[:-1].rstrip(_BLANK)
    return body + (added if body == b"{" else b"," + added)


class Outline(NamedTuple):
    """The members of a text's outermost object, as far as they are known without parsing it.

    Attributes:
        strings: name → value for those that are plain strings, without escapes.
        others: name → first character of the value, for the others.
    """

    strings: dict[bytes, bytes]
    others: dict[bytes, bytes]


def outline(text: bytes) -> Outline | None:
    """The names of a text's outermost object, without its values; None if it is none.

    It takes a fraction of a microsecond for each string and bracket, and no memory.
    """
    stripped = text.strip(_BLANK)
    if not (stripped.startswith(b"{") and stripped.endswith(b"}")):
        return None
    strings: dict[bytes, bytes] = {}
    others: dict[bytes, bytes] = {}
    depth = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1
        elif depth == 1:
            value = _VALUE.match(text, token.end())
            if value is not None:
                name = token[0][1:-1]
                if value[1] is not None:
                    strings[name] = value[1]
                    others.pop(name, None)
                else:
                    others[name] = value[2]
                    strings.pop(name, None)
    return Outline(strings, others) if depth == 0 else None


def is_nested_deeper(text: bytes, levels: int) -> bool:
    """Whether its objects and lists are nested deeper than that, as far as brackets show."""
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign in b"[{":
            depth += 1
            if depth > levels:
                return True
        elif sign in b"]}":
            depth -= 1
    return False


def moved_text(text: bytes, now: float, profile: Profile) -> tuple[str, bytes]:
    """What is pushed in the place of a due job, by its bytes alone: (queue, text).

    As `client.prepare.prepare_moved` without middleware, but that a name may be written twice.

    Raises:
        PayloadError: it cannot be a job, as far as its outermost names show.
    """
    found = outline(text)
    if found is None:
        raise PayloadError("job: its text is no object")
    strings, others = found
    if not strings.get(b"class") or others.get(b"args") != b"[":
        raise PayloadError("job: it is not an object with the keys class and args, a list")
    if b"at" in strings or b"at" in others:
        raise PayloadError("at: a job that is due has none of its own; leave it out")
    for name in (b"queue", b"jid"):
        if name in others or strings.get(name) == b"":
            raise PayloadError(f"{name.decode()}: it is not a text with at least one character")
    try:
        queue = strings.get(b"queue", b"default").decode()
    except UnicodeDecodeError:
        raise PayloadError("queue: it is no UTF-8") from None
    more: dict[str, object] = {}
    if b"queue" not in strings:
        more["queue"] = queue
    if b"jid" not in strings:
        more["jid"] = new_jid()
    if b"retry" not in strings and b"retry" not in others:
        more["retry"] = True
    more["enqueued_at"] = timestamp(now, profile)
    return queue, with_more(text.strip(_BLANK), more)
