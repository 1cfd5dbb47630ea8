"""A template as the rules see it: its resources and those of templates that it nests, as far as it says without AWS.

Conditions are not decided: what stands behind one counts as there, and of an `Fn::If` both values count. So
a fault in a part that is switched off by default is found, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kiqbridge.schedule.cloudformation import NO_VALUE, Template, call_of
from kiqbridge.schedule.yaml_nodes import TemplateFault, entries, scalar

NESTED: Final = "AWS::CloudFormation::Stack"
FUNCTIONS: Final = ("AWS::Serverless::Function", "AWS::Lambda::Function")


@dataclass(frozen=True, slots=True)
class Either:
    """The values of an `Fn::If`."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only AWS knows.

    Attributes:
        resource: logical id of the resource that it is of; empty if it is of none.
    """

    resource: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource.

    Attributes:
        name: its logical id.
        kind: its `Type`.
        properties: those, with `Globals` merged into a function's.
        place: file and line.
    """

    name: str
    kind: str
    properties: Mapping[str, Any] = field(repr=False)
    place: str

    @property
    def variables(self) -> Mapping[str, Any]:
        """The environment of a function."""
        return mapping_of(at(self.properties, "Environment", "Variables"))

    @property
    def is_ours(self) -> bool:
        """Whether a function uses Kiqbridge, by its environment or its code."""
        return self.kind in FUNCTIONS and (
            any(name.startswith(("REDIS_", "KIQBRIDGE_")) for name in self.variables)
            or str(self.properties.get("CodeUri", "")).removeprefix("./").startswith("lambdas/")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A template, and what it nests.

    Attributes:
        resources: of all these files.
        unseen: the nested stacks whose template is no file here.
    """

    resources: Sequence[Resource]
    unseen: Sequence[str] = ()

    def of(self, *kinds: str) -> list[Resource]:
        """The resources of these types."""
        return [each for each in self.resources if each.kind in kinds]

    @property
    def ours(self) -> list[Resource]:
        """The functions that use Kiqbridge."""
        return [each for each in self.of(*FUNCTIONS) if each.is_ours]

    def find(self, value: object, kind: str) -> Resource | None:
        """The resource of a type that a value refers to, None if that is not one of the template."""
        names = {each.resource for each in alternatives(value) if isinstance(each, Unknown)}
        return next((each for each in self.of(kind) if each.name in names), None)


def read_model(path: Path, parameters: Mapping[str, str]) -> Model:
    """Read a template and those that it nests from files beside it.

    Raises:
        TemplateFault: it cannot be read, or is none.
    """
    reader = _Reader(base=path.parent.resolve())
    return Model(resources=list(reader.resources(path, parameters)), unseen=reader.unseen)


def alternatives(value: object) -> list[Any]:
    """All values that a property may have; none if it is not there."""
    if isinstance(value, Either):
        return [each for one in value.values for each in alternatives(one)]
    return [] if value is None or value is NO_VALUE else [value]


def items_of(value: object) -> list[Any]:
    """The members of a list, or a single value; of each all that it may be."""
    return [
        each
        for one in alternatives(value)
        for member in (one if isinstance(one, list) else [one])
        for each in alternatives(member)
    ]


def mapping_of(value: object) -> Mapping[str, Any]:
    """A mapping, of several the first; empty if it is none."""
    return next((each for each in alternatives(value) if isinstance(each, dict)), {})


def at(value: object, *names: str) -> Any:
    """What stands at a path of mappings; None if nothing does."""
    for name in names:
        value = mapping_of(value).get(name)
    return value


def numbers_of(value: object) -> list[int]:
    """The numbers that a property may have."""
    found = (str(each) for each in alternatives(value) if isinstance(each, int | str))
    return [int(each) for each in found if each.isdecimal()]


def texts_of(value: object) -> list[str]:
    """The texts that a property may have."""
    return [each for each in alternatives(value) if isinstance(each, str)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Reads a template and those that it nests, each file once.

    Attributes:
        base: the folder of the first; nothing outside of it is read.
        seen: files that were read.
        unseen: nested stacks that were not.
    """

    base: Path
    seen: set[Path] = field(default_factory=set)
    unseen: list[str] = field(default_factory=list)

    def resources(self, path: Path, parameters: Mapping[str, str]) -> Iterator[Resource]:
        """Of a file, and of what it nests."""
        self.seen.add(path.resolve())
        template = Template(path, parameters)
        shown = path.resolve().relative_to(self.base)
        shared = _section(template, "Globals", "Function")
        for name, entry in template.section("Resources").items():
            parts = _plain(template, entry.node)
            kind = parts.get("Type") if isinstance(parts, dict) else None
            if not isinstance(kind, str):
                continue
            own = mapping_of(parts.get("Properties"))
            yield Resource(
                name=name,
                kind=kind,
                properties=_merged(shared, own) if kind == FUNCTIONS[0] else own,
                place=f"{shown}:{entry.line} {name}",
            )
            if kind == NESTED:
                file = path.parent / next(iter(texts_of(own.get("TemplateURL"))), "")
                yield from self._nested(name, file)

    def _nested(self, name: str, file: Path) -> Iterator[Resource]:
        if file.resolve() in self.seen:
            return
        if file.is_file() and file.resolve().is_relative_to(self.base):
            yield from self.resources(file, {})
        else:
            self.unseen.append(name)


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> Mapping[str, Any]:
    path = "Environment", "Variables"
    variables = {**mapping_of(at(shared, *path)), **mapping_of(at(own, *path))}
    return {**shared, **own, "Environment": {"Variables": variables}}


def _section(template: Template, *names: str) -> Mapping[str, Any]:
    section = template.section(names[0])
    return mapping_of(_plain(template, section[names[1]].node)) if names[1] in section else {}


def _plain(template: Template, node: Node) -> Any:
    call = call_of(node)
    if call is not None:
        return _called(template, node, *call)
    if isinstance(node, SequenceNode):
        return [_plain(template, each) for each in node.value]
    if isinstance(node, MappingNode):
        found = {
            key: _plain(template, entry.node) for key, entry in entries(node, "a value").items()
        }
        return {key: value for key, value in found.items() if value is not NO_VALUE}
    return scalar(node)


def _called(template: Template, node: Node, name: str, argument: Node) -> Any:
    """The value of a function of CloudFormation, as far as it is known."""
    if name == "If" and isinstance(argument, SequenceNode):
        return Either(tuple(_plain(template, each) for each in argument.value[1:]))
    if name == "GetAtt":
        first = argument.value[0] if isinstance(argument, SequenceNode) else argument
        return Unknown(str(first.value).partition(".")[0])
    try:
        return template.resolve(node)
    except TemplateFault:
        is_name = name == "Ref" and isinstance(argument, ScalarNode)
        return Unknown(str(argument.value) if is_name else "")
