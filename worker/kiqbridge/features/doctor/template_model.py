"""A template as the rules see it: its resources and those of templates that it nests, as far as it says without AWS.

Conditions are not decided: what stands behind one counts as there, and of an `Fn::If` both values count. So
a fault in a part that is switched off by default is found, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kiqbridge.schedule.cloudformation import NO_VALUE
from kiqbridge.schedule.template_view import Either, View, name_in

NESTED: Final = "AWS::CloudFormation::Stack"
FUNCTIONS: Final = ("AWS::Serverless::Function", "AWS::Lambda::Function")


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
        names = set(map(name_in, alternatives(value)))
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
        view = View(path, parameters, decides=False)
        shown = path.resolve().relative_to(self.base)
        shared = mapping_of(view.shared.get("Function"))
        for name, resource in view.resources.items():
            kind, own = resource.get("Type"), resource["Properties"]
            if not isinstance(kind, str):
                continue
            yield Resource(
                name=name,
                kind=kind,
                properties=_merged(shared, own) if kind == FUNCTIONS[0] else own,
                place=f"{shown}:{view.line_of(name)} {name}",
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
