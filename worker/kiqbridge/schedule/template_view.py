"""A template as it is written: functions, events and resources, with what is known without AWS filled in.

`kiqbridge check` reads it as it would be deployed, the doctor with both sides of each condition.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kiqbridge.schedule.cloudformation import NO_VALUE, Template, call_of
from kiqbridge.schedule.template import DYNAMIC_REFERENCE, ENQUEUE_CODE_URI
from kiqbridge.schedule.yaml_nodes import Entry, Problem, TemplateFault, compose, entries, scalar

_FUNCTION: Final = "AWS::Serverless::Function"
_ATTRIBUTE: Final = re.compile(r"\$\{(\w+)\.([\w.]+)\}")


@dataclass(frozen=True, slots=True)
class Either:
    """The values of an `Fn::If` that is not decided."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a function.

    Attributes:
        where: FUNCTION.EVENT.
        name, kind: its logical id and its Type.
        properties: with functions of CloudFormation in their long form.
        nodes: the same, as they are written.
        line: of its logical id.
    """

    where: str
    name: str
    kind: str
    properties: Mapping[str, Any]
    nodes: Mapping[str, Entry]
    line: int

    def line_of(self, name: str) -> int:
        """The line of a property, or of the event if it has none of this name."""
        return self.nodes[name].line if name in self.nodes else self.line


class View:
    """One template.

    Args:
        path: the file.
        parameters: answers to its parameters; others have their defaults.
        decides: whether conditions are decided; else what stands behind one counts as there, and an `Fn::If` is an
            `Either`.

    Raises:
        TemplateFault: the file is no template.
    """

    def __init__(self, path: Path, parameters: Mapping[str, str], *, decides: bool = True) -> None:
        self.path = path
        self._decides = decides
        self._template = Template(path, parameters)
        self._resources = self._template.section("Resources")
        self.resources: dict[str, dict[str, Any]] = {}
        for name, entry in self._resources.items():
            resource = self.plain(entry.node)
            if isinstance(resource, dict) and self._is_made(resource):
                properties = resource.get("Properties")
                known = properties if isinstance(properties, dict) else {}
                self.resources[name] = resource | {"Properties": known}
        shared = self._template.section("Globals")
        self.shared = {name: self.plain(entry.node) for name, entry in shared.items()}

    def _is_made(self, resource: Mapping[str, Any]) -> bool:
        condition = resource.get("Condition")
        if self._decides and isinstance(condition, str):
            return self._template.holds(condition, 1)
        return True

    def parameter(self, name: str) -> Any:
        """The value of a parameter; None if the template has none of this name, or it is not known."""
        declared = self._template.section("Parameters")
        node = compose(f"!Ref {name}")
        if name not in declared or node is None:
            return None
        value = self.plain(node)
        return None if isinstance(value, dict) else value

    def name_of(self, reference: object) -> str | None:
        """The resource of this template that a Ref or GetAtt names."""
        name = name_in(reference)
        return name if name in self.resources else None

    def resource(self, reference: object) -> dict[str, Any] | None:
        """The properties of that resource."""
        name = self.name_of(reference)
        return None if name is None else self.resources[name]["Properties"]

    def secret_variables(self, function: str) -> Iterator[tuple[str, int]]:
        """Name and line of each variable of a function, or of all, that is a secret; under any condition."""
        hidden = [f"{DYNAMIC_REFERENCE}secretsmanager"]
        for parameter, entry in self._template.section("Parameters").items():
            no_echo = entries(entry.node, f"parameter {parameter}").get("NoEcho")
            if no_echo is not None and str(scalar(no_echo.node)).lower() == "true":
                hidden.append(f"${{{parameter}}}")
        shared = self._template.section("Globals").get("Function")
        own = entries(self._resources[function].node, "a resource").get("Properties")
        for properties in filter(None, (shared, own)):
            environment = entries(properties.node, "Properties").get("Environment")
            variables = environment and entries(environment.node, "Environment").get("Variables")
            for name, entry in entries(variables and variables.node, "Variables").items():
                if any(mark in text for mark in hidden for text in _texts(entry.node)):
                    yield name, entry.line

    def line_of(self, resource: str) -> int:
        """The line of a resource."""
        return self._resources[resource].line

    def problem(self, line: int, where: str, text: str) -> Problem:
        """A fault of this template."""
        return Problem(self.path, line, where, text)

    def enqueue_functions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Logical id and properties of each enqueue function, those of Globals included."""
        shared = self.shared.get("Function", {})
        for name, resource in self.resources.items():
            properties = {**shared, **resource["Properties"]}
            code = str(properties.get("CodeUri", "")).removeprefix("./").rstrip("/")
            if resource.get("Type") == _FUNCTION and code == ENQUEUE_CODE_URI:
                variables = {
                    name: value
                    for each in (shared, resource["Properties"])
                    for name, value in each.get("Environment", {}).get("Variables", {}).items()
                }
                yield name, properties | {"Environment": {"Variables": variables}}

    def events(self, function: str) -> Iterator[Event]:
        """The events of a function; what is no event is for SAM to say."""
        attributes = entries(self._resources[function].node, "a resource")
        properties = entries(attributes["Properties"].node, "Properties")
        if "Events" not in properties:
            return
        for name, entry in entries(properties["Events"].node, "Events").items():
            parts = entries(entry.node, "an event")
            nodes = entries(parts["Properties"].node, "Properties") if "Properties" in parts else {}
            yield Event(
                where=f"{function}.{name}",
                name=name,
                kind=str(self.plain(parts["Type"].node)) if "Type" in parts else "",
                properties={key: self.plain(each.node) for key, each in nodes.items()},
                nodes=nodes,
                line=entry.line,
            )

    def plain(self, node: Node) -> Any:
        """A value as JSON would hold it; functions that only AWS can resolve are in their long form."""
        call = call_of(node)
        if call is not None:
            name, argument = call
            if name == "If" and not self._decides and isinstance(argument, SequenceNode):
                return Either(tuple(map(self.plain, argument.value[1:])))
            with suppress(TemplateFault):
                return self._template.resolve(node)
            return self._long_form(*call)
        if isinstance(node, SequenceNode):
            items = [self.plain(item) for item in node.value]
            return [item for item in items if item is not NO_VALUE]
        if isinstance(node, MappingNode):
            pairs = {key: self.plain(each.node) for key, each in entries(node, "a value").items()}
            return {key: value for key, value in pairs.items() if value is not NO_VALUE}
        return scalar(node)

    def _long_form(self, name: str, argument: Node) -> Any:
        if name == "If" and isinstance(argument, SequenceNode):
            condition, then, otherwise = argument.value
            holds = self._template.holds(str(condition.value), argument.start_mark.line + 1)
            return self.plain(then if holds else otherwise)
        value = self.plain(argument)
        if name == "GetAtt" and isinstance(value, str):
            value = value.split(".", 1)
        if name == "Sub" and (only := _ATTRIBUTE.fullmatch(str(value))):
            name, value = "GetAtt", list(only.groups())
        return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


def _texts(node: Node) -> Iterator[str]:
    """All texts below a node; a Ref is what it would be in a Sub."""
    name, argument = call_of(node) or ("", node)
    if isinstance(argument, ScalarNode):
        yield f"${{{argument.value}}}" if name == "Ref" else str(argument.value)
    elif isinstance(argument, SequenceNode):
        for item in argument.value:
            yield from _texts(item)
    else:
        for _, value in argument.value:
            yield from _texts(value)


def name_in(reference: object) -> str | None:
    """What a Ref or GetAtt names."""
    if not isinstance(reference, Mapping):
        return None
    name, *_ = reference.get("Fn::GetAtt") or [reference.get("Ref")]
    return name if isinstance(name, str) else None


def at(value: Any, *keys: str) -> Any:
    """What stands below keys; None if one of them is not there."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
