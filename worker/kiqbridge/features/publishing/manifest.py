"""The manifest of a template: which schedules of it enqueue, for who watches that their ticks come.

It is made when the layer is built, and published to Redis by the function (store/manifests.py):

    {"version": 1700000000, "hash": "1f0c…", "schedules": {"Nightly": {"expression": "cron(0 3 * * ? *)", …}}}

A schedule is a definition's document (definition.py) under the event's logical id. The name of the stack is
known only where it runs: `${AWS::StackName}` stands for it. `name` is there if its ticks have another name
than `STACK/LogicalId`, and `"ticks": false` if its deliveries carry no tick (a rule on the event bus).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.sourced import definition_of, joined
from kiqbridge.schedule.template import read_schedules

if TYPE_CHECKING:
    from kiqbridge.schedule.definition import ScheduleDefinition
    from kiqbridge.schedule.template import TemplateSchedule

STACK_NAME: Final = "${AWS::StackName}"
"""Stands for the name of the stack."""

_STACK: Final = "Stack-0d6c1f7e-of-the-manifest"
"""A name that no stack has; it is replaced by `STACK_NAME`."""

_ELSEWHERE: Final = {"AWS::AccountId": "210987654321", "AWS::Region": "eu-central-2"}
"""Other examples than those of `read_schedules`: what they change is known to AWS alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The schedules of a template that enqueue.

    Attributes:
        version: which of two is newer, epoch seconds.
        schedules: documents of definitions by logical id.
    """

    version: int
    schedules: Mapping[str, Mapping[str, Any]]

    @property
    def hash(self) -> str:
        """Of the schedules: the same ones have the same."""
        text = json.dumps(self.schedules, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def to_document(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"version": self.version, "hash": self.hash, "schedules": dict(self.schedules)}

    def to_text(self) -> str:
        """As the file holds it, the same text for the same manifest."""
        return json.dumps(self.to_document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"

    @classmethod
    def from_text(cls, text: str | bytes) -> "Manifest":
        """The counterpart of `to_text`.

        Raises:
            ConfigError: it is none.
        """
        try:
            document = json.loads(text)
            return cls(version=int(document["version"]), schedules=dict(document["schedules"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"manifest: it cannot be read ({type(error).__name__}: {error}); make it with make build"
            ) from error


def build_manifest(
    template: Path, parameters: Mapping[str, str] | None = None, *, version: int
) -> Manifest:
    """Read a template and make its manifest.

    Args:
        template: the file.
        parameters: those with which it is deployed; defaults stand for the others.
        version: see `Manifest`.

    Raises:
        TemplateError: the template cannot be used; names line, resource and event of each fault.
        ConfigError: a schedule whose missed ticks are to be enqueued has an Input that only AWS knows.
    """
    schedules = read_schedules(template, parameters, _STACK)
    elsewhere = read_schedules(template, parameters, _STACK, _ELSEWHERE)
    return Manifest(version=version, schedules=_documents(schedules, elsewhere))


def _documents(
    schedules: Iterable["TemplateSchedule"], elsewhere: Iterable["TemplateSchedule"]
) -> dict[str, dict[str, Any]]:
    others = {each.name: each.input for each in elsewhere}
    found: dict[str, dict[str, Any]] = {}
    joint: dict[str, tuple[str, ScheduleDefinition]] = {}
    for schedule in schedules:
        definition = definition_of(schedule, _STACK)
        if not definition.jobs:
            continue
        if definition.missed != "alert" and schedule.input != others.get(schedule.name):
            raise ConfigError(
                f'{schedule.path}:{schedule.line} {schedule.where}: "missed": "{definition.missed}" enqueues its '
                "jobs without AWS, but its Input has AWS::AccountId or AWS::Region, which only AWS fills in: "
                'write values, or "missed": "alert"'
            )
        event, former = joint.get(definition.name, (schedule.name, None))
        if former is not None:
            definition = joined(former, definition)
        joint[definition.name] = event, definition
        document = definition.to_document()
        if definition.name != f"{_STACK}/{event}":
            document["name"] = definition.name
        if schedule.kind == "Schedule":
            document["ticks"] = False
        found[event] = json.loads(json.dumps(document).replace(_STACK, STACK_NAME))
    return found
