"""The question before something is destroyed: with the number, and no by default."""

import argparse
import sys

from kiqbridge.errors import PayloadError
from kiqbridge.wire.names import printable


def add_yes(parser: argparse.ArgumentParser) -> None:
    """The option `--yes`."""
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask; for scripts")


def confirm(question: str, options: argparse.Namespace) -> bool:
    """Ask on the terminal, unless `--yes` was given; False is no, which is also the end of the input.

    Raises:
        PayloadError: there is no terminal to ask on, and no `--yes`.
    """
    if options.yes:
        return True
    if not sys.stdin.isatty():
        raise PayloadError(
            f"{printable(question)} Nobody can answer, as this is no terminal; nothing was changed. "
            "Repeat it with --yes, or look first with --dry-run"
        )
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip().lower()
    if answer in {"y", "yes"}:
        return True
    sys.stderr.write("Nothing was changed.\n")
    return False
