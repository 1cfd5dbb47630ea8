"""`kiqbridge completion`: print the script by which bash, zsh or fish completes commands and options.

Load it in the shell's start file.
"""

import argparse

from kiqbridge.commands.arguments import add_example
from kiqbridge.commands.output import write
from kiqbridge.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shell."""
    parser.add_argument("shell", choices=["bash", "zsh", "fish"])
    add_example(parser, "kiqbridge completion bash > kiqbridge.bash")


def run(options: argparse.Namespace) -> int:
    """Print it.

    Raises:
        ConfigError: the package that makes it is not installed.
    """
    try:
        import shtab  # noqa: PLC0415 - only needed here, and may be missing
    except ImportError as error:
        raise ConfigError(
            "the package shtab, which makes completions, is not installed; run: pip install 'kiqbridge[cli]'"
        ) from error
    from kiqbridge.commands.cli import build_parser  # noqa: PLC0415 - it imports this module

    write(shtab.complete(build_parser([], complete=True), shell=options.shell) + "\n")
    return 0
