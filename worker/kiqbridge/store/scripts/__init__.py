"""The server-side scripts: one `.lua` file each, with what it does on top.

All of them compare raw bytes and can be repeated after a lost reply without a second effect. They
add to the destination first and remove from the source last, since a script is no transaction
(reliability §1).

What several scripts do is written once, in `parts/NAME.lua`; a line `-- include NAME` is replaced by
that text when a script is loaded. A part may include parts. Most of them define functions; `fence`
is a statement that returns. A feature has its scripts in a folder of its own, and parts of its own beside these; those
of another one are `FEATURE.NAME`.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from kiqbridge.runtime.digests import sha1
from kiqbridge.runtime.records import dataclass

FOLDER = Path(__file__).parent

_FOLDER = str(FOLDER)
_FEATURES = str(FOLDER.parents[1] / "features")
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
    folder = f"{str(beside).rpartition('/')[0]}/scripts"
    flags, _, code = _read(f"{folder}/{name}.lua").partition("\n")
    named = "".join(f"-- include {each}\n" for each in parts)
    return from_text(assemble(f"{flags}\n{named}{code}", folder))


def assemble(text: str, folder: str = _FOLDER) -> str:
    """Replace each include by its part, once: of the folder's own `parts`, else of ours; the same files give the same text.

    Raises:
        FileNotFoundError: there is no such part.
    """
    there = set[tuple[str, str]]()

    def put_in(text: str, folder: str) -> str:
        return _INCLUDE.sub(lambda line: part_of(line[1], folder), text)

    def part_of(name: str, folder: str) -> str:
        feature, _, part = name.rpartition(".")
        home, text = _part(part, f"{_FEATURES}/{feature}/scripts" if feature else folder)
        if (home, part) in there:
            return ""
        there.add((home, part))
        return put_in(text, home)

    return put_in(text, folder)


# Paths are plain texts: all scripts are loaded before a worker can start, and `pathlib` took half of that time.


@cache  # many scripts have the same parts
def _part(name: str, folder: str) -> tuple[str, str]:
    """The folder that has this part, and its text."""
    with suppress(OSError):
        return folder, _read(f"{folder}/parts/{name}.lua")
    return _FOLDER, _read(f"{_FOLDER}/parts/{name}.lua")


def _read(path: str) -> str:
    text: bytes = __loader__.get_data(path)  # type: ignore[name-defined]  # of a zip, too
    return text.decode()


def from_text(text: str) -> Script:
    """A script and its hash."""
    return Script(text=text, sha=sha1(text.encode(), usedforsecurity=False).hexdigest())
