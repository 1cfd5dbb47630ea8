"""Publishing the schedules of the template from the function that they invoke.

The build writes their manifest into the layer. A warm environment publishes it once, after its first push, so
that no event waits for it but a tick, whose jobs the schedule must name; one HGET finds that it is published
already. A direct invocation with

    {"kiqbridge": "publish"}            or            {"kiqbridge": "publish", "rollback": true}

publishes at once, and can do nothing else.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.errors import ConfigError, EventError, KiqbridgeError
from kiqbridge.features.publishing.store import Published, parts_of, publish_manifest, stands
from kiqbridge.runtime.records import dataclass
from kiqbridge.store import deadline
from kiqbridge.wire import json_text

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
