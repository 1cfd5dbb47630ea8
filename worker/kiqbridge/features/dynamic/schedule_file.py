"""Dynamic schedules in a YAML file, for `kiqbridge schedule apply`: name → how it is due and what it enqueues.

    nightly:
      cron: "0 3 * * *"
      timezone: Europe/Paris
      class: Reports::Nightly
      args: [1]
      queue: low

The keys are those of `Schedule`, those of a job, and what the gems sidekiq-cron and sidekiq-scheduler call them
(`klass`, `queue_name`, `status`, `active_job: true`).
"""

import re
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, cast

from yaml import YAMLError
from yaml.constructor import SafeConstructor
from yaml.nodes import Node

from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.prepare import prepare
from kiqbridge.errors import ConfigError, PayloadError, did_you_mean
from kiqbridge.features.dynamic.schedule import (
    ScheduleOptions,
    check_name,
    job_item,
    make_definition,
)
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.yaml_nodes import Entry, TemplateFault, compose, entries, line_of
from kiqbridge.wire import active_job
from kiqbridge.wire.options import JobOptions, with_attributes

_OTHER_WORDS: Final = {"klass": "class", "queue_name": "queue"}
_SCHEDULE: Final = frozenset(ScheduleOptions.__annotations__)
_JOB: Final = frozenset({"class", "active_job", "args", "kwargs", "queue", "retry", "status"})
_OPTIONS: Final = frozenset(JobOptions.__annotations__)
_KNOWN: Final = _SCHEDULE | _JOB | _OPTIONS | _OTHER_WORDS.keys()


def read_schedule_file(text: str, source: str) -> list[ScheduleDefinition]:
    """The schedules of a file, all checked.

    Args:
        text: YAML.
        source: what the file is called in messages.

    Raises:
        ConfigError: has a line for each fault, with file, line and key.
    """
    found: list[ScheduleDefinition] = []
    faults: list[str] = []
    try:
        schedules = entries(compose(text), "the file")
    except TemplateFault as fault:
        raise ConfigError(f"{source}:{fault.line}: {fault.text}") from fault
    for name, entry in schedules.items():
        try:
            found.append(_definition(name, entry))
        except TemplateFault as fault:
            faults.append(f"{source}:{fault.line}: schedule {name!r}: {fault.text}")
        except (ConfigError, PayloadError) as error:
            faults.append(f"{source}:{entry.line}: {_with_name(name, str(error))}")
    if faults:
        raise ConfigError("\n".join([*faults, "nothing was written; correct the file"]))
    return found


def _definition(name: str, entry: Entry) -> ScheduleDefinition:
    check_name(name)
    values: dict[str, Any] = {}
    members = entries(entry.node, "a schedule")
    for key, (line, node) in members.items():
        if key not in _KNOWN:
            hint = did_you_mean(key, sorted(_KNOWN))
            raise TemplateFault(line, f"{key}: there is no such key{hint}")
        word = _OTHER_WORDS.get(key, key)
        if word in values:
            raise TemplateFault(line, f"{key}: {word} is given twice; leave one of them out")
        values[word] = _value(key, node)
    try:
        return _made(name, values)
    except (ConfigError, PayloadError) as error:
        text = str(error).removeprefix(f"schedule {name!r}: ")
        raise TemplateFault(_line_of_fault(text, values, members, entry.line), text) from error


def _made(name: str, values: Mapping[str, Any]) -> ScheduleDefinition:
    options = {key: value for key, value in values.items() if key in _SCHEDULE}
    if isinstance(options.get("at"), datetime) and options["at"].tzinfo is None:
        options["at"] = options["at"].isoformat()  # YAML has a type for it
    status = values.get("status", "enabled")
    if status not in ("enabled", "disabled"):
        raise ConfigError(f"status: {status!r} is none of enabled, disabled")
    if status == "disabled":
        options["enabled"] = False
    item = _item(values)
    prepare(item, time.time(), Chain[ClientMiddleware](), lambda: "7")
    return make_definition(name, [item], cast("ScheduleOptions", options))


def _item(values: Mapping[str, Any]) -> dict[str, Any]:
    attributes = {key: values[key] for key in ("retry", *sorted(_OPTIONS)) if key in values}
    nested = attributes.pop("attributes", {})
    if not isinstance(nested, Mapping):
        raise PayloadError(f"attributes: {nested!r} is not a mapping of names and values")
    attributes = with_attributes({**attributes, **nested})
    wanted, args = values.get("active_job"), values.get("args", [])
    if wanted is True:
        wanted = values.get("class")
    elif wanted not in (None, False) and "class" in values:
        raise PayloadError("class, active_job: give one of them, or class and active_job: true")
    if wanted in (None, False):
        if "kwargs" in values:
            raise PayloadError("kwargs: only an Active Job takes them")
        return job_item(values.get("class"), args, queue=values.get("queue"), attributes=attributes)
    item = {active_job.KEY: wanted, "args": args, **attributes}
    return item | {key: values[key] for key in ("kwargs", "queue") if key in values}


def _value(key: str, node: Node) -> Any:
    try:
        return SafeConstructor().construct_document(node)
    except (YAMLError, ValueError) as error:
        raise TemplateFault(line_of(node), f"{key}: cannot be read: {error}") from error


def _line_of_fault(
    text: str, values: Mapping[str, Any], members: Mapping[str, Entry], otherwise: int
) -> int:
    """The line of the key that a message begins with, else of the key whose value it shows."""
    word = re.split(r"[:\[. ]", text, maxsplit=1)[0]
    if word in members:
        return members[word].line
    shown = (
        each.line
        for key, each in members.items()
        if isinstance(value := values.get(key), str) and value and repr(value) in text
    )
    return next(shown, otherwise)


def _with_name(name: str, text: str) -> str:
    return text if repr(name) in text else f"schedule {name!r}: {text}"
