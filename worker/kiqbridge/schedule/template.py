"""The schedules of a SAM template: what fires, when, in which zone, and with which Input.

`read_schedules` reads every `ScheduleV2` and `Schedule` event of every function, resolved as far as
a template can be without AWS (`kiqbridge.schedule.cloudformation`), and checks what no other tool does:

1. the expression and the zone, the flexible window, the start and the end;
2. for rules of the enqueue function: that the Input is a job and carries the tick's identity.

All problems of a template are reported together. check.py is the command for it.
"""

import functools
import json
import posixpath
import zoneinfo
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.schedule import cron
from kiqbridge.schedule.cloudformation import DEFAULT_STACK_NAME, Template
from kiqbridge.schedule.rule_input import input_faults
from kiqbridge.schedule.yaml_nodes import Entry, Problem, TemplateError, TemplateFault, entries

DYNAMIC_REFERENCE: Final = "{{resolve:"
"""AWS fills in what follows it: the value itself is not in the template."""
ENQUEUE_CODE_URI: Final = "lambdas/enqueue"

_EXPRESSION_PROPERTY: Final = {"ScheduleV2": "ScheduleExpression", "Schedule": "Schedule"}
_LONGEST_WINDOW_MINUTES: Final = 1440  # Scheduler's own limit: one day


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFunction:
    """One function of a template, so far as it is known without AWS.

    Attributes:
        name: its logical id.
        handler: MODULE.FUNCTION.
        code_uri: its folder, relative to the template; None if its code is not local.
        environment: those of its variables that are known without AWS.
        unknown: names of the others.
        alias: that its events invoke (AutoPublishAlias); "" = the function itself.
    """

    name: str
    handler: str | None
    code_uri: str | None
    environment: Mapping[str, str] = field(repr=False)
    unknown: tuple[str, ...] = ()
    alias: str = ""

    @property
    def enqueues(self) -> bool:
        """Whether it is the enqueue function, whose Input is a job and its tick."""
        uri = self.code_uri
        return uri is not None and posixpath.normpath(uri) == ENQUEUE_CODE_URI


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSchedule:
    """One rule of a template, resolved."""

    name: str
    """The event's logical id."""
    kind: str
    """`ScheduleV2` (EventBridge Scheduler) or `Schedule` (a rule on the event bus, UTC only)."""
    expression: cron.ScheduleExpression
    timezone: str
    input: str | None
    """The substituted Input text; only a function other than the enqueue function may lack it."""
    enabled: bool
    start: datetime | None
    end: datetime | None
    window_minutes: int
    """Of the flexible time window, within which it fires; 0 = it has none."""
    function: TemplateFunction
    path: Path
    line: int

    @property
    def where(self) -> str:
        """Resource and event, as messages name them."""
        return f"{self.function.name}.{self.name}"

    @property
    def expression_text(self) -> str:
        """As it is written."""
        return self.expression.text

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that the Input names; none for a function other than the enqueue function."""
        document = json.loads(self.input) if self.input and self.function.enqueues else {}
        return list(document["jobs"]) if "jobs" in document else [document] if document else []


def read_schedules(
    path: Path,
    parameters: Mapping[str, str] | None = None,
    stack_name: str = DEFAULT_STACK_NAME,
    pseudo: Mapping[str, str] | None = None,
) -> list[TemplateSchedule]:
    """Return the schedules of a template in its order; raises TemplateError with all problems."""
    reader = _Reader(path)
    schedules = reader.read(parameters, stack_name, pseudo)
    if reader.problems:
        raise TemplateError(sorted(reader.problems, key=lambda problem: problem.line))
    return schedules


def read_functions(
    path: Path, parameters: Mapping[str, str] | None = None
) -> list[TemplateFunction]:
    """The functions that a template creates; one that cannot be read without AWS is left out.

    Raises:
        TemplateError: the file is no template.
    """
    reader = _Reader(path)
    functions = list(reader.read_functions(parameters))
    if reader.problems:
        raise TemplateError(reader.problems)
    return functions


class _Properties:
    """The properties of an event, each resolved when it is asked for; a fault names its line."""

    def __init__(self, template: Template, found: Mapping[str, Entry], line: int) -> None:
        self._template, self._found, self._line = template, found, line

    def fault(self, name: str, text: str) -> TemplateFault:
        return TemplateFault(self.line(name), text)

    def line(self, name: str) -> int:
        return self._found[name].line if name in self._found else self._line

    def value(self, name: str) -> Any:
        return self._template.value(self._found, name)

    def text(self, name: str) -> str | None:
        return self._template.text(self._found, name)

    def required(self, name: str) -> str:
        text = self.text(name)
        if not text:
            raise self.fault(name, f"{name} is missing: write one")
        return text


class _Reader:
    """Reads one template and notes its problems instead of stopping at the first."""

    def __init__(self, path: Path) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._template: Template
        self._seen: dict[str, str] = {}

    def read(self, *given: Any) -> list[TemplateSchedule]:
        found: list[TemplateSchedule] = []
        with self._noting(""):
            self._template = Template(self._path, *given)
            for name, resource in self._template.section("Resources").items():
                with self._noting(name):
                    found.extend(self._read_resource(name, resource))
        return found

    def read_functions(self, *given: Any) -> Iterator[TemplateFunction]:
        """What is wrong with one is for `read` to say, or for SAM."""
        resources: Mapping[str, Entry] = {}
        with self._noting(""):
            self._template = Template(self._path, *given)
            resources = self._template.section("Resources")
        for name, resource in resources.items():
            with suppress(TemplateFault):
                properties = self._properties_of(resource)
                if properties is not None:
                    yield self._read_function(name, properties)

    @contextmanager
    def _noting(self, where: str) -> Iterator[None]:
        try:
            yield
        except TemplateFault as fault:
            self.problems.append(Problem(self._path, fault.line, where, fault.text))

    def _properties_of(self, resource: Entry) -> dict[str, Entry] | None:
        """Those of a function that is created; None: it is another resource, or its condition does not hold."""
        attributes = entries(resource.node, "a resource")
        if "Type" not in attributes:
            raise TemplateFault(resource.line, "the resource has no Type: write one")
        if self._template.resolve(attributes["Type"].node) != "AWS::Serverless::Function":
            return None
        condition = self._template.text(attributes, "Condition")
        if condition and not self._template.holds(condition, attributes["Condition"].line):
            return None
        return {**self._shared, **_section(attributes, "Properties")}

    def _read_resource(self, name: str, resource: Entry) -> Iterator[TemplateSchedule]:
        properties = self._properties_of(resource) or {}
        function: TemplateFunction | None = None
        for event, entry in _section(properties, "Events").items():
            with self._noting(f"{name}.{event}"):
                parts = entries(entry.node, "an event")
                kind = self._template.text(parts, "Type")
                if kind in _EXPRESSION_PROPERTY:
                    function = function or self._read_function(name, properties)
                    found = _Properties(self._template, _section(parts, "Properties"), entry.line)
                    yield from self._read_event(function, event, kind, found)

    @property
    def _shared(self) -> dict[str, Entry]:
        return _section(self._template.section("Globals"), "Function")

    def _read_function(self, name: str, properties: dict[str, Entry]) -> TemplateFunction:
        environment: dict[str, str] = {}
        unknown: list[str] = []
        variables: dict[str, Entry] = {}
        for source in (self._shared, properties):
            variables |= _section(_section(source, "Environment"), "Variables")
        for variable in variables:
            try:
                value = self._template.value(variables, variable)
            except TemplateFault:
                # A variable that only AWS knows is no fault of the schedule.
                unknown.append(variable)
                continue
            if isinstance(value, str):
                if DYNAMIC_REFERENCE in value:
                    unknown.append(variable)
                else:
                    environment[variable] = value
        code_uri = self._template.value(properties, "CodeUri")
        return TemplateFunction(
            name=name,
            handler=self._template.text(properties, "Handler"),
            code_uri=code_uri if isinstance(code_uri, str) else None,
            environment=environment,
            unknown=tuple(unknown),
            alias=self._template.text(properties, "AutoPublishAlias") or "",
        )

    def _read_event(
        self, function: TemplateFunction, name: str, kind: str, event: _Properties
    ) -> Iterator[TemplateSchedule]:
        """Read one event; every property is checked, whatever is wrong with the others."""
        where = f"{function.name}.{name}"
        noted = len(self.problems)
        read: dict[str, Any] = {}
        with self._noting(where):
            self._require_unique(name, function.name, event)
        for member, reader in _READERS.items():
            with self._noting(where):
                read[member] = reader(event)
        with self._noting(where):
            read["expression"] = _expression(event, kind, read)
        with self._noting(where):
            read["input"] = _input(event, is_required=function.enqueues)
            for text in input_faults(read["input"], name, kind) if function.enqueues else ():
                self.problems.append(Problem(self._path, event.line("Input"), where, text))
        if len(self.problems) == noted:
            yield TemplateSchedule(
                name=name,
                kind=kind,
                path=self._path,
                line=event.line(""),
                function=function,
                **read,
            )

    def _require_unique(self, name: str, function: str, event: _Properties) -> None:
        other = self._seen.setdefault(name, function)
        if other != function:
            raise event.fault(
                "",
                f"{other} has a schedule {name} too: their ticks would be taken for each other's",
            )


def _zone(event: _Properties) -> str:
    name = "ScheduleExpressionTimezone"
    zone = event.text(name) or "UTC"
    # ZoneInfo itself also takes folders' names such as right/Europe/Paris.
    if zone != "UTC" and zone not in _known_zones():
        raise event.fault(name, str(cron.unknown_zone(zone)))
    return zone


def _instant(event: _Properties, name: str) -> datetime | None:
    text = event.text(name)
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise event.fault(
            name, f"{name} {text!r} is no instant: write 2027-01-31T00:00:00Z"
        ) from None
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def _expression(event: _Properties, kind: str, read: Mapping[str, Any]) -> cron.ScheduleExpression:
    start, end = read.get("start"), read.get("end")
    if start and end and end <= start:
        raise event.fault("EndDate", "EndDate is not after StartDate")
    if kind == "Schedule" and event.text("ScheduleExpressionTimezone"):
        raise event.fault(
            "ScheduleExpressionTimezone", "a Schedule event has UTC only: use Type: ScheduleV2"
        )
    name = _EXPRESSION_PROPERTY[kind]
    text = event.required(name)
    try:
        return cron.parse(text, read.get("timezone", "UTC"), start=start, end=end)
    except ConfigError as error:
        raise event.fault(name, str(error)) from error


def _enabled(event: _Properties) -> bool:
    state, enabled = event.value("State"), event.value("Enabled")
    if state not in (None, "ENABLED", "DISABLED"):
        raise event.fault("State", f"State is {state!r}: write ENABLED or DISABLED")
    if enabled not in (None, True, False, "true", "false"):
        raise event.fault("Enabled", f"Enabled is {enabled!r}: write true or false")
    return state != "DISABLED" and enabled not in (False, "false")


def _window_minutes(event: _Properties) -> int:
    name = "FlexibleTimeWindow"
    window = event.value(name)
    if window is None:
        return 0  # SAM writes OFF
    mode = window.get("Mode") if isinstance(window, dict) else None
    if mode is False:
        raise event.fault(name, 'YAML reads the Mode OFF as false: write Mode: "OFF"')
    if mode not in ("OFF", "FLEXIBLE"):
        raise event.fault(name, f'{name} needs a Mode: write "OFF" or FLEXIBLE')
    if mode == "OFF":
        return 0
    minutes = str(window.get("MaximumWindowInMinutes", ""))
    if not minutes.isdecimal() or not 1 <= int(minutes) <= _LONGEST_WINDOW_MINUTES:
        raise event.fault(
            name, f"FLEXIBLE needs MaximumWindowInMinutes from 1 to {_LONGEST_WINDOW_MINUTES}"
        )
    return int(minutes)


def _input(event: _Properties, *, is_required: bool) -> str | None:
    value = event.value("Input")
    if isinstance(value, dict | list):
        raise event.fault("Input", "Input is YAML, not text: write JSON after `Input: !Sub |-`")
    return None if value is None and not is_required else event.required("Input")


_READERS: Final[Mapping[str, Callable[[_Properties], Any]]] = {
    "timezone": _zone,
    "start": lambda event: _instant(event, "StartDate"),
    "end": lambda event: _instant(event, "EndDate"),
    "enabled": _enabled,
    "window_minutes": _window_minutes,
}
"""Member of a schedule → its reader."""


def _section(parent: Mapping[str, Entry], name: str) -> dict[str, Entry]:
    return entries(parent[name].node, name) if name in parent else {}


@functools.cache
def _known_zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
