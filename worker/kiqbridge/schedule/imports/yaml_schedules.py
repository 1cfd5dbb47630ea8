"""YAML files of the two Sidekiq gems as definitions that know their line; nothing is constructed from a tag."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.nodes import MappingNode, Node, SequenceNode

from kiqbridge.schedule.imports.record import (
    Imported,
    ImportedSchedule,
    ImportKindError,
    Kind,
    Reading,
    Unsayable,
)

_TOO_OLD: Final = "<%"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One schedule of a file: its name, its members without the colon of symbols, its first line and text."""

    name: str
    members: Mapping[str, Any]
    line: int
    source: str


def definitions(text: str, path: tuple[tuple[str, ...], ...] = ((),)) -> list[Definition]:
    """The definitions of a file: a mapping of names to members, or a list of members with a name.

    Args:
        text: of the file.
        path: keys below which the mapping may lie, the first that is there counts; `()` is the top.

    Raises:
        ImportKindError: it is no YAML of this form.
    """
    if _TOO_OLD in text:
        raise ImportKindError(
            "the file has ERB (<%), whose value only Ruby knows; write it out, such as with "
            "`ruby -rerb -e 'puts ERB.new(ARGF.read).result' FILE`"
        )
    try:
        top = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ImportKindError(f"this is not YAML: {' '.join(str(error).split())}") from error
    root = next((found for keys in path if (found := _below(top, keys)) is not None), None)
    if not isinstance(root, MappingNode | SequenceNode):
        raise ImportKindError(
            "there are no schedules in it: a mapping of names, each with its class and its time"
        )
    lines = text.splitlines()
    return list(_definitions(root, lines))


def read_each(
    kind: Kind,
    found: Sequence[Definition],
    times: Sequence[str],
    reading: Reading,
    schedule_of: Callable[[Definition, Reading], ImportedSchedule],
) -> Imported:
    """The schedule of each definition, or the reason why it has none here.

    Args:
        kind: of the file.
        found: its definitions.
        times: members of which at least one definition has one.
        reading: what the file leaves open.
        schedule_of: one schedule.

    Raises:
        ImportKindError: no definition has a time.
    """
    if found and not any(set(times) & set(each.members) for each in found):
        wanted = f"none of {', '.join(times)}" if len(times) > 1 else f"no {times[0]}"
        raise ImportKindError(f"{found[0].source!r} in line {found[0].line} has {wanted}")
    imported = Imported(kind=kind)
    for each in found:
        try:
            imported.schedules.append(schedule_of(each, reading))
        except Unsayable as reason:
            imported.refuse(each.line, each.source, reason)
    if imported.schedules:
        imported.notes.append(
            f"schedules without a zone: read in {reading.timezone}; {kind} uses the zone of its process (TZ, "
            "Time.zone), give that with --timezone"
        )
    return imported


def _below(node: Node | None, keys: tuple[str, ...]) -> Node | None:
    for wanted in keys:
        if not isinstance(node, MappingNode):
            return None
        pairs = ((_bare(str(key.value)), value) for key, value in node.value)
        node = next((value for key, value in pairs if key == wanted), None)
    return node


def _definitions(root: MappingNode | SequenceNode, lines: list[str]) -> Iterator[Definition]:
    if isinstance(root, MappingNode):
        pairs = [(str(key.value), key, value) for key, value in root.value]
    else:
        pairs = [("", value, value) for value in root.value]
    for key, begin, node in pairs:
        try:
            # Not SafeLoader: libraries put constructors for any tag into it.
            value = _plain(SafeConstructor().construct_document(node))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = getattr(error, "problem", None) or error
            raise ImportKindError(f"line {begin.start_mark.line + 1}: {problem}") from error
        members = value if isinstance(value, dict) else {"": value}
        name = _bare(key or str(members.get("name", "")))
        line = begin.start_mark.line + 1
        yield Definition(name=name, members=members, line=line, source=lines[line - 1].strip())


def _plain(value: Any) -> Any:
    """With keys as texts, and without the colon of a symbol at the keys."""
    if isinstance(value, dict):
        return {_bare(str(key)): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _bare(text: str) -> str:
    return text.removeprefix(":")
