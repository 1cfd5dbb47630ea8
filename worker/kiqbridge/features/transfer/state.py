"""What jobs need besides their text, on its way with them: batches, chains, locks, results, progress, spans.

A record of it is read from its server by `StateSource`, and put in by `put_records`; a second time changes nothing.

A batch may be on both servers for a while. Each counts the ends that come to it, and of two states of a member the
later one stays, in whichever order records arrive. A member that `--take` has moved is `m` where it was (away); one
that was not moved yet is `e` where the others are (expected). Both are pending, and no search finds them. While members
are away nothing is announced there.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from kiqbridge.features.batches.steps import CALLBACK_OF, KEEP_DONE_S, KEEP_OPEN_S
from kiqbridge.features.transfer.form import Chunk, Record, State
from kiqbridge.features.unique.freeing import Lock, looked_at
from kiqbridge.features.unique.mark import LOOK_S, lock_of
from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect, packed
from kiqbridge.store.key_scan import scan, scan_keys
from kiqbridge.store.pauses import server_time
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import bytes_of, text_of

MOST_RECORDS: Final = 250
"""Of a line, and of the script that puts it in."""

PAGE: Final = 500
"""Members of a batch in one record, about."""

_COUNTS: Final = (b"total", b"pending", b"failed", b"away")
"""Fields of a batch that follow from its members."""

OF_ONE_JOB: Final = ("lock", "replaced", "progress")
"""Kinds that are put in together with their job only, which may have ended by a second time."""

_JID: Final = re.compile(rb'"jid"\s*:\s*"([^"\\]+)"')
_MARK: Final = scripts.load("mark_away", __file__)
_FORGET: Final = scripts.load("forget_batch", __file__)
_PUT: Final = scripts.load("restore_state", __file__)


@dataclass(slots=True)
class Needs:
    """What some jobs say that they need.

    Attributes:
        jids: of all of them.
        members: batch → its members among them.
        batches: those, and the ones that callbacks are about.
        chains: ids.
        locks: jid → name of the lock that it may own.
        results: jids of jobs whose result is kept.
    """

    jids: set[str] = field(default_factory=set)
    members: dict[str, list[str]] = field(default_factory=dict)
    batches: dict[str, None] = field(default_factory=dict)
    chains: dict[str, None] = field(default_factory=dict)
    locks: dict[str, str] = field(default_factory=dict)
    results: list[str] = field(default_factory=list)


def needs_of(texts: Iterable[bytes]) -> Needs:
    """Read what jobs, and ends of jobs, say; what cannot be read needs nothing."""
    needs = Needs()
    for text in texts:
        needs.jids.update(map(text_of, _JID.findall(text)))
        if b'"flow' not in text:
            continue
        try:
            payload = json_text.loads(text)
        except (json_text.MalformedJSON, RecursionError):
            continue
        if isinstance(payload, dict):
            _add_needs(needs, payload)
    return needs


def _add_needs(needs: Needs, payload: Mapping[str, Any]) -> None:
    jid, flow = payload.get("jid"), flow_of(payload) or {}
    steps = [_mapping(flow.get(name)) for name in ("next", "launch")]
    about = [_mapping(payload.get(CALLBACK_OF)), flow, *steps]
    needs.batches |= dict.fromkeys(each["bid"] for each in about if _is_name(each.get("bid")))
    needs.chains |= dict.fromkeys(each["id"] for each in steps if _is_name(each.get("id")))
    if not _is_name(jid):
        return
    if _is_name(flow.get("bid")):
        needs.members.setdefault(flow["bid"], []).append(jid)
    if (lock := lock_of(payload)) is not None:
        needs.locks[jid] = lock.name
    if "result_ttl_s" in flow:
        needs.results.append(jid)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_name(value: object) -> TypeGuard[str]:
    """Whether it can be a part of the name of a key: a text without lone surrogates."""
    return isinstance(value, str) and bool(value) and value.isprintable()


def lines_of(records: Iterable[Record]) -> Iterator[State]:
    """Records as they go into lines."""
    line: list[Record] = []
    for record in records:
        line.append(record)
        if len(line) == MOST_RECORDS or len(record.fields) >= PAGE:
            yield State(line)
            line = []
    if line:
        yield State(line)


@dataclass(slots=True, kw_only=True)
class StateSource:
    """Where an export reads what its jobs need.

    Attributes:
        pool, keys: where.
        takes: jobs are moved, and what belongs to them alone is removed here.
        left: batch → how many of its jobs are here, of those that `--take` leaves.
    """

    pool: RedisPool
    keys: Keys
    takes: bool
    left: dict[str, int] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _final: dict[str, None] = field(default_factory=dict)

    def move(self, chunk: Chunk) -> Needs:
        """Note that the jobs of a chunk leave this server, before anything of their batches is read."""
        needs = needs_of(chunk.members)
        if self.takes:
            for bid, members in needs.members.items():
                self._mark(bid, members)
        return needs

    def move_back(self, chunk: Chunk) -> None:
        """Note that the jobs of a chunk have come back to where they were."""
        for bid, members in needs_of(chunk.members).members.items():
            left = mark_away(self.pool, self.keys, bid, members, back=True)
            child = bid
            while not left and (parent := self._parent(child)):
                left = mark_away(self.pool, self.keys, parent, [f"b:{child}"], back=True)
                child = parent

    def _mark(self, bid: str, members: Sequence[str]) -> None:
        is_there = mark_away(self.pool, self.keys, bid, members)
        parent = self._parent(bid) if is_there else ""
        if parent and bid not in self._seen:  # which is written with its first member
            self._mark(parent, [f"b:{bid}"])

    def _parent(self, bid: str) -> str:
        return text_of(self.pool.call("HGET", self.keys.batch(bid), "parent") or b"")

    def needed(self, needs: Needs) -> Iterator[State]:
        """What is to be there before these jobs are."""
        return lines_of(self._needed(needs))

    def _needed(self, needs: Needs) -> Iterator[Record]:
        keys = self.keys
        for each in needs.batches:
            bid = each
            while bid and bid not in self._seen:
                self._seen.add(bid)
                yield from self._batch(bid)
                bid = self._parent(bid)
        yield from self._kept("chain", keys.chain, needs.chains)
        yield from self._kept("result", keys.result, needs.results)
        yield from self._kept("progress", keys.iteration, needs.jids)
        if needs.locks:
            owners = self.pool.call("HMGET", keys.locks, *needs.locks.values())
            replaced = self.pool.call("ZMSCORE", keys.replaced, *needs.locks)
            for (jid, name), owner, score in zip(
                needs.locks.items(), owners, replaced, strict=True
            ):
                until, _, its_jid = (owner or b"").partition(b" ")
                if its_jid == bytes_of(jid):
                    yield Record("lock", name, float(until), [its_jid])
                if score is not None:
                    yield Record("replaced", jid, float(score))

    def drop(self, needs: Needs) -> None:
        """Remove what belongs to these jobs alone, once it is safely written."""
        keys, pool = self.keys, self.pool
        if needs.locks:
            locks = [Lock(name, jid) for jid, name in needs.locks.items()]
            looked_at(pool, keys, gone=locks)
            pool.call("ZREM", keys.replaced, *needs.locks)
        names = [keys.iteration(jid) for jid in needs.jids]
        names += [keys.result(jid) for jid in needs.results]
        if names:
            pool.call("UNLINK", *names)

    def rest(self, *, is_all: bool, with_spans: bool) -> Iterator[State]:
        """What comes behind all jobs: what has become of their batches meanwhile, and what no job asked for.

        Args:
            is_all: all jobs were exported: all batches and results go as well.
            with_spans: scheduled jobs were exported: what debounces and throttles them goes as well.
        """
        return lines_of(self._rest(is_all=is_all, with_spans=with_spans))

    def _rest(self, *, is_all: bool, with_spans: bool) -> Iterator[Record]:
        keys = self.keys
        if with_spans:
            for spans in _pages(self.pool, "HSCAN", keys.flow_spans):
                ends = self.pool.call("ZMSCORE", keys.flow_spans_until, *spans)
                for (name, value), until in zip(spans.items(), ends, strict=True):
                    if until is not None:
                        yield Record("span", text_of(name), float(until), [value])
        visited: set[str] = set()
        for bids in _pages(self.pool, "ZSCAN", keys.batches):
            for bid in map(text_of, bids):
                yield from self._last_of(bid, visited, is_all=is_all)
        if is_all:
            prefix = keys.result("")
            for names in scan_keys(self.pool, prefix):
                yield from self._kept(
                    "result", keys.result, [name[len(prefix) :] for name in names]
                )

    def _last_of(self, bid: str, visited: set[str], *, is_all: bool) -> Iterator[Record]:
        """A batch, and before it those of its children, as it stands behind all jobs."""
        if bid in visited:
            return
        visited.add(bid)
        here = self._here(bid)
        if here and is_all:
            for members in _pages(self.pool, "HSCAN", self.keys.batch_members(bid), match="b:*"):
                for child in (
                    text_of(name)[2:] for name, state in members.items() if state == b"p"
                ):
                    yield from self._last_of(child, visited, is_all=is_all)
            here = self._here(bid)  # without children that go as a whole
        away = int(self.pool.call("HGET", self.keys.batch(bid), "away") or 0)
        if self.takes and here:
            self.left[bid] = here
        if bid in self._seen or away > 0 or (is_all and not (self.takes and here)):
            self._seen.add(bid)
            yield from self._batch(bid)
            yield Record("announce", bid, 0.0)
            if self.takes and is_all and not here:
                self._final[bid] = None
                if parent := self._parent(bid):
                    mark_away(self.pool, self.keys, parent, [f"b:{bid}"])

    def _here(self, bid: str) -> int:
        """How many of its pending members are not away; one that its maker still writes counts as a member."""
        sealed, pending, away = self.pool.call(
            "HMGET", self.keys.batch(bid), "sealed", "pending", "away"
        )
        return max(0, int(pending or 0) - int(away or 0)) + (pending is not None and not sealed)

    def forget(self) -> None:
        """Remove the batches that have gone as a whole, once the file is safely written."""
        keys = self.keys
        for bid in self._final:
            its_keys = [keys.batch(bid), keys.batch_members(bid)]
            self.pool.script(_FORGET, [*its_keys, keys.batches, keys.cancelled_batches], [bid])

    def _batch(self, bid: str) -> Iterator[Record]:
        keys = self.keys
        reply, left_ms, cancelled, time = self.pool.run(
            ("HGETALL", keys.batch(bid)),
            ("PTTL", keys.batch(bid)),
            ("ZSCORE", keys.cancelled_batches, bid),
            ("TIME",),
        )
        fields = pairs_of(reply)
        if b"created_at" not in fields:
            return
        kept = [part for pair in fields.items() if pair[0] not in _COUNTS for part in pair]
        until = server_time(time) + (left_ms / 1000 if left_ms > 0 else KEEP_OPEN_S)
        yield Record("batch", bid, until, kept)
        if cancelled is not None:
            yield Record("cancelled", bid, float(cancelled))
        # Those that are pending first: what is not known to be pending must not seem to be all.
        for is_pending in (True, False):
            for page in _pages(self.pool, "HSCAN", keys.batch_members(bid)):
                states = [
                    (name, self._elsewhere(state))
                    for name, state in page.items()
                    if (state not in b"df") is is_pending
                ]
                for start in range(0, len(states), PAGE):
                    part = states[start : start + PAGE]
                    yield Record("jobs", bid, until, [each for pair in part for each in pair])

    def _elsewhere(self, state: bytes) -> bytes:
        """What the state of a member means where the export is put in."""
        if state == b"m":
            return b"p" if self.takes else b"e"
        return b"e" if state == b"p" and self.takes else state

    def _kept(self, kind: str, key: Callable[[str], str], names: Iterable[str]) -> Iterator[Record]:
        """Strings, or hashes (`progress`), that have an end of their own."""
        names = [*names]
        if not names or not self.pool.call("EXISTS", *map(key, names)):
            return
        read = "HGETALL" if kind == "progress" else "GET"
        commands = [each for name in names for each in ((read, key(name)), ("PTTL", key(name)))]
        time, *replies = self.pool.run(("TIME",), *commands)
        for name, found, left_ms in zip(names, replies[::2], replies[1::2], strict=True):
            if not found:
                continue
            fields = (
                [found]
                if isinstance(found, bytes)
                else [part for pair in pairs_of(found).items() for part in pair]
            )
            until = server_time(time) + left_ms / 1000 if left_ms > 0 else 0.0
            yield Record(kind, name, until, fields)


def _pages(
    pool: RedisPool, command: str, key: str, match: str = "*"
) -> Iterator[Mapping[bytes, bytes]]:
    return map(pairs_of, scan(pool, command, key, match=match, count=PAGE))


def mark_away(
    pool: RedisPool, keys: Keys, bid: str, members: Sequence[str], *, back: bool = False
) -> int:
    """Note that members of a batch are moved to another server, or are back; how many are away then."""
    states = ["m", "p"] if back else ["p", "m"]
    own = [keys.batch(bid), keys.batch_members(bid)]
    return int(pool.script(_MARK, own, [*states, *members]))


def put_records(pool: RedisPool, keys: Keys, records: Iterable[Record]) -> int:
    """Put records in; how many locks other jobs own.

    Raises:
        RedisUnavailable: repeat it.
        RedisRefused: a key is of another type; nothing of it was put in.
    """
    refused = 0
    for line in lines_of(records):
        effects = [_effect(keys, record) for record in line.records]
        answers = pool.script(_PUT, *packed(effects))
        refused += sum(
            not answer and effect.name == "lock"
            for effect, answer in zip(effects, answers, strict=True)
        )
    return refused


def jid_of(record: Record) -> str:
    """The job to which a record of one of `OF_ONE_JOB` belongs."""
    return text_of(record.fields[0]) if record.kind == "lock" else record.name


def _effect(keys: Keys, record: Record) -> Effect:
    """What puts it in (restore_state.lua)."""
    kind, name, until, fields = record
    batch, members = keys.batch(name), keys.batch_members(name)
    make: Mapping[str, tuple[str, Sequence[str], Sequence[str | bytes | float]]] = {
        "batch": ("batch", [batch, keys.batches], [name, until]),
        "jobs": ("jobs", [batch, members], [until]),
        "announce": (
            "announce",
            [batch, members, keys.batches, keys.flow_ends],
            [name, KEEP_OPEN_S, KEEP_DONE_S],
        ),
        "chain": ("value", [keys.chain(name)], [until]),
        "result": ("value", [keys.result(name)], [until]),
        "progress": ("progress", [keys.iteration(name)], [until]),
        "lock": ("lock", [keys.locks, keys.locks_look], [name, int(until), LOOK_S]),
        "span": ("span", [keys.flow_spans, keys.flow_spans_until], [name, until]),
        "replaced": ("add", [keys.replaced], [until, name]),
        "cancelled": ("add", [keys.cancelled_batches], [until, name]),
    }
    effect, its_keys, args = make[kind]
    return Effect(effect, its_keys, [*args, *fields])
