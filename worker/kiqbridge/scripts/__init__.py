"""The server-side scripts: one `.lua` file each, with what it does on top.

All of them compare raw bytes and can be repeated after a lost reply without a second effect. They
add to the destination first and remove from the source last, since a script is no transaction.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Script:
    """Text of one script and the hash under which a server knows it."""

    text: str
    sha: str


def load(name: str) -> Script:
    """Read `name`.lua from this folder."""
    return from_text((_FOLDER / f"{name}.lua").read_text(encoding="utf-8"))


def from_text(text: str) -> Script:
    """A script and its hash."""
    return Script(text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
