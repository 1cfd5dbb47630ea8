"""The scripts that change the schedules in Redis: save a definition, change a state, place occurrences.

Each compares with what was read before: who asks reads again if another process was faster.
"""

from collections.abc import Sequence
from typing import Final, Literal

from kiqbridge.client.client import Client
from kiqbridge.client.prepare import prepare
from kiqbridge.runtime.clock import client_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisLike, RedisPool
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import TICK
from kiqbridge.wire.tick_mark import TickMark

_SAVE: Final = scripts.load("save_schedule", __file__)
_HOLD: Final = scripts.load("hold_schedule", __file__)
_PLACE: Final = scripts.load("place", __file__)

HORIZON_S: Final = 17 * 86_400
"""How long a ledger and the missed ticks are remembered, as `Client.push_tick` does."""

KEPT_ENTRIES: Final = 100
"""Entries that the ledger of a dynamic schedule keeps of what is past: its cursor says what is decided."""

ANY: Final = "*"
"""Whatever the state or the cursor is."""

BACK: Final = "back"
"""The cursor goes back to before the first occurrence that is withdrawn."""

_OTHER: Final = b"other"
"""Answer of the scripts that replace what was read: another process was faster."""

CHANGED: Final = -1
WRONG_TYPE: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedJobs:
    """The jobs of one occurrence.

    Attributes:
        instant: epoch seconds.
        entry: for the ledger.
        jobs: score in `schedule` (epoch seconds) and text of each job.
    """

    instant: int
    entry: bytes
    jobs: Sequence[tuple[int, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What to place of one schedule.

    Attributes:
        name: of the schedule.
        definition: SHA-1 of its text as it was read, or `ANY`.
        state: SHA-1 of its state, empty for none, or `ANY`.
        cursor: as it was read, None for none, or `ANY`.
        new_cursor: None = leave it.
        missed: instants to note as missed.
        occurrences: to place.
    """

    name: str
    definition: str
    state: str
    cursor: int | str | None
    new_cursor: int | None
    missed: Sequence[int] = ()
    occurrences: Sequence[PlacedJobs] = ()


def jobs_of_occurrence(
    client: Client, definition: ScheduleDefinition, instant: int, *, due: int, by: str, now: float
) -> PlacedJobs:
    """The jobs of one occurrence, prepared as a push would; those that middleware stops are missing.

    Args:
        client: whose middleware is called.
        definition: of the schedule.
        instant: of the occurrence, epoch seconds.
        due: when its jobs run, epoch seconds.
        by: who places them, for the ledger.
        now: epoch seconds.

    Raises:
        PayloadError: that is no job.
    """
    mark = TickMark(
        schedule=definition.name,
        at=instant,
        overlap=definition.overlap,
        max_age_s=definition.max_age_s,
    ).to_attribute()
    made = [
        prepare(
            {**item, TICK: mark, "at": due}, client_now(), client.middleware, client.wire_profile
        )
        for item in definition.jobs
    ]
    prepared = [job for job in made if job is not None]
    jids = [job.jid for job in prepared]
    entry = json_text.dumps({"at": instant, "jids": jids, "by": by, "enqueued_at": round(now, 3)})
    return PlacedJobs(
        instant=instant, entry=entry, jobs=[(due, client.writer.text(job, 0.0)) for job in prepared]
    )


def save(
    pool: RedisPool,
    keys: Keys,
    name: str,
    *,
    known: bytes,
    text: bytes,
    cursor: int | Literal["back"],
    withdraw_after: int | None,
) -> bool:
    """Write a definition in the place of `known` (empty: there is none), and withdraw what it replaces.

    Args:
        pool: where to write.
        keys: the namespace.
        name: of the schedule.
        known, text: definitions as `kb:schedules` holds them.
        cursor: instant up to which all is decided then, or `BACK`.
        withdraw_after: occurrences placed ahead after this instant are withdrawn, None = all.

    Returns:
        False: what is there is not `known`, read again.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    answer = pool.script(
        _SAVE,
        [
            *(keys.schedules, keys.cursors, keys.placed(name), keys.schedule),
            *(keys.ticks(name), keys.schedule_changes),
        ],
        [name, known, text, cursor, "-inf" if withdraw_after is None else str(withdraw_after)],
    )
    return bool(answer[0] != _OTHER)


def hold(
    pool: RedisPool,
    keys: Keys,
    name: str,
    *,
    known: bytes,
    state: bytes,
    cursor: int | Literal["", "back"] = "",
    withdraw: Sequence[int] | Literal["all"] = (),
    verb: Literal["keep", "delete", "remove"] = "keep",
) -> bool:
    """Write a state in the place of `known` (empty: none), withdraw occurrences; or delete the schedule.

    `remove` deletes its definition only: one of the same name counts on from its cursor.

    Returns:
        False: what is there is not `known`, read again.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    answer = pool.script(
        _HOLD,
        [
            *(keys.schedules, keys.schedule_states, keys.cursors, keys.placed(name)),
            *(keys.schedule, keys.ticks(name), keys.schedule_changes),
        ],
        [
            *(name, verb, known, state, cursor),
            *([withdraw] if isinstance(withdraw, str) else map(str, withdraw)),
        ],
    )
    return bool(answer[0] != _OTHER)


def place(connection: RedisLike, keys: Keys, now: float, batch: Sequence[Placement]) -> list[int]:
    """Place occurrences, each once; for each schedule how many were, `CHANGED` or `WRONG_TYPE`.

    Raises:
        RedisUnavailable, RedisRefused: repeat it.
    """
    names = [
        *(keys.schedules, keys.schedule_states, keys.cursors, keys.schedule),
        *(keys.ledgers, keys.missed),
    ]
    args: list[str | bytes] = [str(int(now)), str(HORIZON_S), str(KEPT_ENTRIES)]
    for each in batch:
        names += [keys.ticks(each.name), keys.placed(each.name)]
        names += [keys.attempts(each.name), keys.ends(each.name)]
        args += [each.name, each.definition, each.state, _text(each.cursor), _text(each.new_cursor)]
        args += [str(len(each.missed)), *map(str, each.missed), str(len(each.occurrences))]
        for occurrence in each.occurrences:
            args += [str(occurrence.instant), occurrence.entry, str(len(occurrence.jobs))]
            for score, text in occurrence.jobs:
                args += [str(score), text]
    return [int(count) for count in connection.script(_PLACE, names, args)]


def _text(cursor: int | str | None) -> str:
    return "" if cursor is None else str(cursor)
