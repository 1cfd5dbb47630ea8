"""YAML as nodes that know their line, and the faults that name it.

No object is ever constructed from a tag: functions such as `!Sub` stay tags, for
`kiqbridge.schedule.cloudformation` to read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kiqbridge.errors import ConfigError
from kiqbridge.wire.bounded_yaml import BoundedLoader, BoundError

_TYPED_TAGS: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "null")
)
_MERGE_TAG: Final = "tag:yaml.org,2002:merge"


class TemplateFault(ConfigError):  # noqa: N818 - one place in a template; TemplateError has them all
    """Something is wrong at one line of a template; the text says what, and what to do next."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(f"line {line}: {text}")
        self.line = line
        self.text = text


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


class Entry(NamedTuple):
    """One `key: value` of a mapping; the line is that of the key."""

    line: int
    node: Node


def compose(text: str) -> Node | None:
    """Read YAML into nodes; no object of any kind is constructed from a tag."""
    try:
        return yaml.compose(text, Loader=BoundedLoader)
    except BoundError as error:
        raise TemplateFault(error.line, error.text) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line, text.count("\n")) + 1 if mark else 1  # libyaml's end may be one later
        raise TemplateFault(line, f"this is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise TemplateFault(1, f"this is not YAML: {error}") from error


def line_of(node: Node) -> int:
    """The line on which a node begins, counted from 1 as editors do."""
    return int(node.start_mark.line) + 1


def entries(node: Node | None, what: str) -> dict[str, Entry]:
    """Return the entries of a mapping, in order; an absent mapping has none."""
    if node is None or (isinstance(node, ScalarNode) and scalar(node) is None):
        return {}
    if not isinstance(node, MappingNode) or node.tag.startswith("!"):
        raise TemplateFault(
            line_of(node), f"{what} must be a mapping (key: value), not {shown(node)}"
        )
    if any(key.tag == _MERGE_TAG for key, _ in node.value):
        SafeConstructor().flatten_mapping(node)
        return {str(key.value): Entry(line_of(key), value) for key, value in node.value}
    found: dict[str, Entry] = {}
    for key, value in node.value:
        if key.value in found:
            first = found[key.value].line
            raise TemplateFault(
                line_of(key),
                f"{what} has {key.value!r} twice (also at line {first}): remove one of them",
            )
        found[str(key.value)] = Entry(line_of(key), value)
    return found


def scalar(node: Node) -> Any:
    """Return a scalar's value; a date stays the text it was written as, as in CloudFormation."""
    if node.tag not in _TYPED_TAGS:
        return str(node.value)
    try:
        return SafeConstructor().construct_object(node)
    except (ValueError, KeyError) as error:  # an explicit tag that does not fit, as in `!!int x`
        kind = node.tag.rpartition(":")[2]
        raise TemplateFault(line_of(node), f"{node.value!r} is no {kind}") from error


def shown(node: Node) -> str:
    """Return a node as a message shows it."""
    if node.tag.startswith("!"):
        return node.tag
    if isinstance(node, ScalarNode):
        return repr(node.value)
    return "a list" if isinstance(node, SequenceNode) else "a mapping"
