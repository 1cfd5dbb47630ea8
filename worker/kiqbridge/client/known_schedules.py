"""Reading schedules: definition, state and cursor of each."""

import difflib
import logging
from collections.abc import Sequence
from typing import NamedTuple

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown, text_of
from kiqbridge.wire.payload import shorten
from kiqbridge.wire.tick_mark import MAX_NAME

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchedule:
    """A schedule as Redis knows it.

    Attributes:
        definition: what it is.
        state: whether it is paused, what is skipped.
        cursor: of a dynamic schedule, instant (epoch seconds) up to which all is decided; else None.
    """

    definition: ScheduleDefinition
    state: ScheduleState
    cursor: int | None

    @property
    def name(self) -> str:
        """Of the schedule."""
        return self.definition.name


class Read(NamedTuple):
    """What Redis holds of one schedule, empty for what it has not; and its clock, epoch seconds."""

    definition: bytes
    state: bytes
    cursor: bytes
    now: float


def read_schedule(pool: RedisPool, keys: Keys, name: str) -> Read:
    """What Redis holds of a schedule.

    Raises:
        PayloadError: that is no name.
        RedisUnavailable: nothing was read.
    """
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        raise PayloadError(f"schedule: {shorten(name)} is not the name of a schedule")
    definition, state, cursor, now = pool.run(
        ("HGET", keys.schedules, name),
        ("HGET", keys.schedule_states, name),
        ("HGET", keys.cursors, name),
        ("TIME",),
    )
    return Read(definition or b"", state or b"", cursor or b"", server_time(now))


def list_schedules(pool: RedisPool, keys: Keys) -> list[KnownSchedule]:
    """All schedules by name; one that cannot be read is logged and left out.

    Raises:
        RedisUnavailable: nothing was read.
    """
    replies = pool.run(
        ("HGETALL", keys.schedules),
        ("HGETALL", keys.schedule_states),
        ("HGETALL", keys.cursors),
    )
    definitions, states, cursors = map(pairs_of, replies)
    found = [
        known_of(text_of(name), Read(text, states.get(name, b""), cursors.get(name, b""), 0.0))
        for name, text in sorted(definitions.items())
    ]
    return [each for each in found if each is not None]


def require_known(pool: RedisPool, keys: Keys, name: str, read: Read) -> KnownSchedule:
    """The schedule out of what was read.

    Raises:
        PayloadError: there is none; the message names near ones.
    """
    known = known_of(name, read)
    if known is None:
        near = near_names(pool, keys, name)
        hint = f"did you mean {' or '.join(near)}?" if near else "kiqbridge schedule list has all"
        raise PayloadError(f"schedule {name!r} is not known; {hint}")
    return known


def near_names(pool: RedisPool, keys: Keys, name: str) -> Sequence[str]:
    """Names of schedules that resemble this one.

    Raises:
        RedisUnavailable: nothing was read.
    """
    names = [each.name for each in list_schedules(pool, keys)]
    return difflib.get_close_matches(name, names, n=3)


def known_of(name: str, read: Read) -> KnownSchedule | None:
    """The schedule out of what was read; None: there is none, or it cannot be read."""
    definition = parsed(name, read.definition)
    if definition is None:
        return None
    return KnownSchedule(
        definition=definition,
        state=ScheduleState.from_text(read.state),
        cursor=int(read.cursor) if read.cursor else None,
    )


def parsed(name: str, text: bytes, *, with_expression: bool = False) -> ScheduleDefinition | None:
    """The definition out of its text; None: there is none, or it cannot be read, which is logged, and may be replaced.

    `with_expression`: the expression must be one that can be read, too.
    """
    try:
        found = ScheduleDefinition.from_document(name, json_text.loads(text)) if text else None
        _ = found and with_expression and found.when
    except (ConfigError, ValueError) as error:
        logger.warning(
            "schedule %s cannot be read (%s): it never fires; save it again, publish it, or delete it",
            shown(name),
            error,
        )
        return None
    return found
