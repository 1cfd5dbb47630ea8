"""Reading our Markdown documents: fenced blocks, links, and what is named in backticks."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kiqbridge.config.client_settings import CLIENT_SETTINGS
from kiqbridge.config.config import SETTINGS
from kiqbridge.config.function_settings import FUNCTION_SETTINGS
from kiqbridge.config.web_settings import WEB_SETTINGS

ROOT = Path(__file__).parents[2]
ALL_SETTINGS = [
    *SETTINGS,
    *(each for each in CLIENT_SETTINGS if each not in SETTINGS),
    *FUNCTION_SETTINGS,
    *WEB_SETTINGS,
]
_FENCE = re.compile(r'^```(\w*)(?: title="[^"]+")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_SUBSTITUTION = re.compile(r"^[A-Z_]+=\$\((.*)\)$")
_ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=.*")


def documents() -> list[Path]:
    """The README, those of infra/ and contrib/ruby/, CONTRIBUTING, SECURITY, and all that lies under docs/."""
    readmes = [
        ROOT / name
        for name in (
            "README.md",
            "infra/README.md",
            "contrib/ruby/README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
        )
    ]
    return [*readmes, *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A fenced block; `number` counts those of its document from 1."""

    document: str
    heading: str
    number: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}, block {self.number} ({self.language}) under {self.heading!r}"

    @property
    def commands(self) -> list["Command"]:
        """The commands of a shell block, in order."""
        lines = self.text.replace("\\\n", " ").split("\n")
        return [Command.parse(line) for line in lines if line.split("#")[0].strip()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One shell command: variables set before it, and its words."""

    variables: dict[str, str]
    words: list[str]

    @classmethod
    def parse(cls, line: str) -> "Command":
        words = shlex.split(_SUBSTITUTION.sub(r"\1", line.strip()), comments=True)
        if words[-2:] == [">", "/dev/null"]:
            words = words[:-2]
        if words[0] == "export":
            words = words[1:]
        variables = {}
        while words and _ASSIGNMENT.fullmatch(words[0]):
            name, _, variables[name] = words.pop(0).partition("=")
        return cls(variables=variables, words=words)

    @property
    def name(self) -> str:
        """What a reader calls it: the program and its verb, such as `make up`."""
        return " ".join(self.words[:2])


def blocks() -> list[Block]:
    return [block for path in documents() for block in _blocks_of(path)]


def _blocks_of(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for number, found in enumerate(_FENCE.finditer(text), 1):
        headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", text[: found.start()]), re.MULTILINE)
        yield Block(
            document=path.relative_to(ROOT).as_posix(),
            heading=headings[-1] if headings else "",
            number=number,
            language=found[1],
            text=found[2],
        )


def rows(text: str) -> list[list[str]]:
    """The cells of each row of its tables, without the lines below the headings."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def prose(path: Path) -> str:
    """A document without its blocks."""
    return _FENCE.sub("", path.read_text(encoding="utf-8"))


def quoted(path: Path) -> list[str]:
    """Everything in backticks outside of blocks."""
    return re.findall(r"`([^`\n]+)`", prose(path))
