"""Texts that no client of ours writes, and what becomes of each: for tests through the engine.

A case is a text of a queue or a set and where it ends. Values are pieces of JSON text, so that also
what no JSON library would write can be written.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Fate = Literal["ran", "retry", "dead", "dropped", "waiting"]
"""ran: performed, and nothing is kept; dropped: failed, and nothing is kept; waiting: on its queue."""

HUGE_INTEGER = "9" * 400
DIGITS_5000 = "9" * 5000
BEYOND_DOUBLES = "1e400"
ODD = {
    "a text": '"3"',
    "a word": '"often"',
    "an empty text": '""',
    "null": "null",
    "true": "true",
    "false": "false",
    "below 0": "-1",
    "a fraction": "2.5",
    "out of range": BEYOND_DOUBLES,
    "1e300": "1e300",
    "huge": HUGE_INTEGER,
    "a list": "[1,[]]",
    "an object": '{"a":{"b":null}}',
}
"""Values of every type, for attributes that have one of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One text, where it ends, and a part of the reason that is kept with it, if one is."""

    name: str
    text: bytes
    fate: Fate
    says: str = ""


def text_of(name: str, wishes: str = "", **values: str | None) -> bytes:
    """A job's text; each value is JSON text and replaces or adds an attribute, None leaves it out."""
    attributes: dict[str, str | None] = {
        "class": '"CLASS"',
        "args": f"[{json.dumps(name)}{wishes}]",
        "jid": json.dumps(f"jid of {name}"),
        "queue": '"default"',
        "retry": "true",
        "created_at": "1.5",
        "enqueued_at": "1.5",
        "case": json.dumps(name),
    }
    # `args` and `class` are named with an underscore, as `class` cannot be a keyword.
    attributes |= {key.rstrip("_"): value for key, value in values.items()}
    pairs = (f'"{key}":{value}' for key, value in attributes.items() if value is not None)
    return f"{{{','.join(pairs)}}}".encode("utf-8", "surrogatepass")


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


UNREADABLE: Mapping[str, bytes] = {
    "no JSON": b"{no json",
    "nothing": b"",
    "a blank": b" ",
    "cut off": text_of("x")[:-9],
    "more behind it": text_of("x") + b"x",
    "two of them": text_of("x") * 2,
    "UTF-8 broken in args": text_of("x").replace(b"[", b'["\xff\xfe",'),
    "UTF-8 broken in a key": text_of("x").replace(b"created_at", b"cre\xc3ated"),
    "a surrogate in UTF-8": text_of("x", ',"\ud800"'),
    "a byte order mark": b"\xef\xbb\xbf" + text_of("x"),
    "UTF-16": text_of("x").decode().encode("utf-16"),
    "compressed": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "NUL between the quotes": text_of("x", ',"\0"'),
    "NaN": text_of("x", ",NaN"),
    "Infinity": text_of("x", ",-Infinity"),
    "a lone surrogate": text_of("x", ',"\\ud800"'),
    "a lone surrogate in the class": text_of("x", class_='"\\udc00"'),
    "surrogates the wrong way round": text_of("x", ',"\\udc00\\ud800"'),
    "101 levels": text_of("x", f",{nested(99)}"),
    "100,000 levels": text_of("x", f",{nested(100_000)}"),
    "an integer of 5,000 digits": text_of("x", f",{DIGITS_5000}"),
    "an array": b"[1,2]",
    "a text": b'"job"',
    "a number": b"5",
    "null": b"null",
    "true": b"true",
}
"""What Ruby cannot read, or would lose: the dead set keeps it as the argument of a job that Ruby reads."""


def raw_of(member: bytes) -> bytes | None:
    """The unreadable text that a member of the dead set keeps, byte by byte; None if it keeps none."""
    job = json.loads(member)
    if job.get("class") != "Unreadable":
        return None
    assert job["error_class"] and job["error_message"] and job["jid"] and job["queue"]
    assert job["retry"] == job["retry_count"] == 0 and job["failed_at"]
    exact: str | None = job.get("unreadable_base64")
    [shown] = job["args"]
    return shown.encode() if exact is None else base64.b64decode(exact)


_NO_LIST = "is not a list"
_UNKNOWN = "uninitialized constant"


def objects() -> list[Case]:
    """Jobs that parse, as they may lie in a queue; `CLASS` stands for the job's class."""
    return [
        *_arguments(),
        *_classes(),
        *_ignored(),
        *_about_retries(),
        Case(name="100 levels", text=text_of("100 levels", f",{nested(98)}"), fate="ran"),
        Case(name="10 MB", text=text_of("10 MB", f',"{"x" * 10_000_000}"'), fate="ran"),
        Case(
            name="10 MB that fail",
            text=text_of("10 MB that fail", f',"fail","{"x" * 10_000_000}"'),
            fate="retry",
            says="as it was told",
        ),
        Case(
            name="a key twice",
            text=text_of("a key twice").replace(b"{", b'{"class":"Nobody","args":{},', 1),
            fate="ran",
        ),
        Case(
            name="a key twice, the last one bad",
            text=text_of("a key twice, the last one bad")[:-1] + b',"args":{}}',
            fate="retry",
            says=_NO_LIST,
        ),
        Case(name="a batch", text=text_of("a batch", bid="[5]"), fate="dead", says="Sidekiq Pro"),
    ]


def _arguments() -> list[Case]:
    odd = {"none": None, "null": "null", "an object": "{}", "a text": '"x"', "a number": "7"}
    found = [
        Case(name=f"args {what}", text=text_of("x", args=value, case=json.dumps(f"args {what}")),
             fate="retry", says=_NO_LIST)
        for what, value in odd.items()
    ]  # fmt: skip
    too_few = text_of("too few args", args="[]")
    return [*found, Case(name="too few args", text=too_few, fate="retry", says="missing 1")]


def _classes() -> list[Case]:
    odd = {
        **ODD,
        "none": None,
        "with NUL": '"Thr\\u0000ead"',
        "of a module": '"os::system"',
        "dotted": '"os.system"',
        "1 MB": f'"{"A" * 1_000_000}"',
        "colons": f'"{"::" * 10_000}"',
    }
    return [
        Case(name=f"class {what}", text=text_of(f"class {what}", class_=value),
             fate="retry", says=_UNKNOWN)
        for what, value in odd.items()
    ]  # fmt: skip


def _ignored() -> list[Case]:
    """Attributes whose type is nobody's business: the job runs."""
    names = [
        "jid",
        "queue",
        "created_at",
        "enqueued_at",
        "failed_at",
        "retried_at",
        "error_message",
        "error_class",
        "at",
        "wrapped",
        "display_class",
        "tags",
        "log_level",
        "cattr",
        "locale",
        "profile",
        "unique_for",
        "error_backtrace",
        "retry_queue",
    ]
    return [
        Case(name=f"{key} {what}", text=text_of(f"{key} {what}", **{key: value}), fate="ran")
        for key in names
        for what, value in ({"none": None} | ODD).items()
    ]


def _about_retries() -> list[Case]:
    """Attributes that decide what becomes of a failure: here each job fails."""
    said = "as it was told"
    found = []
    for what, value in ODD.items():
        fates: dict[str, Fate] = {
            "retry_count": "dead" if what == "1e300" else "retry",
            "retry": {"false": "dropped", "below 0": "dead"}.get(what, "retry"),  # type: ignore[dict-item]
            "retry_for": "dead" if what == "below 0" else "retry",
            "failed_at": "retry",
            "backtrace": "retry",
            "dead": "retry",
            "retry_queue": "retry",
            "tags": "retry",
            "jid": "retry",
            "queue": "retry",
            "wrapped": "retry",
            "error_message": "retry",
        }
        for key, fate in fates.items():
            name = f"{key} {what}, failing"
            text = text_of(name, ',"fail"', **{key: value})
            found.append(
                Case(name=name, text=text, fate=fate, says="" if fate == "dropped" else said)
            )
    # A window instead of a count: nothing else ends the tries, however great the count.
    for what in ("1e300", "huge", "an object", "a word"):
        name = f"retry_for with a retry_count of {what}"
        text = text_of(
            name, ',"fail"', retry_for="1000000000", failed_at="4e9", retry_count=ODD[what]
        )
        found.append(Case(name=name, text=text, fate="retry", says=said))
        name = f"retry {what} and a retry_count of 1e300"
        text = text_of(name, ',"fail"', retry=HUGE_INTEGER, retry_count="1e300")
        found.append(Case(name=name, text=text, fate="retry", says=said))
    return found


def members() -> list[Case]:
    """Members of `retry` or `schedule` that parse: what the poller's push refuses is dead (§5.1)."""
    found = []
    for what, value in ODD.items():
        for key in ("queue", "class_", "args", "jid", "tags", "retry_for", "at"):
            name = f"{key.rstrip('_')} {what}, scheduled"
            fate, says = _pushed(key, what)
            found.append(Case(name=name, text=text_of(name, **{key: value}), fate=fate, says=says))
        for key in ("retry", "retry_count", "failed_at", "created_at", "enqueued_at", "wrapped"):
            name = f"{key} {what}, scheduled"
            found.append(Case(name=name, text=text_of(name, **{key: value}), fate="ran"))
    for key in ("queue", "jid", "retry", "created_at"):
        name = f"no {key}, scheduled"
        found.append(Case(name=name, text=text_of(name, **{key: None}), fate="ran"))
    for key in ("class_", "args"):
        name = f"no {key}, scheduled"
        text = text_of("x", **{key: None, "case": json.dumps(name)})
        found.append(Case(name=name, text=text, fate="dead", says="keys class and args"))
    return found


def _pushed(key: str, what: str) -> tuple[Fate, str]:
    """What becomes of a member with this value, and why."""
    text = {"a text", "a word"}
    number = {"below 0", "a fraction", "1e300"}
    if key == "class_":
        return ("retry", _UNKNOWN) if what in text else ("dead", "class: ")
    if key == "queue":
        # On a queue of this very name, which nobody serves here.
        return ("waiting", "") if what in text else ("dead", "queue: ")  # type: ignore[return-value]
    if key == "args":
        return ("retry", "") if what == "a list" else ("dead", "args: ")
    if key == "jid":
        return ("ran", "") if what in text else ("dead", "jid: ")
    if key == "tags":
        good = {"a list", "an empty text", "null", "false"}
        return ("ran", "") if what in good else ("dead", "tags: ")
    if key == "retry_for":
        return ("ran", "") if what in (number - {"1e300"}) | {"null"} else ("dead", "retry_for: ")
    return ("ran", "") if what in number else ("dead", "at: ")
