"""Words that the code and the documents do not use, and what to write instead."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTEAD = {
    r"told|tells?|telling": "log, report, notify, pass, parse, distinguish",
    r"mend(s|ed|ing)?": "fix",
    r"who(m|ever)": "the worker, the client, the user: the one that is meant",
    r"nobody's|somebody's": "the owner by its name",
    r"nobody(?!['\"`])": "no process, no worker, no user: the one that is meant",
    r"nor (does|do|is|are|has|have|can)": "and it does not",
    r"c(o|a)mes? about": "is made, is pushed, happens",
    r"th(at|ose) of another( one)?": "the owner by its name",
    r"in the midst|amid": "during, within, while",
    r"hence|thus|whence": "so",
    r"lives? no more|not ours any more": "is gone, belongs to another worker now",
    r"what it is not": "the text of the error",
}
READ = ("worker/kiqbridge/**/*.py", "worker/kiqbridge/**/*.lua", "README.md", "docs/**/*.md")
NOT_READ = {"docs/protocol.md"}
"""The protocol's own words."""


def test_a_line_says_what_happens_in_the_terms_of_the_field():
    assert unwanted(ROOT) == []


def test_a_word_is_found_with_its_place(tmp_path):
    (tmp_path / "README.md").write_text("It reports.\nIt Tells.\n")

    assert unwanted(tmp_path) == [
        "README.md:2: 'Tells': write log, report, notify, pass, parse, distinguish"
    ]


def unwanted(root: Path) -> list[str]:
    return [
        f"{name}:{number}: {found[0]!r}: write {instead}"
        for pattern in READ
        for path in sorted(root.glob(pattern))
        if (name := path.relative_to(root).as_posix()) not in NOT_READ
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for words, instead in INSTEAD.items()
        for found in re.finditer(rf"\b({words})\b", line, re.IGNORECASE)
    ]


def test_a_docstring_says_what_a_thing_does_and_not_what_else_does_it():
    paths = sorted((ROOT / "worker/kiqbridge").rglob("*.py"))

    assert [path for path in paths if '"""As `' in path.read_text(encoding="utf-8")] == []
