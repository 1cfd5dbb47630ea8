"""A loader of YAML whose aliases may not stand for much more than the file says: a short one could fill the memory.

Anchors and merge keys (`<<: *default`) are common in files of Rails, so they are followed up to a bound.
"""

from typing import Final

import yaml
from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode

ALIASED_NODES: Final = 10_000
"""Values that all aliases of a file may stand for; a long text counts as several."""

_TEXT: Final = 64
"""Characters of a text that count as one value."""


class BoundError(yaml.MarkedYAMLError):
    """A document is nested too deeply, or its aliases stand for too much; `line` is where, from 1."""

    def __init__(self, text: str, mark: Mark) -> None:
        super().__init__(problem=text, problem_mark=mark)
        self.text, self.line = text, int(mark.line) + 1


class BoundedLoader(yaml.SafeLoader):
    """As SafeLoader; raises `BoundError` before anything is constructed or expanded."""

    def compose_document(self) -> Node | None:
        """The one document."""
        try:
            node: Node | None = super().compose_document()
            if node is not None:
                _measure(node, {})
        except RecursionError as error:
            raise BoundError("it is nested too deeply", self.get_mark()) from error
        return node


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
