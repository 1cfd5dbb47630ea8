"""What takes the memory of the server: bytes by kind of key, ours and foreign ones, estimated within a second.

Keys with fixed names and queues are measured first; of the others as many as there is time for, in the order of SCAN,
which is as good as random. Redis estimates each value from some of its members. So a number is an estimate, and a huge
value of a foreign key may be missed.
"""

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.errors import RedisRefused
from kiqbridge.store.server_check import parse_info
from kiqbridge.wire.keys import TYPES
from kiqbridge.wire.names import bytes_of, text_of

MOST_S: Final = 1.0
MOST_STEPS: Final = 20
STEP: Final = 1000
MOST_GIVEN: Final = 1_500
"""Bounds of a reading: seconds, steps of SCAN and keys of each; a step is two round trips."""

MOST_FOREIGN: Final = 5
"""Kinds of foreign keys that are kept apart."""

MOST_CHARACTERS: Final = 200
"""Of a name: a foreign key may be named by megabytes."""

MOST_QUEUES: Final = 1000
SAMPLES: Final = 5
"""Members from which Redis estimates a value; all of them would block the server."""

FOREIGN: Final = "foreign"
OTHER: Final = "other keys of Kiqbridge"

_KINDS: Final = (
    ("queues", r"queues?$|queue:"),
    ("retries", r"retry$"),
    ("scheduled jobs", r"schedule$|kb:placed:"),
    ("dead jobs", r"dead$|kb:dead:"),
    ("jobs that have ended", r"kb:done\b"),
    ("jobs in flight", r"kb:(inflight|claims|suspects|reaping|alive|runs|recovered)\b"),
    ("cleared or exported jobs", r"kb:(cleared|exporting|restored)\b"),
    ("batches and chains", r"kb:flow:(batch|batches|chain|cancelled|ends)\b"),
    ("results", r"kb:result:"),
    ("guards of events", r"kb:guards\b"),
    ("locks and limiters", r"kb:(locks|replaced|flow:spans|limit)\b"),
    (
        "schedules and ledgers",
        r"kb:(schedules|ticks|attempts|ends|ledgers|manifests|declared|cursors|missed)\b",
    ),
    ("audit log", r"kb:audit\b"),
    (OTHER, r"kb:"),
    ("metrics and counters", r"stat:|[jh]\||\d{8}-marks$|deploylock-|.+-\d\d-\d\d:\d{1,2}$"),
    ("progress of iterable jobs", r"it-"),
    ("sidekiq-cron", r"cron_jobs?\b"),
    (
        "processes",
        r"(processes|process_cleanup|paused)$|.+:\d+:[0-9a-f]{12}(:work|:workers|-signals)?$",
    ),
)
"""Kind → how a key of it begins, without the prefix of the namespace; the first that fits counts."""

_PATTERNS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _KINDS)


@dataclass(slots=True, kw_only=True)
class KindOfKeys:
    """The keys of one kind.

    Attributes:
        kind: for people; of foreign keys `foreign` and what stands in front of their first colon.
        is_ours: whether they are Kiqbridge's or Sidekiq's, of this namespace.
        keys: how many there are.
        bytes: what they take.
        largest: how the name of the largest one begins that was looked at.
        largest_bytes: what that takes.
    """

    kind: str
    is_ours: bool
    keys: int = 0
    bytes: int = 0
    largest: str = ""
    largest_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryByKind:
    """The memory of a server by kind of key.

    Attributes:
        used: bytes that the server uses.
        kinds: of this database, those that take the most first.
        looked_at: keys that were measured.
        total: keys that there are in this database.
    """

    used: int
    kinds: Sequence[KindOfKeys]
    looked_at: int
    total: int

    @property
    def rest(self) -> int:
        """Bytes that none of these keys takes: of other databases, connections, buffers and Redis itself."""
        return max(0, self.used - sum(each.bytes for each in self.kinds))

    @property
    def is_estimate(self) -> bool:
        """Whether numbers of all keys were computed from a part of them."""
        return self.looked_at < self.total


def kind_of(name: str, prefix: str) -> tuple[str, bool]:
    """Which kind of key this is in a namespace with this prefix, and whether it is Kiqbridge's or Sidekiq's."""
    if name.startswith(prefix):
        own = name[len(prefix) :]
        for kind, pattern in _PATTERNS:
            if pattern.match(own):
                return kind, True
    head, colon, _ = name.partition(":")
    return (f"{FOREIGN} {head[:MOST_CHARACTERS]}:*" if colon else FOREIGN), False


def fetch_memory_by_kind(
    operator: Operator | None = None,
    *,
    most_s: float = MOST_S,
    scanned: tuple[Sequence[bytes], bool] | None = None,
) -> MemoryByKind:
    """Measure the memory of the keys of this database, in at most some 50 round trips.

    Args:
        operator: default `default_operator()`.
        most_s: seconds after which no further keys are looked at.
        scanned: names of keys that SCAN has just answered, and whether these are all: of them `MOST_GIVEN` are looked at.

    Raises:
        RedisUnavailable: nothing was read.
        RedisRefused: this user may not ask for it: INFO, SCAN or MEMORY USAGE is not allowed.
    """
    return _Measuring(operator or default_operator()).measure(most_s, scanned)


class _Measuring:
    def __init__(self, operator: Operator) -> None:
        self._pool = operator.pool
        self._keys = operator.keys
        self._seen: set[str] = set()
        self._may_ask_foreign: bool | None = None
        self._kinds: dict[str, KindOfKeys] = {}

    def measure(self, most_s: float, scanned: tuple[Sequence[bytes], bool] | None) -> MemoryByKind:
        end = time.monotonic() + most_s
        info, queues = self._pool.run(
            ("INFO",), ("SSCAN", self._keys.queues, 0, "COUNT", MOST_QUEUES)
        )
        known = parse_info(info)
        total = _keys_of(known, self._pool.database)
        first = self._named(map(text_of, queues[1]))
        given = () if scanned is None else self._new(scanned[0][:MOST_GIVEN])
        sizes = self._sizes([*first, *given])
        self._count({name: sizes.pop(name) for name in first if name in sizes}, 1.0)
        named, others = sum(each.keys for each in self._kinds.values()), sizes
        if scanned is not None and scanned[1] and len(scanned[0]) <= MOST_GIVEN:
            total = named + len(others)
        for found, is_last in self._pages() if scanned is None else ():
            others |= self._sizes(self._new(found))
            if is_last:
                total = named + len(others)
            if time.monotonic() > end:
                break
        factor = max(1.0, (total - named) / len(others)) if others else 1.0
        self._count(others, factor)
        return MemoryByKind(
            used=int(known.get("used_memory", 0)),
            kinds=_merged(self._kinds.values()),
            looked_at=named + len(others),
            total=max(total, named + len(others)),
        )

    def _new(self, found: Iterable[bytes]) -> list[str]:
        names = [name for name in map(text_of, found) if name not in self._seen]
        self._seen.update(names)
        return names

    def _pages(self) -> Iterator[tuple[Sequence[bytes], bool]]:
        """Names of keys, and whether these are the last ones."""
        cursor: bytes | int = 0
        for _ in range(MOST_STEPS):
            cursor, found = self._pool.call("SCAN", cursor, "COUNT", STEP)
            yield found, cursor == b"0"
            if cursor == b"0":
                return

    def _named(self, queues: Iterable[str]) -> list[str]:
        """Keys that may be large, and are not left to chance."""
        keys = self._keys
        names = [getattr(keys, attribute) for attribute in TYPES]
        names += [key(queue) for queue in queues for key in (keys.queue, keys.suspects)]
        self._seen.update(names)
        return names

    def _sizes(self, names: Sequence[str]) -> dict[str, int]:
        """Key → bytes, without keys that are gone; 0 for foreign ones for which this user may not ask."""
        ours = [name for name in names if kind_of(name, self._keys.prefix)[1]]
        foreign = [name for name in names if not kind_of(name, self._keys.prefix)[1]]
        if foreign and self._may_ask_foreign is None:
            try:
                self._ask(foreign[:1])
            except RedisRefused:  # each more would be a line in the server's ACL LOG
                self._may_ask_foreign = False
            else:
                self._may_ask_foreign = True
        asked = [*ours, *(foreign if self._may_ask_foreign else ())]
        sizes = dict(zip(asked, self._ask(asked), strict=True))
        found = {name: size for name, size in sizes.items() if size is not None}
        return found if self._may_ask_foreign else found | dict.fromkeys(foreign, 0)

    def _ask(self, names: Sequence[str]) -> list[int | None]:
        commands = (("MEMORY", "USAGE", bytes_of(name), "SAMPLES", SAMPLES) for name in names)
        return self._pool.run(*commands) if names else []

    def _count(self, sizes: Mapping[str, int], factor: float) -> None:
        """Add keys, each of which stands for `factor` keys."""
        by_kind: dict[tuple[str, bool], dict[str, int]] = {}
        for name, size in sizes.items():
            by_kind.setdefault(kind_of(name, self._keys.prefix), {})[name] = size
        for (kind, is_ours), found in by_kind.items():
            known = self._kinds.setdefault(kind, KindOfKeys(kind=kind, is_ours=is_ours))
            largest = max(found, key=found.__getitem__)
            most = found[largest]
            if most > known.largest_bytes:
                known.largest, known.largest_bytes = largest[:MOST_CHARACTERS], most
            known.keys += round(len(found) * factor)
            # The largest one stands for itself alone: a huge value must not be taken for many.
            known.bytes += most + round((sum(found.values()) - most) * factor)


def _merged(kinds: Iterable[KindOfKeys]) -> list[KindOfKeys]:
    """Those that take the most first; of the foreign ones the smaller ones together."""
    found = sorted(kinds, key=lambda each: (-each.bytes, each.kind))
    small = [each for each in found if not each.is_ours][MOST_FOREIGN:]
    if not small:
        return found
    others = KindOfKeys(
        kind=f"{FOREIGN}, {len(small):,} other kinds",
        is_ours=False,
        keys=sum(each.keys for each in small),
        bytes=sum(each.bytes for each in small),
        largest=small[0].largest,
        largest_bytes=small[0].largest_bytes,
    )
    kept = [each for each in found if each not in small]
    return sorted([*kept, others], key=lambda each: -each.bytes)


def _keys_of(info: Mapping[str, str], database: int) -> int:
    """How many keys a database has, by `keys=N,expires=…` of INFO keyspace."""
    count = info.get(f"db{database}", "").partition(",")[0].removeprefix("keys=")
    return int(count) if count.isdigit() else 0
