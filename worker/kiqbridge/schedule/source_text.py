"""What a file says beside a schedule that its values do not: comments for the check, a zone that is written down."""

import re
from collections.abc import Sequence
from typing import Final

_IGNORE: Final = re.compile(r"#\s*lint:\s*ignore\s+([A-Z]{2}[0-9]{3}(?:[\s,]+[A-Z]{2}[0-9]{3})*)")
_ZONE: Final = re.compile(r"([^#]*[\s{,])?[\"']?(ScheduleExpressionTimezone|timezone)[\"']?\s*:")


def block_of(lines: Sequence[str], line: int) -> list[str]:
    """The lines of a mapping in YAML: the comments above its key, the key, and what is indented below it.

    Args:
        lines: of the file.
        line: that of the key, counted from 1.
    """
    first = line - 1
    depth = _depth(lines[first])
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _depth(lines[end]) > depth):
        end += 1
    while first > 0 and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return list(lines[first:end])


def ignored_codes(block: Sequence[str]) -> frozenset[str]:
    """The codes that comments such as `# lint: ignore KB104, KB106` name."""
    found = (match[1] for text in block if (match := _IGNORE.search(text)))
    return frozenset(code for codes in found for code in re.findall(r"[A-Z]{2}[0-9]{3}", codes))


def names_zone(block: Sequence[str]) -> bool:
    """Whether a zone is written down."""
    return any(_ZONE.match(text) for text in block)


def _depth(text: str) -> int:
    return len(text) - len(text.lstrip())
