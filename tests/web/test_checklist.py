"""tests/web/checklist.md: each line of its checklist names a test that exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)` \|$")


def names_in(path):
    """Names of a test file's functions, those of classes after the class."""
    found = set()
    for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}::{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


def lines():
    text = Path(__file__).with_name("checklist.md").read_text(encoding="utf-8")
    return text.partition("|---|---|---|\n")[2].splitlines()


def test_each_line_names_a_test_that_exists():
    found = [(line, NAMED.search(line)) for line in lines()]

    assert len(found) > 30
    assert [line for line, named in found if named is None] == []
    assert [named[0] for _, named in found if named[2] not in names_in(named[1])] == []
