"""A schedule as Redis knows it: definition, state and cursor."""

import logging
from typing import NamedTuple

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.digests import sha1
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import ScheduleState
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import shown, text_of
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
        """Name of the schedule."""
        return self.definition.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRun:
    """A run outside of the times of a schedule.

    Attributes:
        at: instant under which the ledger has it, epoch seconds.
        jids: of its jobs; empty if middleware stopped them.
    """

    at: int
    jids: list[str]


class StoredSchedule(NamedTuple):
    """What Redis holds of one schedule, empty for what it has not; and its clock, epoch seconds."""

    definition: bytes
    state: bytes
    cursor: bytes
    now: float


def read_schedule(pool: RedisPool, keys: Keys, name: str) -> StoredSchedule:
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
    return StoredSchedule(definition or b"", state or b"", cursor or b"", server_time(now))


def list_schedules(pool: RedisPool, keys: Keys) -> list[KnownSchedule]:
    """All schedules by name; one that cannot be read is logged and left out.

    Raises:
        RedisUnavailable: nothing was read.
    """
    replies = pool.run(
        *(("HGETALL", key) for key in (keys.schedules, keys.schedule_states, keys.cursors))
    )
    definitions, states, cursors = map(pairs_of, replies)
    found = (
        known_of(
            text_of(name), StoredSchedule(text, states.get(name, b""), cursors.get(name, b""), 0.0)
        )
        for name, text in sorted(definitions.items())
    )
    return [each for each in found if each is not None]


def known_of(name: str, read: StoredSchedule) -> KnownSchedule | None:
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


def digest_of(text: bytes | None) -> str:
    """As scripts compare what was read; empty for nothing."""
    return sha1(text, usedforsecurity=False).hexdigest() if text else ""
