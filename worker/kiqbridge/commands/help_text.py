"""The form of help texts: examples keep their lines, and can be found by those who run them."""

import argparse
from collections.abc import Sequence
from typing import Final

_HEADING: Final = "example:"


class HelpFormatter(argparse.HelpFormatter):
    """As the original, which would join the lines of an example."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith(_HEADING):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


def add_example(parser: argparse.ArgumentParser, *commands: str) -> None:
    """Command lines that work, for the end of a help text."""
    parser.epilog = "\n  ".join((_HEADING, *commands))


def examples_of(parser: argparse.ArgumentParser) -> Sequence[str]:
    """The command lines that `add_example` was given."""
    lines = (parser.epilog or "").splitlines()
    return [line.strip() for line in lines[1:]] if lines[:1] == [_HEADING] else []
