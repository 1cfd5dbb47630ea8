"""Putting an export into a server: each member once, however often it is begun anew.

Each chunk is written by one script, together with how far its place is put in: the number of members, and
the checksum over them. A later run of the same export passes over as many, and compares the checksum.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kiqbridge.errors import PayloadError
from kiqbridge.features.transfer.form import Chunk, Place, Record, State
from kiqbridge.features.transfer.reading import SETS, key_of
from kiqbridge.features.transfer.state import OF_ONE_JOB, Needs, jid_of, needs_of, put_records
from kiqbridge.store import scripts
from kiqbridge.store.process_set import read_infos
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.dead_bounds import FIELD, fleet_bounds
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import bytes_of

KEPT_S: Final = 30 * 86_400
"""How long is known what was put in."""

_RESTORE = scripts.load("restore_chunk", __file__)


@dataclass(slots=True)
class _Progress:
    """How far a place is read in this run, and how far it was put in by runs before."""

    mark: bytes
    done: int
    count: int = 0
    digest: Any = field(default_factory=hashlib.sha256)

    def add(self, member: bytes, score: bytes) -> None:
        self.count += 1
        for part in (member, score):
            self.digest.update(len(part).to_bytes(8, "big") + part)

    def mark_now(self) -> bytes:
        return f"{self.count} {self.digest.hexdigest()}".encode()


class Restorer:
    """Puts the chunks of one export in, in their order.

    Args:
        pool: where to.
        keys: its namespace.
        export: the id of the export.
        dry_run: only count.

    Attributes:
        restored: place → members that were put in, or would be.
        known: members that an earlier run has put in.
        without_batch: batch that is not there → members that belong to it.
        locks_of_others: locks of members that other jobs own there already.
    """

    def __init__(self, pool: RedisPool, keys: Keys, export: str, *, dry_run: bool = False) -> None:
        self._pool, self._keys = pool, keys
        self._marks_key = keys.restored(export)
        self._dry_run = dry_run
        flat = pool.call("HGETALL", self._marks_key)
        self._marks = dict(zip(flat[::2], flat[1::2], strict=True))
        self._progress: dict[Place, _Progress] = {}
        self.restored: dict[Place, int] = {}
        self.known = 0
        self.without_batch: dict[str, int] = {}
        self.locks_of_others = 0
        self._waiting: list[Record] = []
        self._batches: dict[str, bool] = {}  # whether they are there, or in the export

    def put_state(self, state: State) -> None:
        """Put in what jobs need besides their text; what belongs to one job waits for its chunk."""
        self._batches |= {record.name: True for record in state.records if record.kind == "batch"}
        self._waiting += [each for each in state.records if each.kind in OF_ONE_JOB]
        self._put_records(each for each in state.records if each.kind not in OF_ONE_JOB)

    def _put_records(self, records: Iterable[Record]) -> None:
        if not self._dry_run:
            self.locks_of_others += put_records(self._pool, self._keys, records)

    def _seek_batches(self, needs: Needs) -> None:
        unknown = [bid for bid in needs.members if bid not in self._batches]
        found = self._pool.run(*(("EXISTS", self._keys.batch(bid)) for bid in unknown))
        self._batches |= {bid: bool(each) for bid, each in zip(unknown, found, strict=True)}
        for bid, members in needs.members.items():
            if not self._batches[bid]:
                self.without_batch[bid] = self.without_batch.get(bid, 0) + len(members)

    def put(self, chunk: Chunk) -> int:
        """Put in what is not there yet of a chunk; how many members.

        Raises:
            PayloadError: what was put in before was not the beginning of this, or another process restores the
                same export, or the living workers would drop what is put into `dead`; nothing more is written.
        """
        place = chunk.place
        if place.kind == "set" and place.name not in SETS:
            raise PayloadError(f"{place}: there is no such set; there are {', '.join(SETS)}")
        progress = self._progress.get(place) or self._begin(place)
        scores = chunk.scores or [b""] * len(chunk.members)
        new: list[bytes] = []
        before = progress.mark
        for member, score in zip(chunk.members, scores, strict=True):
            progress.add(member, score)
            if progress.count > progress.done:
                new += [score, member] if place.kind == "set" else [member]
            elif progress.count == progress.done and progress.mark_now() != progress.mark:
                raise _changed(place, progress.done)
        count = len(new) // 2 if place.kind == "set" else len(new)
        if new and place.name == "dead" and place.kind == "set":
            # Without a worker that lives none are dropped.
            published = read_infos(self._pool.run, self._keys, field=FIELD).values()
            bounds = fleet_bounds(published)
            size = self._pool.call("ZCARD", self._keys.dead)
            if any(published) and bounds.overflow(size + count):
                raise PayloadError(
                    f"set dead: it has {size:,} jobs, and the living workers keep {bounds.most:,}, so that they would drop "
                    f"these {count:,}; nothing more was put in. Raise dead_max_jobs, set dead_overflow: keep, or retry "
                    "dead jobs (kiqbridge dead); then restore it again: nothing is put in twice"
                )
        needs = needs_of(new[1::2] if place.kind == "set" else new)
        self._seek_batches(needs)
        waiting, self._waiting = self._waiting, []
        self._put_records(each for each in waiting if jid_of(each) in needs.jids)
        if new and not self._dry_run:
            self._write(place, before, progress.mark_now(), new)
            progress.mark = progress.mark_now()
        self.known += len(chunk.members) - count
        self.restored[place] = self.restored.get(place, 0) + count
        return count

    def check_end(self) -> None:
        """Check, once the end is read, that no place had more entries before.

        Raises:
            PayloadError: one has.
        """
        for place, progress in self._progress.items():
            if progress.count < progress.done:
                raise _changed(place, progress.done)

    def _begin(self, place: Place) -> _Progress:
        mark = self._marks.get(_name(place), b"")
        count, _, _ = mark.partition(b" ")
        progress = _Progress(mark=mark, done=int(count) if count.isdigit() else 0)
        self._progress[place] = progress
        return progress

    def _write(self, place: Place, before: bytes, after: bytes, new: list[bytes]) -> None:
        queue = b"" if place.kind == "set" else bytes_of(place.name)
        written = self._pool.script(
            _RESTORE,
            [key_of(self._keys, place), self._marks_key, self._keys.queues],
            [_name(place), before, after, KEPT_S, queue, *new],
        )
        if not written:
            raise PayloadError(
                f"{place}: another process restores the same export at this moment; wait for its end, and "
                "run this again to see that nothing is left"
            )


def _name(place: Place) -> bytes:
    return bytes_of(str(place))


def _changed(place: Place, done: int) -> PayloadError:
    return PayloadError(
        f"{place}: an earlier run of this export has put in {done:,} jobs, and this one does not begin with "
        "them, so that some would be there twice; nothing more was put in. If jobs have left the source "
        "meanwhile, export into a file, which can be restored again; if this is another export, give it "
        "an --id of its own"
    )
