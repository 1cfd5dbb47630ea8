"""Pausing queues and classes of jobs: who did it, why, and until when.

A paused queue is also a member of Sidekiq Pro's set `paused`, which claims respect and Ruby's
workers with Pro as well; so a queue that Ruby paused is listed here without a reason. A paused
class is ours alone: its jobs are put off, see `gate`. Each write is one script.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal, TypedDict, Unpack, cast

from kiqbridge.errors import PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import check_json, epoch_seconds, read_timestamp

Kind = Literal["queue", "class"]

TOO_EARLY = -1

_PAUSE = scripts.load("pause")
_UNPAUSE = scripts.load("unpause")
_END_PAUSE = scripts.load("end_pause")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A pause in force; times in epoch seconds on the clock of Redis.

    Attributes:
        kind: whether `name` is a queue's or a class'.
        reason, by: what was given; empty when nothing was, or when another program paused the queue.
        at: since when, None when another program paused the queue.
        until: when it ends by itself, None = never.
    """

    kind: Kind
    name: str
    reason: str = ""
    by: str = ""
    at: float | None = None
    until: float | None = None

    def entry(self) -> bytes:
        """As it is kept in `kb:paused`."""
        return json_text.dumps(
            {"reason": self.reason, "by": self.by, "at": self.at, "until": self.until}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A pause as it was read: to be ended only if it is still the same."""

    field: bytes
    text: bytes
    pause: Pause


class PauseOptions(TypedDict, total=False):
    """What a pause is given: why, and who, for those who look at it; its end.

    Attributes:
        for_s: seconds after which it ends by itself.
        until: epoch seconds or an aware datetime at which it ends by itself.
    """

    reason: str
    by: str
    for_s: float | None
    until: float | datetime | None


def pause(
    pool: RedisPool, keys: Keys, kind: Kind, name: str, **options: Unpack[PauseOptions]
) -> Pause:
    """Pause a queue or a class, or change its pause; returns what is in force now.

    Args:
        pool: where to write.
        keys: the namespace.
        kind: what to pause.
        name: of a queue, or of a class as it stands on the wire; a Rails job's own class.
        options: see `PauseOptions`.

    Raises:
        PayloadError: a wrong value; nothing was written.
        RedisUnavailable: repeat it.
    """
    _check_name(kind, name)
    made = Pause(kind=kind, name=name, **pause_terms(server_time(pool.call("TIME")), **options))
    pool.script(
        _PAUSE, [keys.pauses, keys.paused], [_field(kind, name), made.entry(), _queue(kind, name)]
    )
    return made


def unpause(pool: RedisPool, keys: Keys, kind: Kind, name: str) -> bool:
    """End a pause, also one that another user made; whether there was one.

    Raises:
        PayloadError: that is no name.
        RedisUnavailable: repeat it.
    """
    _check_name(kind, name)
    ended = pool.script(
        _UNPAUSE, [keys.pauses, keys.paused], [_field(kind, name), _queue(kind, name)]
    )
    return bool(ended)


def end_pause(connection: RedisConnection, keys: Keys, entry: Entry) -> int:
    """End a pause that is over, or whose queue is not in `paused` any more, if it is still the same.

    Returns:
        1 when it ended here, 0 when it was changed or ended by another process, `TOO_EARLY` when by the
        clock of Redis its end is still to come.

    Raises:
        RedisUnavailable: repeat it.
    """
    ended = entry.pause
    outcome = connection.script(
        _END_PAUSE,
        [keys.pauses, keys.paused],
        [
            entry.field,
            _queue(ended.kind, ended.name),
            entry.text,
            "" if ended.until is None else repr(ended.until),
        ],
    )
    return int(outcome)


def list_pauses(pool: RedisPool, keys: Keys) -> list[Pause]:
    """What is paused now: queues, those that Ruby paused included, then classes, by name.

    Raises:
        RedisUnavailable: nothing was read.
    """
    pairs, members, time = pool.run(("HGETALL", keys.pauses), ("SMEMBERS", keys.paused), ("TIME",))
    fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
    return pauses_of(fields, members, server_time(time))


def pauses_of(fields: Mapping[bytes, bytes], members: Iterable[bytes], now: float) -> list[Pause]:
    """The pauses at `now` (epoch seconds), from our fields and the names of the paused queues."""
    known = {(entry.pause.kind, entry.pause.name): entry.pause for entry in read_entries(fields)}
    names = [text_of(member) for member in members]
    queues = [known.get(("queue", name)) or Pause(kind="queue", name=name) for name in names]
    classes = [
        each
        for each in known.values()
        if each.kind == "class" and (each.until is None or each.until > now)
    ]
    by_name = attrgetter("name")
    return [*sorted(queues, key=by_name), *sorted(classes, key=by_name)]


def read_entries(fields: Mapping[bytes, bytes]) -> Iterable[Entry]:
    """The content of `kb:paused`; a text that is not ours pauses as well, without an end."""
    for field, text in fields.items():
        kind, separator, name = text_of(field).partition(":")
        if separator and kind in ("queue", "class"):
            parsed = json_text.read_object(text)
            yield Entry(
                field=field,
                text=text,
                pause=Pause(
                    kind=cast("Kind", kind),
                    name=name,
                    reason=_text(parsed.get("reason")),
                    by=_text(parsed.get("by")),
                    at=read_timestamp(parsed.get("at")),
                    until=read_timestamp(parsed.get("until")),
                ),
            )


def server_time(reply: list[bytes]) -> float:
    """Epoch seconds out of the reply to TIME."""
    return int(reply[0]) + int(reply[1]) / 1_000_000


def _field(kind: Kind, name: str) -> str:
    return f"{kind}:{name}"


def _queue(kind: Kind, name: str) -> str:
    return name if kind == "queue" else ""


def _check_name(kind: Kind, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise PayloadError(
            f"{kind}: {shorten(name)} is not the name of a {kind}; write a text with at least one character"
        )
    check_json(name, kind)


def pause_terms(
    now: float, *, reason: str = "", by: str = "", for_s: object = None, until: object = None
) -> dict[str, Any]:
    """Reason, author, begin and end of a pause that begins `now`, by the clock of Redis (epoch seconds).

    Raises:
        PayloadError: a value cannot be used, the end is over, or is given twice.
    """
    check_json(reason, "reason")
    check_json(by, "by")
    if for_s is not None and until is not None:
        raise PayloadError("for_s, until: give one of them, how long the pause lasts or its end")
    seconds = None if for_s is None else float(epoch_seconds(for_s, field="for_s"))
    if seconds is not None and seconds <= 0:
        raise PayloadError(f"for_s: {shorten(for_s)} is not a number of seconds above 0")
    end = None if until is None else float(epoch_seconds(until, field="until"))
    if end is not None and end <= now:
        raise PayloadError(
            f"until: {shorten(until)} is over; the clock of Redis shows {now:.0f} (epoch seconds)"
        )
    return {
        "reason": reason,
        "by": by,
        "at": now,
        "until": end if seconds is None else now + seconds,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
