"""How values are shown: times, durations, counts, and texts that anybody may have written.

Each filter escapes what it is given. Characters that cannot be seen, or that change the order of others,
are shown as their code points; a long text is cut, and its length named.
"""

import json
import math
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from kiqbridge.api import Histogram, JobRecord
from kiqbridge.wire.amounts import is_ahead, size_text
from kiqbridge.wire.measures import BOUNDS_MS

ROW_CHARACTERS: Final = 160
"""Of a text in a row of a table."""
PAGE_CHARACTERS: Final = 20_000
"""Of a text that has the page for itself."""
NONE: Final = "\N{EN DASH}"
"""What stands where there is no value."""
_MAX_DEPTH: Final = 20
_SECOND, _MINUTE, _HOUR, _DAY = 1, 60, 3600, 86_400
_UNITS: Final = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))
_LOOK_EMPTY: Final = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that are drawn as nothing."""
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"}


def text(value: object, most: int = ROW_CHARACTERS, *, lines: bool = False) -> Markup:
    """A text of others, isolated from its surroundings, with what is invisible made visible.

    Args:
        value: the text; None is empty.
        most: characters that are shown.
        lines: keep its line breaks and tabs, for `<pre>`.
    """
    whole = "" if value is None else str(value)
    part = whole[:most]
    shown = (
        "".join(_visible(sign, lines=lines) for sign in part)
        if _has_hidden(part)
        else str(escape(part))
    )
    if len(whole) > most:
        cut = '<span class="cut" title="cut here">… {} characters in all</span>'
        shown += cut.format(count(len(whole)))  # a str: a Markup would escape what stands before
    return Markup(f"<bdi>{shown}</bdi>")  # noqa: S704 - each sign was escaped


def plain(value: object, most: int = ROW_CHARACTERS) -> str:
    """The same for attributes such as `title`: no markup, invisible characters as code points."""
    whole = "" if value is None else str(value)
    shown = whole[:most]
    if _has_hidden(shown):
        shown = "".join(_code(sign) if _is_hidden(sign) else sign for sign in shown)
    return shown + ("…" if len(whole) > most else "")


def count(value: float | None) -> str:
    """`1,234,567`."""
    return NONE if value is None else f"{value:,.0f}"


def noun(number: float, one: str, many: str = "") -> str:
    """The word that goes with a number: `job`, `jobs`; `many` where it is not `one` with an s."""
    return one if number == 1 else many or f"{one}s"


def size(value: float) -> str:
    """Bytes: `999 B`, `1.2 kB`, `3.4 MB`."""
    return size_text(float(value))


def duration(value: float | None) -> str:
    """Seconds: `0 s`, `12 ms`, `3.4 s`, `2 min 5 s`, `3 d 4 h`."""
    if value is None or value != value:  # noqa: PLR0124 - a NaN, as a text in Redis may give it
        return NONE
    seconds = abs(value)
    if seconds == 0:
        return "0 s"
    if seconds < _SECOND:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:  # noqa: PLR2004 - one digit more, where it matters
        return f"{seconds:.1f} s"
    whole = int(min(seconds, 1e12))
    parts: list[str] = []
    for length, unit in _UNITS:
        if whole >= length:
            parts.append(f"{whole // length:,} {unit}")
            whole %= length
        elif parts:
            break  # `1 d 5 s` would look more exact than it is
        if len(parts) == 2:  # noqa: PLR2004 - the two largest units
            break
    return " ".join(parts)


def waited(latency_s: float) -> str:
    """The same of a job that waits; `in 5 min` if its `enqueued_at` is in the future."""
    return ago(-latency_s) if is_ahead(latency_s) else duration(max(latency_s, 0.0))


def oldest(latency_s: float) -> str:
    """The same as a part of a sentence: `the oldest for 5 min`, `the oldest is enqueued in 5 min`."""
    return f"the oldest {'is enqueued' if is_ahead(latency_s) else 'for'} {waited(latency_s)}"


def milliseconds(value: float | None) -> str:
    """The same of milliseconds, in which workers measure."""
    return duration(None if value is None else value / 1000)


def percentile(took: Histogram, share: float) -> str:
    """Within how long this share of executions ended: `1.4 s`, and `≤ 44 s` where only the width of its bucket is known.

    Within the longest bucket that holds any, a value between its edges could be longer than each execution was.
    """
    found = took.percentile(share)
    if found is not None and found >= BOUNDS_MS[-1]:
        return f"≥ {milliseconds(found)}"
    longest = max((place for place, number in enumerate(took.counts) if number), default=0)
    if found is None or (longest and found <= BOUNDS_MS[longest - 1]):
        return milliseconds(found)
    return f"≤ {milliseconds(BOUNDS_MS[longest])}"


@pass_context
def time(context: Context, value: float | None, *, is_absolute: bool = False) -> Markup:
    """Epoch seconds as `5 min ago`; the moment itself, with its zone, is in the title."""
    found = _moment(value)
    if found is None:
        return escape(NONE if value is None else f"{value} (no date)")
    view = context["view"]
    words = ago(found.timestamp() - view.now), absolute(found, view.zone)
    label, title = reversed(words) if is_absolute else words
    stamp = found.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(stamp, title, label)


@pass_context
def due(context: Context, value: float | None) -> Markup:
    """The same of what comes next: what should have come already is `due`, and since when is in the title."""
    shown = time(context, value)
    late_s = context["view"].now - (value or math.inf)
    return (
        shown
        if late_s < _SECOND
        else Markup('<span title="{}">due</span>').format(shown.striptags())
    )


@pass_context
def moment(context: Context, value: float | None) -> Markup:
    """Epoch seconds as `2026-11-22 18:05:03 UTC`; how long ago is in the title."""
    return time(context, value, is_absolute=True)


def ago(seconds: float) -> str:
    """`now`, `5 s ago`, `in 3 h`; seconds before now are negative."""
    past = abs(seconds)
    if past < _SECOND:
        return "now"
    length = f"{past:.0f} s" if past < _MINUTE else duration(past // _MINUTE * _MINUTE)
    return f"in {length}" if seconds > 0 else f"{length} ago"


def absolute(when: datetime, zone: Any) -> str:
    """`2026-11-22 18:05:03 UTC`, in a zone."""
    local = when.astimezone(zone)
    return f"{local:%Y-%m-%d %H:%M:%S} {local.tzname()}"


ARGS_HIDDEN: Final = "hidden"
"""In the place of arguments, for a role that sees none."""


@pass_context
def args(context: Context, job: JobRecord, most: int = ROW_CHARACTERS) -> Markup:
    """The arguments of a job in a row: as JSON, separated by commas, secrets hidden from viewers."""
    redactor = context["view"].redactor
    if context["view"].hides_args:
        why = "Your role sees no arguments (web_shows_args_to)."
        return Markup('<span class="quiet" title="{}">{}</span>').format(why, ARGS_HIDDEN)
    if not job.is_readable:
        raw = job.text[: 2 * most].decode("utf-8", "backslashreplace")
        return text(raw if redactor is None else redactor.text(raw), most)
    shown = job.display_args if redactor is None else redactor.arguments(job.display_args)
    parts: list[str] = []
    room = most
    for each in shown:
        if room < 0:
            parts.append("…")
            break
        parts.append(compact(each, most))
        room -= len(parts[-1]) + 2
    return text(", ".join(parts), most)


@pass_context
def message(
    context: Context, value: object, most: int = ROW_CHARACTERS, *, lines: bool = False
) -> Markup:
    """An error's message, or another text in which secrets may stand: hidden from viewers."""
    redactor = context["view"].redactor
    whole = "" if value is None else str(value)
    return text(whole if redactor is None else redactor.text(whole), most, lines=lines)


@pass_context
def field(context: Context, name: object, value: object, most: int = ROW_CHARACTERS) -> Markup:
    """The value of a field of a payload, hidden from viewers if its name is that of a secret."""
    redactor = context["view"].redactor
    shown = value if redactor is None else redactor.value({name: value})[name]
    return text(compact(shown, most), most)


def compact(value: Any, most: int) -> str:
    """A value as JSON in a line, cut where it is long before it is written: 1 MB costs nothing."""
    return json.dumps(_pruned(value, most, 0), ensure_ascii=False, default=str)


def _pruned(value: Any, most: int, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[:most]}… {count(len(value))} characters"
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        items = list(value.items())[:most]
        return {plain(key): _pruned(each, most, depth + 1) for key, each in items}
    if isinstance(value, list | tuple):
        return [_pruned(each, most, depth + 1) for each in value[:most]]
    return value


def _visible(sign: str, *, lines: bool) -> str:
    if not _is_hidden(sign) or (lines and sign in "\n\t"):
        return str(escape(sign))
    return Markup('<span class="sign" title="{}">{}</span>').format(_name(sign), _code(sign))


def _has_hidden(text: str) -> bool:
    return not (text.isprintable() and _LOOK_EMPTY.isdisjoint(text))


def _is_hidden(sign: str) -> bool:
    if sign in _LOOK_EMPTY:
        return True
    return (
        not sign.isprintable() and unicodedata.category(sign) != "Zs"
    )  # spaces of other widths are seen


def _code(sign: str) -> str:
    if sign in _SHORT:
        return _SHORT[sign]
    number = ord(sign)
    if 0xDC80 <= number <= 0xDCFF:  # noqa: PLR2004 - how Python keeps a byte that is no UTF-8
        return f"\\x{number - 0xDC00:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004 - as in Python


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, 'control character')}"


def _moment(value: float | None) -> datetime | None:
    try:
        return None if value is None else datetime.fromtimestamp(float(value), UTC)
    except (OverflowError, ValueError, OSError):
        return None


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    each.__name__: each
    for each in (
        *(text, plain, count, noun, size, duration, waited, oldest, milliseconds),
        *(time, due, moment, percentile, args, message, field),
    )
}
