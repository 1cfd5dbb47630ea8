"""Publishing the manifest of a stack: the definitions go into `kb:schedules`, under `STACK/LogicalId`.

Version and hash of what is published go into `kb:manifests`. This is loaded by the cold start of a function: it imports
nothing that a push does not need.
"""

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import scripts
from kiqbridge.store.manifests import StandingManifest, standing_manifest
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.client.job_writer import JobWriter

PublishKind = Literal["published", "unchanged", "older", "rolled back"]

STACK_NAME: Final = "${AWS::StackName}"
"""Stands in a manifest for the name of the stack, which is known where it runs."""

_STACK: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,127}")
"""CloudFormation's rule for the name of a stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What became of a manifest.

    Attributes:
        outcome: `older`: a newer one stands, and nothing was written.
        stack: whose.
        version: of the manifest.
        standing: the version that stood before; None = there was none.
        schedules: how many it has.
        removed: how many schedules it does not have any more.
    """

    outcome: PublishKind
    stack: str
    version: int
    standing: int | None
    schedules: int
    removed: int


def stands(connection: RedisLike, keys: Keys, stack: str, manifest: Mapping[str, Any]) -> bool:
    """Whether this very manifest is published, in one command.

    Raises:
        RedisUnavailable: nothing was read.
    """
    text = connection.call("HGET", keys.manifests, stack)
    standing = None if text is None else standing_manifest(stack, text)
    return standing is not None and (standing.hash, standing.version) == (
        manifest["hash"],
        manifest["version"],
    )


def outcome_of(
    standing: StandingManifest | None, version: int, digest: str, *, rollback: bool
) -> PublishKind:
    """What publishing this version would be; publish_manifest.lua decides by the same rule."""
    if standing is None:
        return "published"
    kind: PublishKind = "unchanged" if standing.hash == digest else "published"
    if version == standing.version or version > standing.newest:
        return kind
    if not rollback:
        return "older"
    return "rolled back" if version < standing.version else kind


def publish_manifest(
    connection: RedisLike,
    keys: Keys,
    manifest: Mapping[str, Any],
    *,
    stack: str,
    by: str,
    rollback: bool = False,
) -> Published:
    """Publish the schedules of a stack, in one script.

    Args:
        connection: to Redis.
        keys: names of keys.
        manifest: as manifest.py makes it: `version`, `hash` and `schedules` by logical id.
        stack: name of the stack.
        by: who publishes, kept for operators.
        rollback: publish it also if a newer one stands.

    Raises:
        ConfigError: that is no name of a stack, or no manifest.
        RedisUnavailable, RedisRefused: nothing was written.
    """
    if not _STACK.fullmatch(stack):
        raise ConfigError(
            f"stack: {stack!r} is no name of a CloudFormation stack; write that of the deployed one"
        )
    version, digest, documents = _parts(manifest, stack)
    entry = {"version": version, "hash": digest, "by": by, "names": list(documents)}
    args: list[str | bytes | int] = [stack, version, digest, json_text.dumps(entry)]
    args += ["1" if rollback else "", len(documents), *documents, *documents.values()]
    kind, before, removed = connection.script(
        scripts.load("publish_manifest", __file__),
        [keys.schedules, keys.manifests],
        args,
    )
    return Published(
        outcome=cast("PublishKind", kind.decode()),
        stack=stack,
        version=version,
        standing=int(before) if before else None,
        schedules=len(documents),
        removed=int(removed),
    )


def parts_of(
    client: "Client", manifest: Mapping[str, Any]
) -> "list[tuple[str, Client | JobWriter, Mapping[str, Any]]]":
    """Name of the fleet, where it is, and what of a manifest is published there; without fleets all of it, under "".

    A schedule belongs to the fleet of its first job's queue; one of a queue that belongs to none is left out.
    """
    if client.fleets is None:
        return [("", client, manifest)]
    parts: dict[str, dict[str, Any]] = {name: {} for name in client.fleets.writers}
    for logical_id, document in manifest["schedules"].items():
        with suppress(PayloadError):
            queue = next((job.get("queue", "default") for job in document["jobs"]), "default")
            parts[client.fleets.name_of(queue)][logical_id] = document
    found: list[tuple[str, Client | JobWriter, Mapping[str, Any]]] = []
    for name, part in parts.items():
        digest = hashlib.sha256(f"{manifest['hash']} {' '.join(part)}".encode()).hexdigest()
        made = {**manifest, "schedules": part, "hash": digest}
        found.append((name, client.fleets.writers[name], made))
    return found


def _parts(manifest: Mapping[str, Any], stack: str) -> tuple[int, str, dict[str, bytes]]:
    """Version, hash, and the definitions by their names in Redis."""
    try:
        version, digest = int(manifest["version"]), str(manifest["hash"])
        documents = {
            str(document.get("name", f"{STACK_NAME}/{logical_id}")).replace(
                STACK_NAME, stack
            ): json_text.dumps(document).replace(STACK_NAME.encode(), stack.encode())
            for logical_id, document in manifest["schedules"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"manifest: it cannot be read ({type(error).__name__}: {error}); make it with make build or "
            "kiqbridge schedule publish --template"
        ) from error
    return version, digest, documents
