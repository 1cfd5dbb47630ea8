"""The server-side scripts: one `.lua` file each, with what it does on top.

All of them compare raw bytes and can be repeated after a lost reply without a second effect. They
add to the destination first and remove from the source last, since a script is no transaction
(reliability §1).

What several scripts do is written once, in `parts/NAME.lua`; a line `-- include NAME` is replaced by
that text when a script is loaded. A part may include parts. Most of them define functions; `fence`
is a statement that returns. A feature has its scripts in a folder of its own, and parts of its own beside these; those
of another one are `FEATURE.NAME`.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from kiqbridge.runtime.records import dataclass

FOLDER = Path(__file__).parent
PARTS = FOLDER / "parts"
FEATURES = FOLDER.parents[1] / "features"

_INCLUDE = re.compile(r"^-- include ([\w.]+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """Text of one script, as the server gets it, and the hash under which the server knows it."""

    text: str
    sha: str


def load(name: str, beside: str | Path = FOLDER, *, parts: Iterable[str] = ()) -> Script:
    """Read `name`.lua from the folder `scripts` beside a module, by default this one, and put its parts in.

    Args:
        name: of the file.
        beside: the module.
        parts: which it includes besides those that it names.

    Raises:
        FileNotFoundError: there is no such script, or no such part.
    """
    folder = Path(beside).parent / "scripts"
    flags, _, code = _read(f"{folder}/{name}.lua").partition("\n")
    named = "".join(f"-- include {each}\n" for each in parts)
    return from_text(assemble(f"{flags}\n{named}{code}", folder))


def assemble(text: str, folder: Path = FOLDER) -> str:
    """Replace each include by its part, once: of the folder's own `parts`, else of ours; the same files give the same text.

    Raises:
        FileNotFoundError: there is no such part.
    """
    there = set[Path]()

    def put_in(text: str, folder: Path) -> str:
        return _INCLUDE.sub(lambda line: part_at(_place_of(line[1], folder)), text)

    def part_at(place: Path) -> str:
        if place in there:
            return ""
        there.add(place)
        return put_in(_read(str(place)), place.parents[1])

    return put_in(text, folder)


@cache  # many scripts have the same parts, and all are loaded before a worker can start
def _place_of(name: str, folder: Path) -> Path:
    feature, _, part = name.rpartition(".")
    if feature:
        folder = FEATURES / feature / "scripts"
    own = folder / "parts" / f"{part}.lua"
    return own if folder != FOLDER and own.exists() else PARTS / f"{part}.lua"


@cache
def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a third of the time of a Path's
        return file.read()


def from_text(text: str) -> Script:
    """A script and its hash."""
    return Script(text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
