"""The leader's search for jobs that are gone although their end was not noted.

The end of a job stands in the ledger of its schedule, and features act on it, such as on a lock or a batch (engine/outbox).
It is not written when Ruby performed the job, or when the job or its key was deleted by other means. So:

1. Once a minute features say what is due for a look, such as locks that were taken ten minutes ago. Once an hour the
   ledgers, and what features keep, are gone through for jobs older than ten minutes that have not ended: the last
   `MOST_ENTRIES` occurrences of each schedule, and batches that have not succeeded. Up to `MOST_OF_ROUND` jobs go into one
   search. Without any, that is all: one command a minute.
2. Their jobs are sought where jobs are: schedule, retry, queues, suspects, in-flight lists, ends that wait in the
   outbox, and what processes say that they run. In the direction in which jobs move, and in small parts, a bounded
   number a second; the search ends when all are found.
3. A job is gone that was found in none of three such searches,
   each begun a minute after the one before: a job may move while it is sought. The longer a search takes, the more a
   job may move meanwhile, and the more searches it takes. For ledger and feature it ends as `gone`, since it is unknown
   know whether Ruby has performed it.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kiqbridge import seams
from kiqbridge.engine.parts import EngineParts
from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.features.gone_jobs.places import Part, places
from kiqbridge.runtime import threads
from kiqbridge.store.ledger import read_ledger
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import JobEnd

logger = logging.getLogger(__name__)

T = TypeVar("T")

SEARCH_S: Final = 60.0
"""Seconds from the end of a search to the next one."""

AGAIN_S: Final = 3600.0
"""Seconds from one round through ledgers and features to the next, and until what was found is looked at again."""

LOOK_S: Final = 600.0
"""Seconds for which a job is not sought after it was pushed."""

MISSES: Final = 3
"""Searches that must not have found a job before it counts as gone."""

SLOW_S: Final = 10.0
"""One more search is needed for each so many seconds that a search takes, up to `MOST_MISSES`."""

MOST_MISSES: Final = 12

MOST_OF_ROUND: Final = 10_000
"""Jobs of schedules and features that one search is about, besides those that the one before has not found."""

MOST_ENTRIES: Final = 1_000
"""Occurrences of a schedule, the newest, whose jobs are sought."""

PARTS_PER_TURN: Final = 40


class Tick(NamedTuple):
    """A job of an occurrence of a schedule that has not ended."""

    schedule: str
    at: int
    jid: str


class Sought(Protocol):
    """A job whose end somebody waits for; two of the same are equal."""

    @property
    def jid(self) -> str:
        """Of the job."""


class OpenJobs(Protocol):
    """What a feature keeps of jobs that have not ended: the module of its seam `open_jobs`.

    Attributes:
        KIND: the class of what it seeks.
    """

    KIND: type[Any]

    def due(self, connection: RedisConnection, keys: Keys) -> Sequence[Sought]:
        """What each search is about, until it is not due any more."""

    def pages(self, connection: RedisConnection, keys: Keys) -> Iterator[Sequence[Sought]]:
        """Jobs older than `LOOK_S` that have not ended, page by page."""

    def found(self, connection: RedisConnection, keys: Keys, kept: Sequence[Any]) -> None:
        """The jobs of these were found."""

    def end(self, connection: RedisConnection, keys: Keys, gone: Sequence[Any]) -> int:
        """These are gone: note that; how many have ended by it."""


class OpenTicks:
    """Jobs that have no end in the ledgers of their schedules."""

    KIND = Tick

    def due(self, *_: object) -> Sequence[Tick]:
        """None: the ledgers are gone through once an hour."""
        return ()

    def pages(self, connection: RedisConnection, keys: Keys) -> Iterator[list[Tick]]:
        """A schedule at a time."""
        for name in map(text_of, connection.call("ZRANGE", keys.ledgers, 0, -1)):
            yield from unless_refused(_open_of(connection, keys, name))

    def found(self, *_: object) -> None:
        """Nothing is noted."""

    def end(self, connection: RedisConnection, keys: Keys, gone: Sequence[Tick]) -> int:
        """They end as gone, those without an end."""
        return sum(_end_tick(connection, keys, tick) for tick in gone)


def _open_of(connection: RedisConnection, keys: Keys, schedule: str) -> Iterator[list[Tick]]:
    until = time.time() - LOOK_S
    entries = read_ledger(connection, keys, schedule, most=MOST_ENTRIES, until=until)
    yield [
        Tick(schedule, entry.at, jid)
        for entry in entries
        for jid in entry.jids
        if entry.end_of(jid) is None
    ]


def _end_tick(connection: RedisConnection, keys: Keys, tick: Tick) -> bool:
    ends = keys.ends(tick.schedule)
    known = connection.call("ZRANGE", ends, tick.at, tick.at, "BYSCORE")
    if any(JobEnd.from_text(text).jid == tick.jid for text in known):
        return False
    end = JobEnd(at=tick.at, jid=tick.jid, outcome="gone", ended_at=time.time())
    connection.call("ZADD", ends, tick.at, end.to_text())
    return True


class GoneJobs:
    """Looks for gone jobs while this process leads.

    Args:
        keys: the namespace.
        monotonic: seconds, for the intervals.

    Attributes:
        ended: how many jobs it has ended for those who wait for their end.
    """

    def __init__(self, keys: Keys, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.ended = 0
        self._keys = keys
        self._kinds: Sequence[OpenJobs] = [*seams.functions("open_jobs"), OpenTicks()]
        self._monotonic = monotonic
        self._search_at = 0.0
        self._round_at = 0.0
        self._begun_at = 0.0
        self._round: Iterator[Sequence[Sought]] | None = None
        self._due: Sequence[Sought] = ()
        self._missed: dict[Sought, int] = {}
        self._search: Iterator[Part] | None = None
        self._sought: set[str] = set()

    def __repr__(self) -> str:
        return f"GoneJobs({self.ended} ended)"

    def look(self, connection: RedisConnection) -> None:
        """Do a part of the search that is going on, or begin one if it is time.

        Raises:
            RedisUnavailable, RedisRefused: search and round begin anew by a later call.
        """
        if self._search is None and self._monotonic() < self._search_at:
            return
        try:
            if self._search is None:
                missed = [each for each in self._missed if each not in self._due]
                self._due = [
                    due for kind in self._kinds for due in kind.due(connection, self._keys)
                ]
                sought = [*self._due, *missed, *self._more_of_round(connection)]
                self._begun_at = self._monotonic()
                self._missed = {each: self._missed.get(each, 0) for each in sought}
                self._sought = {each.jid for each in sought}
                self._search = places(connection, self._keys)
            self._go_on(connection)
        except KiqbridgeError:
            self._round, self._round_at = None, 0.0
            self._end()
            raise

    def _more_of_round(self, connection: RedisConnection) -> Sequence[Sought]:
        """The next jobs of the round through ledgers and features, if one is going on or due."""
        found: list[Sought] = []
        if self._round is None:
            if self._monotonic() < self._round_at:
                return found
            self._round_at = self._monotonic() + AGAIN_S
            self._round = chain(*(each.pages(connection, self._keys) for each in self._kinds))
        for _ in range(PARTS_PER_TURN):
            threads.beat()
            page = next(self._round, None)
            if page is None:
                self._round = None
                break
            found += page
            if len(found) >= MOST_OF_ROUND:
                break
        return found

    def _go_on(self, connection: RedisConnection) -> None:
        search = self._search
        assert search is not None  # noqa: S101 - `look` has begun it
        for _ in range(PARTS_PER_TURN):
            threads.beat()
            part = next(search, None) if self._sought else None
            if part is None:
                self._conclude(connection)
                self._end()
                return
            self._sought -= part.jids

    def _conclude(self, connection: RedisConnection) -> None:
        missed = {each: n + 1 for each, n in self._missed.items() if each.jid in self._sought}
        took_s = self._monotonic() - self._begun_at
        needed = min(MISSES + int(took_s / SLOW_S), MOST_MISSES)
        for kind in self._kinds:
            its = [each for each in self._missed if isinstance(each, kind.KIND)]
            if kept := [each for each in its if each not in missed]:
                kind.found(connection, self._keys, kept)
            if gone := [each for each in its if missed.get(each, 0) >= needed]:
                self.ended += kind.end(connection, self._keys, gone)
        self._missed = {each: times for each, times in missed.items() if times < needed}

    def _end(self) -> None:
        self._search = None
        self._search_at = self._monotonic() + SEARCH_S


def look_for(parts: EngineParts) -> Callable[[RedisConnection], object]:
    """The chore of the leader."""
    return GoneJobs(parts.keys).look


def unless_refused(pages: Iterator[list[T]]) -> Iterator[list[T]]:
    """The pages up to the first that Redis refuses: a key of another type must not keep other keys from being read."""
    try:
        yield from pages
    except RedisRefused as error:
        logger.debug("jobs that are gone: %s", error)
