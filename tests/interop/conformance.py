"""Prints what passes with Ruby Sidekiq, and how, out of the interop tests: the tables of docs/explanation/proofs.md on the site.

Each test says by `@pytest.mark.operation(NAME)` to which line it belongs, its module by `DIRECTION`
to which table; its name is the sentence, and values of a parametrised test count as cases.
"""

import contextlib
import io
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PROPER = {
    "python": "Python",
    "ruby": "Ruby",
    "rubys": "Ruby's",
    "csrf": "CSRF",
    "todays": "today's",
    "rails": "Rails",
    "pythons": "Python's",
    "sidekiq": "Sidekiq",
}


@dataclass(slots=True)
class Collected:
    """A pytest plugin that keeps the tests that were found, and what could not be placed."""

    items: list[pytest.Item] = field(default_factory=list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)


@dataclass(slots=True)
class Line:
    """One operation in one direction: sentence → number of cases."""

    sentences: dict[str, int] = field(default_factory=dict)

    @property
    def cases(self) -> int:
        return sum(self.sentences.values())

    def __str__(self) -> str:
        return "; ".join(
            text if cases == 1 else f"{text} ({cases} values)"
            for text, cases in self.sentences.items()
        )


def collect() -> list[pytest.Item]:
    plugin, output = Collected(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        options = ["--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        code = pytest.main([*options, f"--rootdir={FOLDER.parents[1]}", str(FOLDER)], [plugin])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"the interop tests cannot be collected:\n{output.getvalue()}")
    return plugin.items


def tables(items: list[pytest.Item]) -> dict[str, dict[str, Line]]:
    """Direction → operation → line, in the order of the tests."""
    found: dict[str, dict[str, Line]] = {}
    for item in items:
        if not item.get_closest_marker("interop"):
            continue
        direction = getattr(item.module, "DIRECTION", None)
        operation = item.get_closest_marker("operation")
        if direction is None or operation is None:
            raise SystemExit(
                f"{item.nodeid}: say where it belongs: DIRECTION in its module and "
                "@pytest.mark.operation(NAME) on the test"
            )
        line = found.setdefault(direction, {}).setdefault(operation.args[0], Line())
        text = sentence(item.originalname)
        line.sentences[text] = line.sentences.get(text, 0) + 1
    return found


def sentence(name: str) -> str:
    """`test_rubys_api_reads_a_jid` → "Ruby's api reads a jid"."""
    words = name.removeprefix("test_").split("_")
    return re.sub(r"\bperform (async|in|at|bulk)\b", r"`perform_\1`", _joined(words))


def _joined(words: list[str]) -> str:
    text = " ".join(PROPER.get(word, word) for word in words)
    for call in ("push bulk", "enqueue to in", "retry queue", "dedupe key"):
        text = text.replace(call, f"`{call.replace(' ', '_')}`")
    return text


def document() -> str:
    found = tables(collect())
    lines = [line for table in found.values() for line in table.values()]
    cases = sum(line.cases for line in lines)
    tests = sum(len(line.sentences) for line in lines)
    text = f"## Operation by operation\n\n{cases} cases in {tests} tests.\n"
    for direction, table in found.items():
        text += f"\n### {direction}\n\n| operation | asserted | cases |\n|---|---|---|\n"
        text += "".join(f"| {name} | {line} | {line.cases} |\n" for name, line in table.items())
    return text


if __name__ == "__main__":
    sys.stdout.write(document())
