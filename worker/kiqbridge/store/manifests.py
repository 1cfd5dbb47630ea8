"""What is published of the schedules of templates: `kb:manifests`, by stack."""

from typing import Any

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingManifest:
    """What `kb:manifests` says of a stack.

    Attributes:
        stack: its name.
        version: of what is published.
        hash: of its content.
        published_at: epoch seconds on the clock of Redis.
        by: who published it.
        names: of its schedules.
        newest: the newest version that ever was, from which something was rolled back perhaps.
        rolled_back_from: the version before, if somebody rolled back; else None.
    """

    stack: str
    version: int
    hash: str
    published_at: float
    by: str
    names: tuple[str, ...]
    newest: int
    rolled_back_from: int | None = None


def read_manifests(connection: RedisLike, keys: Keys) -> dict[str, StandingManifest]:
    """What is published, by stack; an entry that cannot be read is left out.

    Raises:
        RedisUnavailable: nothing was read.
    """
    reply = connection.call("HGETALL", keys.manifests)
    return manifests_of(reply)


def manifests_of(reply: Any) -> dict[str, StandingManifest]:
    """The reply to HGETALL as `read_manifests` returns it."""
    found = (standing_manifest(text_of(stack), text) for stack, text in pairs_of(reply).items())
    return {each.stack: each for each in found if each is not None}


def standing_manifest(stack: str, text: bytes) -> StandingManifest | None:
    """An entry of `kb:manifests`; None: it is none."""
    try:
        read = json_text.loads(text)
        from_version = read.get("rolled_back_from")
        return StandingManifest(
            stack=stack,
            version=int(read["version"]),
            hash=str(read["hash"]),
            published_at=float(read["published_at"]),
            by=str(read.get("by", "")),
            names=tuple(str(name) for name in read.get("names") or ()),
            newest=int(read.get("newest", read["version"])),
            rolled_back_from=None if from_version is None else int(from_version),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
