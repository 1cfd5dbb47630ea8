"""The schedules of a SAM template: what fires, when, in which zone, and with which Input.

`read_schedules` reads every `ScheduleV2` and `Schedule` event of every function, resolved as far as
a template can be without AWS (`kiqbridge.schedule.cloudformation`), and checks what no other tool does:

1. the expression and the zone, the flexible window, the start and the end;
2. for rules of the enqueue function: that the Input is a job and carries the tick's identity.

All problems of a template are reported together. check.py is the command for it.
"""

import difflib
import functools
import json
import posixpath
import zoneinfo
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.errors import ConfigError
from kiqbridge.schedule import cron
from kiqbridge.schedule.cloudformation import NO_VALUE, Template
from kiqbridge.schedule.rule_input import input_faults
from kiqbridge.schedule.yaml_nodes import Entry, TemplateFault, entries

DEFAULT_STACK_NAME: Final = "kiqbridge"
DYNAMIC_REFERENCE: Final = "{{resolve:"
"""AWS fills in what follows it: the value itself is not in the template."""
ENQUEUE_CODE_URI: Final = "lambdas/enqueue"

_EXPRESSION_PROPERTY: Final = {"ScheduleV2": "ScheduleExpression", "Schedule": "Schedule"}
_LONGEST_WINDOW_MINUTES: Final = 1440  # Scheduler's own limit: one day


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a template, at one line."""

    path: Path
    line: int
    where: str
    text: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}"
        return f"{place} {self.where}: {self.text}" if self.where else f"{place}: {self.text}"


class TemplateError(ConfigError):
    """A template cannot be used; `problems` names file, line, resource and event of each fault."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSchedule:
    """One rule of a template, resolved."""

    name: str
    """The event's logical id."""
    kind: str
    """`ScheduleV2` (EventBridge Scheduler) or `Schedule` (a rule on the event bus, UTC only)."""
    expression: cron.ScheduleExpression
    expression_text: str
    timezone: str
    input: str | None
    """The substituted Input text; only a function other than the enqueue function may lack it."""
    enabled: bool
    start: datetime | None
    end: datetime | None
    window_minutes: int
    """Of the flexible time window, within which it fires; 0 = it has none."""
    function: str
    """The function's logical id."""
    handler: str | None
    code_uri: str | None
    """The function's folder, relative to the template; None if its code is not local."""
    environment: Mapping[str, str] = field(repr=False)
    """Those of the function's variables that are known without AWS."""
    path: Path
    line: int

    @property
    def where(self) -> str:
        """Resource and event, as messages name them."""
        return f"{self.function}.{self.name}"

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that the Input names; none for a function other than the enqueue function."""
        document = json.loads(self.input) if self.input and _enqueues(self.code_uri) else {}
        return list(document["jobs"]) if "jobs" in document else [document] if document else []


def read_schedules(
    path: Path,
    parameters: Mapping[str, str] | None = None,
    stack_name: str = DEFAULT_STACK_NAME,
    pseudo: Mapping[str, str] | None = None,
) -> list[TemplateSchedule]:
    """Return the schedules of a template in its order; raises TemplateError with all problems."""
    reader = _Reader(path, pseudo)
    schedules = reader.read(parameters, stack_name)
    if reader.problems:
        raise TemplateError(sorted(reader.problems, key=lambda problem: problem.line))
    return schedules


@dataclass(frozen=True, slots=True, kw_only=True)
class _Function:
    name: str
    handler: str | None
    code_uri: str | None
    environment: Mapping[str, str]


class _Reader:
    """Reads one template and notes its problems instead of stopping at the first."""

    def __init__(self, path: Path, pseudo: Mapping[str, str] | None) -> None:
        self._pseudo = pseudo
        self.problems: list[Problem] = []
        self._path = path
        self._template: Template
        self._seen: dict[str, str] = {}

    def read(self, parameters: Mapping[str, str] | None, stack_name: str) -> list[TemplateSchedule]:
        found: list[TemplateSchedule] = []
        with self._noting(""):
            self._template = Template.read(
                self._path, parameters, stack_name=stack_name, pseudo=self._pseudo
            )
            for name, resource in self._template.section("Resources").items():
                with self._noting(name):
                    found.extend(self._read_resource(name, resource))
        return found

    @contextmanager
    def _noting(self, where: str) -> Iterator[None]:
        try:
            yield
        except TemplateFault as fault:
            self.problems.append(Problem(self._path, fault.line, where, fault.text))

    def _read_resource(self, name: str, resource: Entry) -> Iterator[TemplateSchedule]:
        attributes = entries(resource.node, "a resource")
        if "Type" not in attributes:
            raise TemplateFault(resource.line, "the resource has no Type: write one")
        if self._template.resolve(attributes["Type"].node) != "AWS::Serverless::Function":
            return
        condition = self._text(attributes, "Condition")
        if condition and not self._template.holds(condition, attributes["Condition"].line):
            return
        properties = {**self._function_globals(), **self._section(attributes, "Properties")}
        function: _Function | None = None
        for event, entry in self._section(properties, "Events").items():
            with self._noting(f"{name}.{event}"):
                attributes = entries(entry.node, "an event")
                kind = self._text(attributes, "Type")
                if kind in _EXPRESSION_PROPERTY:
                    function = function or self._read_function(name, properties)
                    schedule = self._read_event(function, event, entry, kind)
                    if schedule:
                        yield schedule

    def _function_globals(self) -> dict[str, Entry]:
        return self._section(self._template.section("Globals"), "Function")

    def _read_function(self, name: str, properties: dict[str, Entry]) -> _Function:
        variables: dict[str, Entry] = {}
        for source in (self._function_globals(), properties):
            variables |= self._section(self._section(source, "Environment"), "Variables")
        environment = {}
        for variable, entry in variables.items():
            try:
                value = self._template.resolve(entry.node)
            except TemplateFault:
                continue  # a variable that only AWS knows is no fault of the schedule
            if isinstance(value, str) and DYNAMIC_REFERENCE not in value:
                environment[variable] = value
        code_uri = self._value(properties, "CodeUri")
        return _Function(
            name=name,
            handler=self._text(properties, "Handler"),
            code_uri=code_uri if isinstance(code_uri, str) else None,
            environment=environment,
        )

    def _read_event(
        self, function: _Function, name: str, event: Entry, kind: str
    ) -> TemplateSchedule | None:
        """Read one event; every property is checked, whatever is wrong with the others."""
        where = f"{function.name}.{name}"
        noted = len(self.problems)
        properties = self._section(entries(event.node, "an event"), "Properties")
        timezone, enabled, window_minutes = "UTC", True, 0
        start: datetime | None = None
        end: datetime | None = None
        expression: cron.ScheduleExpression | None = None
        input_text: str | None = None
        with self._noting(where):
            self._require_unique(name, function.name, event.line)
        with self._noting(where):
            timezone = self._zone(properties, kind)
        with self._noting(where):
            start, end = self._bounds(properties)
        with self._noting(where):
            expression = self._expression(event, properties, kind, (timezone, start, end))
        with self._noting(where):
            enabled = self._enabled(properties)
        with self._noting(where):
            window_minutes = self._window_minutes(properties)
        with self._noting(where):
            input_text = self._input(event, properties, required=_enqueues(function.code_uri))
        if input_text is not None and _enqueues(function.code_uri):
            line = properties["Input"].line
            for text in input_faults(input_text, name, kind):
                self.problems.append(Problem(self._path, line, where, text))
        if expression is None or len(self.problems) > noted:
            return None
        return TemplateSchedule(
            name=name,
            kind=kind,
            expression=expression,
            expression_text=expression.text,
            timezone=timezone,
            input=input_text,
            enabled=enabled,
            start=start,
            end=end,
            window_minutes=window_minutes,
            function=function.name,
            handler=function.handler,
            code_uri=function.code_uri,
            environment=function.environment,
            path=self._path,
            line=event.line,
        )

    def _require_unique(self, name: str, function: str, line: int) -> None:
        other = self._seen.setdefault(name, function)
        if other != function:
            raise TemplateFault(
                line,
                f"{other} has a schedule {name} too: their ticks would be taken for each other's",
            )

    def _zone(self, properties: dict[str, Entry], kind: str) -> str:
        zone = self._text(properties, "ScheduleExpressionTimezone")
        if zone is None:
            return "UTC"
        line = properties["ScheduleExpressionTimezone"].line
        if kind == "Schedule":
            raise TemplateFault(line, "a Schedule event knows UTC only: use Type: ScheduleV2")
        known = _known_zones()
        if zone not in known:
            near = difflib.get_close_matches(zone, known) or ["Europe/Paris"]
            advice = f"write one such as {' or '.join(near)}" if known else "install tzdata"
            raise TemplateFault(line, f"{zone!r} is no IANA time zone known here: {advice}")
        return zone

    def _bounds(self, properties: dict[str, Entry]) -> tuple[datetime | None, datetime | None]:
        start, end = self._instant(properties, "StartDate"), self._instant(properties, "EndDate")
        if start and end and end <= start:
            raise TemplateFault(properties["EndDate"].line, "EndDate is not after StartDate")
        return start, end

    def _instant(self, properties: dict[str, Entry], name: str) -> datetime | None:
        text = self._text(properties, name)
        if text is None:
            return None
        try:
            instant = datetime.fromisoformat(text)
        except ValueError:
            raise TemplateFault(
                properties[name].line, f"{name} {text!r} is no instant: write 2027-01-31T00:00:00Z"
            ) from None
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)

    def _expression(
        self,
        event: Entry,
        properties: dict[str, Entry],
        kind: str,
        context: tuple[str, datetime | None, datetime | None],
    ) -> cron.ScheduleExpression:
        line, text = self._require_text(event, properties, _EXPRESSION_PROPERTY[kind])
        timezone, start, end = context
        try:
            return cron.parse(text, timezone, start=start, end=end)
        except ConfigError as error:
            raise TemplateFault(line, str(error)) from error

    def _enabled(self, properties: dict[str, Entry]) -> bool:
        state, enabled = self._value(properties, "State"), self._value(properties, "Enabled")
        if state not in (None, "ENABLED", "DISABLED"):
            raise TemplateFault(
                properties["State"].line, f"State is {state!r}: write ENABLED or DISABLED"
            )
        if enabled not in (None, True, False, "true", "false"):
            raise TemplateFault(
                properties["Enabled"].line, f"Enabled is {enabled!r}: write true or false"
            )
        return state != "DISABLED" and enabled not in (False, "false")

    def _window_minutes(self, properties: dict[str, Entry]) -> int:
        window = self._value(properties, "FlexibleTimeWindow")
        if window is None:
            return 0  # SAM writes OFF
        line = properties["FlexibleTimeWindow"].line
        mode = window.get("Mode") if isinstance(window, dict) else None
        if mode is False:
            raise TemplateFault(line, 'YAML reads the Mode OFF as false: write Mode: "OFF"')
        if mode not in ("OFF", "FLEXIBLE"):
            raise TemplateFault(line, 'FlexibleTimeWindow needs a Mode: write "OFF" or FLEXIBLE')
        minutes = str(window.get("MaximumWindowInMinutes", ""))
        in_range = minutes.isdecimal() and 1 <= int(minutes) <= _LONGEST_WINDOW_MINUTES
        if mode == "FLEXIBLE" and not in_range:
            raise TemplateFault(
                line, f"FLEXIBLE needs MaximumWindowInMinutes from 1 to {_LONGEST_WINDOW_MINUTES}"
            )
        return int(minutes) if mode == "FLEXIBLE" else 0

    def _input(self, event: Entry, properties: dict[str, Entry], *, required: bool) -> str | None:
        value = self._value(properties, "Input")
        if value is None and not required:
            return None
        if isinstance(value, dict | list):
            raise TemplateFault(
                properties["Input"].line,
                "Input is YAML, not text: write JSON after `Input: !Sub |-`",
            )
        return self._require_text(event, properties, "Input")[1]

    def _section(self, parent: dict[str, Entry], name: str) -> dict[str, Entry]:
        return entries(parent[name].node, name) if name in parent else {}

    def _value(self, properties: dict[str, Entry], name: str) -> Any:
        value = self._template.resolve(properties[name].node) if name in properties else None
        return None if value is NO_VALUE else value

    def _text(self, properties: dict[str, Entry], name: str) -> str | None:
        value = self._value(properties, name)
        if value is not None and not isinstance(value, str):
            raise TemplateFault(
                properties[name].line, f"{name} must be text, not {value!r}: quote it"
            )
        return value

    def _require_text(
        self, owner: Entry, properties: dict[str, Entry], name: str
    ) -> tuple[int, str]:
        text = self._text(properties, name)
        if not text:
            line = properties[name].line if name in properties else owner.line
            raise TemplateFault(line, f"{name} is missing: write one")
        return properties[name].line, text


@functools.cache
def _known_zones() -> frozenset[str]:
    """Names of all zones; ZoneInfo itself also takes folders' names such as right/Europe/Paris."""
    return frozenset(zoneinfo.available_timezones())


def _enqueues(code_uri: str | None) -> bool:
    """Whether a function is the enqueue function, whose Input is a job and its tick."""
    return code_uri is not None and posixpath.normpath(code_uri) == ENQUEUE_CODE_URI
