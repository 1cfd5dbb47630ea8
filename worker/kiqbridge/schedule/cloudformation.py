"""What a CloudFormation template says without asking AWS: parameters, conditions, functions.

A template is kept as YAML nodes, so that every fault can name its line, and only the values that
somebody asks for are resolved: a `GetAtt` in a property that is not read does not matter.

Resolved are Ref, Sub, If, FindInMap, Join and Select (short and long forms) over the
parameters' defaults, given parameters and the pseudo parameters; in Conditions also Equals, Not,
And, Or and Condition. Whatever only AWS could know is a `TemplateFault`.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from kiqbridge.schedule.yaml_nodes import (
    Entry,
    TemplateFault,
    compose,
    entries,
    line_of,
    scalar,
    shown,
)

RESOLVABLE: Final = "Ref, Sub, If, FindInMap, Join or Select over parameters"
DEFAULT_STACK_NAME: Final = "kiqbridge"

_SUBSTITUTION: Final = re.compile(r"\$\{([^}]*)\}")


class _NoValue:
    def __repr__(self) -> str:
        return "AWS::NoValue"


NO_VALUE: Final = _NoValue()


class Template:
    """One template file, its parameters given: sections as nodes, and the values of nodes."""

    def __init__(
        self,
        path: Path,
        parameters: Mapping[str, str] | None = None,
        stack_name: str = DEFAULT_STACK_NAME,
        pseudo: Mapping[str, str] | None = None,
    ) -> None:
        """Read a template file; nothing is resolved yet.

        `pseudo` has values of pseudo parameters, such as `AWS::Region`, in place of examples.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise TemplateFault(1, f"the template cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise TemplateFault(1, f"the template is not UTF-8 text: {error}") from error
        self._sections = entries(compose(text), "a template")
        self._declared = self.section("Parameters")
        self._conditions = self.section("Conditions")
        self._being_decided: list[str] = []
        self._pseudo: dict[str, Any] = {
            "AWS::AccountId": "123456789012",
            "AWS::NoValue": NO_VALUE,
            "AWS::NotificationARNs": [],
            "AWS::Partition": "aws",
            "AWS::Region": "us-east-1",
            "AWS::StackId": f"arn:aws:cloudformation:us-east-1:123456789012:stack/{stack_name}/local",
            "AWS::StackName": stack_name,
            "AWS::URLSuffix": "amazonaws.com",
            **(pseudo or {}),
        }
        self._given = dict(parameters or {})
        for name in self._given:
            self._require_known(name, 1, "the given parameter")

    def section(self, name: str) -> dict[str, Entry]:
        """Return the entries of a top-level section; a missing section has none."""
        entry = self._sections.get(name)
        return entries(entry.node, name) if entry else {}

    def value(self, parent: Mapping[str, Entry], name: str) -> Any:
        """The value of an entry; None if it is not there."""
        value = self.resolve(parent[name].node) if name in parent else None
        return None if value is NO_VALUE else value

    def text(self, parent: Mapping[str, Entry], name: str) -> str | None:
        """The value of a property that must be text; None if it is not given."""
        value = self.value(parent, name)
        if value is not None and not isinstance(value, str):
            raise TemplateFault(parent[name].line, f"{name} must be text, not {value!r}: quote it")
        return value

    def holds(self, condition: str, line: int) -> bool:
        """Whether a named condition is true."""
        if condition not in self._conditions:
            raise TemplateFault(
                line,
                f"condition {condition!r} is not in Conditions{_near(condition, self._conditions)}: declare it there",
            )
        if condition in self._being_decided:
            circle = " -> ".join([*self._being_decided, condition])
            raise TemplateFault(line, f"conditions depend on each other in a circle: {circle}")
        self._being_decided.append(condition)
        try:
            return self._decide(self._conditions[condition].node)
        finally:
            self._being_decided.pop()

    def resolve(self, node: Node) -> Any:
        """Return a node's value as JSON would hold it, or `NO_VALUE` where AWS::NoValue stands."""
        call = call_of(node)
        if call is not None:
            name, argument = call
            if name not in self._functions:
                raise _unknowable(line_of(node), f"Fn::{name}")
            return self._functions[name](self, argument)
        if isinstance(node, SequenceNode):
            values = [self.resolve(item) for item in node.value]
            return [value for value in values if value is not NO_VALUE]
        if isinstance(node, MappingNode):
            pairs = {
                key: self.resolve(entry.node) for key, entry in entries(node, "a value").items()
            }
            return {key: value for key, value in pairs.items() if value is not NO_VALUE}
        return scalar(node)

    def _ref(self, argument: Node) -> Any:
        return self._value_of(_literal(argument, "Ref"), line_of(argument))

    def _sub(self, argument: Node) -> str:
        line = line_of(argument)
        variables: dict[str, Entry] = {}
        text_node = argument
        if isinstance(argument, SequenceNode):
            text_node, variables_node = _arguments(argument, "Sub", 2)
            variables = entries(variables_node, "the second argument of Fn::Sub")
        text = _literal(text_node, "Sub")

        def replaced(match: re.Match[str]) -> str:
            name = match[1].strip()
            if name.startswith("!"):
                return "${" + name[1:] + "}"
            if name in variables:
                return _text(self.resolve(variables[name].node), f"${{{name}}}", line)
            if "." in name:
                raise _unknowable(line, f"${{{name}}} is an attribute that")
            return _text(self._value_of(name, line), f"${{{name}}}", line)

        return _SUBSTITUTION.sub(replaced, text)

    def _if(self, argument: Node) -> Any:
        condition, then, otherwise = _arguments(argument, "If", 3)
        holds = self.holds(_literal(condition, "If"), line_of(condition))
        return self.resolve(then if holds else otherwise)

    def _join(self, argument: Node) -> str:
        delimiter, items = _arguments(argument, "Join", 2)
        return _literal(delimiter, "Join").join(
            _text(item, "an item of Fn::Join", line_of(items)) for item in self._list(items, "Join")
        )

    def _select(self, argument: Node) -> Any:
        index_node, items_node = _arguments(argument, "Select", 2)
        index = self._text_at(index_node, "the index of Fn::Select")
        items = self._list(items_node, "Select")
        if not index.isdecimal() or int(index) >= len(items):
            raise TemplateFault(
                line_of(index_node),
                f"index {index} of Fn::Select is outside of a list of {len(items)}: 0 is the first item",
            )
        return items[int(index)]

    def _find_in_map(self, argument: Node) -> Any:
        found, inside = self._sections.get("Mappings"), "Mappings"
        for node in _arguments(argument, "FindInMap", 3):
            name = self._text_at(node, "a key of Fn::FindInMap")
            level = entries(found.node, inside) if found else {}
            found = level.get(name)
            if found is None:
                raise TemplateFault(
                    line_of(node), f"Fn::FindInMap: no {name!r} in {inside}{_near(name, level)}"
                )
            inside = f"{inside}.{name}"
        return self.resolve(found.node) if found else NO_VALUE

    def _decide(self, node: Node) -> bool:
        name, argument = call_of(node, ("Ref", "Condition")) or ("", node)
        if name == "Condition":
            return self.holds(_literal(argument, name), line_of(argument))
        if name == "Equals":
            left, right = (self.resolve(item) for item in _arguments(argument, name, 2))
            return bool(_comparable(left) == _comparable(right))
        if name == "Not":
            return not self._decide(_arguments(argument, name, 1)[0])
        if name in {"And", "Or"} and isinstance(argument, SequenceNode):
            decided = [self._decide(item) for item in argument.value]
            return all(decided) if name == "And" else any(decided)
        raise TemplateFault(
            line_of(node),
            "a condition is one of Equals, Not, And, Or and Condition with its arguments",
        )

    def _list(self, node: Node, function: str) -> list[Any]:
        value = self.resolve(node)
        if not isinstance(value, list):
            raise TemplateFault(line_of(node), f"Fn::{function} takes a list, not {value!r}")
        return value

    def _require_known(self, name: str, line: int, what: str) -> None:
        if name in self._pseudo or name in self._declared:
            return
        if name in self.section("Resources"):
            raise _unknowable(line, f"{what} {name!r} is a resource, which")
        known = [*self._declared, *self._pseudo]
        raise TemplateFault(
            line,
            f"{what} {name!r} is not in Parameters{_near(name, known)}: declare it there or correct it",
        )

    def _value_of(self, name: str, line: int) -> Any:
        self._require_known(name, line, "the reference")
        if name not in self._declared:
            return self._given.get(name, self._pseudo[name])
        declaration = entries(self._declared[name].node, f"parameter {name}")
        kind = self.resolve(declaration["Type"].node) if "Type" in declaration else "String"
        if name in self._given:
            value = self._given[name]
        elif str(kind).startswith("AWS::SSM::"):
            raise TemplateFault(
                line, f"parameter {name!r} is read from SSM by AWS: give its value with --parameter"
            )
        elif "Default" in declaration:
            value = self._text_at(declaration["Default"].node, f"Default of parameter {name}")
        else:
            raise TemplateFault(
                line, f"parameter {name!r} has no Default: write one, or give --parameter {name}=…"
            )
        if "AllowedValues" in declaration:
            line, node = declaration["AllowedValues"]
            allowed = [str(_comparable(item)) for item in self._list(node, "AllowedValues")]
            if value not in allowed:
                raise TemplateFault(
                    line, f"parameter {name!r} is {value!r}: allowed are {', '.join(allowed)}"
                )
        if kind == "CommaDelimitedList" or str(kind).startswith("List<"):
            return [item.strip() for item in value.split(",")] if value else []
        return value

    def _text_at(self, node: Node, what: str) -> str:
        return _text(self.resolve(node), what, line_of(node))

    _functions: ClassVar[Mapping[str, "Callable[[Template, Node], Any]"]] = {
        "FindInMap": _find_in_map,
        "If": _if,
        "Join": _join,
        "Ref": _ref,
        "Select": _select,
        "Sub": _sub,
    }


def call_of(node: Node, plain: Sequence[str] = ("Ref",)) -> tuple[str, Node] | None:
    """Split `!Name argument` and `Fn::Name: argument` into name and argument.

    Args:
        node: any one.
        plain: names without `Fn::`; `Condition` is a function only inside Conditions.
    """
    if node.tag.startswith("!") and len(node.tag) > 1:
        return node.tag[1:], _untagged(node)
    if isinstance(node, MappingNode) and len(node.value) == 1:
        key, argument = node.value[0]
        name = str(key.value)
        if name in plain or name.startswith("Fn::"):
            return name.removeprefix("Fn::"), argument
    return None


def _untagged(node: Node) -> Node:
    kind = {ScalarNode: "str", SequenceNode: "seq", MappingNode: "map"}[type(node)]
    return type(node)(f"tag:yaml.org,2002:{kind}", node.value, node.start_mark, node.end_mark)


def _arguments(node: Node, function: str, count: int) -> list[Node]:
    if not isinstance(node, SequenceNode) or len(node.value) != count:
        plural = "argument" if count == 1 else "arguments"
        raise TemplateFault(line_of(node), f"Fn::{function} takes a list of {count} {plural}")
    return list(node.value)


def _literal(node: Node, function: str) -> str:
    if not isinstance(node, ScalarNode) or node.tag.startswith("!"):
        name = function if function in {"Ref", "Condition"} else f"Fn::{function}"
        raise TemplateFault(line_of(node), f"{name} takes a literal text here, not {shown(node)}")
    return str(node.value)


def _text(value: Any, what: str, line: int) -> str:
    """Return a value as CloudFormation writes it into text; lists and mappings have no such form."""
    if isinstance(value, str | bool | int | float):
        return str(_comparable(value))
    raise TemplateFault(line, f"{what} is {value!r}, which is no text: join or select from a list")


def _comparable(value: Any) -> Any:
    """CloudFormation compares texts: 5 equals "5", true equals "true"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _unknowable(line: int, what: str) -> TemplateFault:
    return TemplateFault(
        line, f"{what} cannot be known without AWS: write a literal value, or {RESOLVABLE}"
    )


def _near(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, list(known), n=3)
    return f" (near: {', '.join(near)})" if near else ""
