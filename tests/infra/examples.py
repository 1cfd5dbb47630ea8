"""The example sources of infra/examples, copied into the template as their first lines say."""

import copy
import functools
from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse

EXAMPLES = Path(__file__).parents[2] / "infra" / "examples"
# Lists that a copied piece is added to; every other list is of the piece alone.
ADDED_TO = ("Policies", "Statement")


CANARY = EXAMPLES / "canary.yaml"
"""About deployments; the others are sources."""


def example_files() -> list[Path]:
    return sorted(set(EXAMPLES.glob("*.yaml")) - {CANARY})


def with_examples(source: str, files: list[Path]) -> dict:
    """The template, its intrinsic functions in their long form, with these examples in it."""
    merged = copy.deepcopy(_parsed(source))
    for file in files:
        merged = _merge(merged, _parsed(file.read_text(encoding="utf-8")), "")
    return merged


@functools.cache
def _parsed(text: str) -> dict:
    """Not to be changed; reading a template takes longer than translating it."""
    return yaml_parse(text)


def _merge(into: Any, piece: Any, name: str) -> Any:
    if isinstance(into, dict) and isinstance(piece, dict):
        merged = dict(into)
        for key, value in piece.items():
            merged[key] = _merge(into[key], value, key) if key in into else copy.deepcopy(value)
        return merged
    if isinstance(into, list) and name in ADDED_TO:
        # Whoever has copied an example already has it once.
        return [*into, *(copy.deepcopy(item) for item in piece if item not in into)]
    return copy.deepcopy(piece)
