"""A loader of YAML whose aliases may not stand for much more than the file says: a short one could fill the memory.

Anchors and merge keys (`<<: *default`) are common in files of Rails, so they are followed up to a bound.
"""

from typing import TYPE_CHECKING, Any, Final

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent
from yaml.nodes import MappingNode, Node, ScalarNode

if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:  # by libyaml where PyYAML has it: ten times faster
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

DEEPEST: Final = 200
"""Levels of lists and mappings; libyaml ends the process by far more of them."""

ALIASED_NODES: Final = 10_000
"""Values that all aliases of a file may stand for; a long text counts as several."""

_TEXT: Final = 64
"""Characters of a text that count as one value."""


class BoundError(yaml.MarkedYAMLError):
    """A document is nested too deeply, or its aliases stand for too much; `line` is where, from 1."""

    def __init__(self, text: str, mark: Any) -> None:
        super().__init__(problem=text, problem_mark=mark)
        self.text, self.line = text, int(mark.line) + 1


class BoundedLoader(_Loader):
    """As SafeLoader, of a text; raises `BoundError` before anything is constructed or expanded."""

    def __init__(self, text: str) -> None:
        _check_depth(text)
        super().__init__(text)

    def get_single_node(self) -> Node | None:
        """The one document."""
        node: Node | None = super().get_single_node()
        if node is not None:
            _measure(node, {})
        return node


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise BoundError("it is nested too deeply", event.start_mark)
        elif isinstance(event, CollectionEndEvent):
            depth -= 1


def _measure(node: Node, known: dict[int, int | None]) -> tuple[int, int]:
    """The values of a node with its aliases written out, and how many of them stand there by aliases."""
    size = known.get(id(node), 0)
    if size is None:
        raise BoundError("an anchor contains itself; remove its alias", node.start_mark)
    if size:
        return size, size
    known[id(node)] = None
    size, aliased = 1, 0
    if isinstance(node, ScalarNode):
        size += len(node.value) // _TEXT
    else:
        is_mapping = isinstance(node, MappingNode)
        children = [each for pair in node.value for each in pair] if is_mapping else node.value
        for child in children:
            more, by_alias = _measure(child, known)
            size, aliased = size + more, aliased + by_alias
    if aliased > ALIASED_NODES:
        raise BoundError(
            f"aliases (*name) stand for more than {ALIASED_NODES:,} values from this line on; use fewer of them",
            node.start_mark,
        )
    known[id(node)] = size
    return size, aliased
