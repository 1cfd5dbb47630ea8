"""Taking members out of queues and sets: each is in Redis until it is safely written.

1. A script moves a chunk into the list `kb:exporting`, with the id of the export and the chunk's number in front.
2. The chunk is written to the file, and synced.
3. A script deletes the list.

Killed after 1 or 2, the next run finds the list, and in the file whether the chunk is there already.
"""

from dataclasses import dataclass

from kiqbridge.errors import PayloadError
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.transfer.form import Chunk, Place
from kiqbridge.transfer.reading import key_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

_HOLD = scripts.load("hold_export")
_RELEASE = scripts.load("release_export")
_RETURN = scripts.load("return_export")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A chunk that an export has moved out of its place.

    Attributes:
        export: the id of the export.
        file: the file that it is written to, as it was named, and the machine.
        chunk: what it is.
        mark: the first member of the list.
    """

    export: str
    file: str
    chunk: Chunk
    mark: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """An export that takes.

    Attributes:
        pool, keys: where from.
        export: its id.
        file: where to, for people who find what it holds.
    """

    pool: RedisPool
    keys: Keys
    export: str
    file: str

    def hold(self, place: Place, number: int, count: int) -> Held | None:
        """Move the next members out of a place; None if it has none.

        Raises:
            PayloadError: another export holds something meanwhile.
        """
        name = place.name.encode("utf-8", "surrogateescape")
        fields = {
            "id": self.export,
            "n": number,
            "kind": place.kind,
            "name": name.hex(),
            "file": self.file,
        }
        self.pool.script(
            _HOLD,
            [key_of(self.keys, place), self.keys.exporting],
            [json_text.dumps(fields), place.kind, count],
        )
        held = find_held(self.pool, self.keys)
        if held is not None and held.export != self.export:
            raise held_by_another(held)
        return held

    def release(self, held: Held) -> None:
        """Forget what is held; it is safely written."""
        self.pool.script(_RELEASE, [self.keys.exporting], [held.mark])


def find_held(pool: RedisPool, keys: Keys) -> Held | None:
    """What an export holds at this moment, or has held when it was killed.

    Raises:
        PayloadError: the list is not ours.
    """
    held: list[bytes] = pool.call("LRANGE", keys.exporting, 0, -1)
    if not held:
        return None
    try:
        fields = json_text.loads(held[0])
        name = bytes.fromhex(fields["name"]).decode("utf-8", "surrogateescape")
        place = Place(kind=fields["kind"], name=name)
        is_set = place.kind == "set"
        chunk = Chunk(
            number=fields["n"],
            place=place,
            members=held[1::2] if is_set else held[1:],
            scores=held[2::2] if is_set else (),
        )
        return Held(export=fields["id"], file=fields["file"], chunk=chunk, mark=held[0])
    except (KeyError, TypeError, ValueError, json_text.MalformedJSON) as error:
        raise PayloadError(
            f"{keys.exporting}: this list was not written by an export ({error}); look at it, and rename it"
        ) from error


def give_back(pool: RedisPool, keys: Keys, held: Held) -> int:
    """Put what is held back to where it was; how many members."""
    place = held.chunk.place
    source = key_of(keys, place)
    return int(pool.script(_RETURN, [source, keys.exporting], [held.mark, place.kind]))


def held_by_another(held: Held) -> PayloadError:
    """What to do about an export that was not finished."""
    return PayloadError(
        f"an export to {held.file} was not finished, and holds {len(held.chunk.members):,} jobs of "
        f"{held.chunk.place}; continue it there by the same command, or put them back with "
        "kiqbridge export --give-back if it does not run any more"
    )
