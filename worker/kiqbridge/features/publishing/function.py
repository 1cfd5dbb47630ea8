"""Publishing the schedules of the template from the function that they invoke.

The build writes their manifest into the layer. A warm environment publishes it once, after its first push, so
that no event waits for it but a tick, whose jobs the schedule must name; one HGET finds that it is published
already. A direct invocation with

    {"kiqbridge": "publish"}            or            {"kiqbridge": "publish", "rollback": true}

publishes at once, and can do nothing else.

Publishing the manifest of a stack: the definitions go into `kb:schedules`, under `STACK/LogicalId`.

Version and hash of what is published go into `kb:manifests`. This is loaded by the cold start of a function: it imports
nothing that a push does not need.
"""

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from kiqbridge.client.client import Client
from kiqbridge.errors import ConfigError, EventError, KiqbridgeError, PayloadError
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import deadline, scripts
from kiqbridge.store.manifests import StandingManifest, standing_manifest
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
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
        scripts.load("publish_manifest", __file__), [keys.schedules, keys.manifests], args
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


MANIFEST: Final = Path(__file__).parents[2] / "schedule" / "manifest.json"
"""In the layer."""

LONGEST_S: Final = 1.0
"""Seconds that publishing may keep an invocation."""

AGAIN_S: Final = 60.0
"""Seconds after which it is tried again, if it failed."""

_ROLL_BACK: Final = (
    'if this deployment is a rollback on purpose, invoke the function with {"kiqbridge": "publish", '
    '"rollback": true}, or run kiqbridge schedule publish --rollback'
)


@dataclass(slots=True)
class Publisher:
    """Publishes the manifest of this function's layer; one serves all invocations of a warm environment.

    Attributes:
        client: of the Redis to publish in; where it has fleets, each gets the schedules of its queues.
        stack: name of the stack.
        path: the manifest; a layer that has none publishes nothing.
        monotonic: seconds.
        again_at: when it is tried again, if it failed; None = it was published.
        has_failed: whether that was logged.
    """

    client: Client
    stack: str
    path: Path = field(default_factory=lambda: MANIFEST)
    monotonic: Callable[[], float] = time.monotonic
    again_at: float | None = 0.0
    has_failed: bool = False

    def once(self, by: str) -> dict[str, Any] | None:
        """Publish, unless this environment has; never raises.

        Returns:
            What became of it, for the log; None: nothing worth a line.
        """
        if self.again_at is None or self.monotonic() < self.again_at:
            return None
        self.again_at = None
        try:
            manifest = self._read()
            if manifest is None:
                return None
            with deadline.within(LONGEST_S):
                return self._publish(manifest, by, rollback=False, unless_it_stands=True)
        except Exception as error:  # noqa: BLE001 - whatever it is, the event is enqueued and answered
            self.again_at = self.monotonic() + AGAIN_S
            if self.has_failed:
                return None
            self.has_failed = True
            return {
                "outcome": "failed",
                "stack": self.stack,
                "reason": f"{type(error).__name__}: {error}; it is tried again, and not logged again",
            }

    @staticmethod
    def is_command(event: object) -> bool:
        """Whether an event is a direct invocation that asks for this, well or badly."""
        return (
            isinstance(event, dict)
            and "kiqbridge" in event
            and set(event) <= {"kiqbridge", "rollback"}
        )

    def command(self, event: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Do what a direct invocation asks for.

        Raises:
            EventError: it asks for something else.
            ConfigError: there is no manifest.
            RedisUnavailable, RedisRefused: nothing was written.
        """
        rollback = event.get("rollback", False)
        if event["kiqbridge"] != "publish" or not isinstance(rollback, bool):
            raise EventError(
                'kiqbridge: write {"kiqbridge": "publish"}, with "rollback": true only to publish an older '
                "version on purpose"
            )
        manifest = self._read()
        if manifest is None:
            raise ConfigError(
                f"{self.path.name}: the layer has no manifest of schedules; build it with make build"
            )
        return self._publish(manifest, by, rollback=rollback) or {}

    def _publish(
        self,
        manifest: Mapping[str, Any],
        by: str,
        *,
        rollback: bool,
        unless_it_stands: bool = False,
    ) -> dict[str, Any] | None:
        """What became of it, of several fleets by their names; None: it stood already."""
        found: dict[str, Any] = {}
        away: KiqbridgeError | None = None
        for fleet, there, part in parts_of(self.client, manifest):
            try:
                if not (unless_it_stands and stands(there.pool, there.keys, self.stack, part)):
                    done = publish_manifest(
                        there.pool, there.keys, part, stack=self.stack, by=by, rollback=rollback
                    )
                    found[fleet] = described(done)
            except KiqbridgeError as error:  # the other fleets have theirs all the same
                away = error
        if away is not None:
            raise away
        if "" in found or not found:
            return found.get("")
        outcomes = sorted({each["outcome"] for each in found.values()} - {"unchanged"})
        return {
            "outcome": outcomes[0] if outcomes else "unchanged",  # of several `older` goes first
            "stack": self.stack,
            "fleets": found,
        }

    def _read(self) -> Mapping[str, Any] | None:
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        read = json_text.loads(text)
        if not isinstance(read, dict) or not {"version", "hash", "schedules"} <= set(read):
            raise ConfigError(f"{self.path.name}: is no manifest; build the layer with make build")
        return read


def described(done: Published) -> dict[str, Any]:
    """For the answer and the log; of an older version also what it means."""
    about = asdict(done)
    if done.outcome == "older":
        about["reason"] = (
            f"version {done.version} of the schedules is older than version {done.standing}, which is published; "
            f"{_ROLL_BACK}"
        )
    return about
