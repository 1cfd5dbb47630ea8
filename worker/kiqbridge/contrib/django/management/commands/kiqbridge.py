"""`manage.py kiqbridge …`: the command line of Kiqbridge, with the project set up.

`worker` without `-r` loads the jobs of all installed applications. All else is as on the command line.
"""

import os
import sys
from argparse import REMAINDER
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from kiqbridge.commands.cli import main

_JOBS = "kiqbridge.contrib.django.all_jobs"


class Command(BaseCommand):
    """The Django command `kiqbridge`."""

    help = "Runs the command line of Kiqbridge, such as `worker`, with this project set up."
    requires_system_checks: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Pass all words on as they are; Django has taken --settings and --pythonpath."""
        _pass_path_on(Path(argv[0]).resolve().parent)
        sys.exit(main(_with_jobs(_own_words(argv[2:]))))

    def add_arguments(self, parser: CommandParser) -> None:
        """For `call_command`."""
        parser.add_argument("words", nargs=REMAINDER)

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run a command of `kiqbridge` for `call_command("kiqbridge", "stats")`.

        Raises:
            CommandError: the command failed; `returncode` is its exit code.
        """
        words = options["words"]
        code = main(_with_jobs(words))
        if code:
            raise CommandError(f"kiqbridge {' '.join(words)} failed", returncode=code)


def _pass_path_on(folder: Path) -> None:
    """Let child processes, which are started without `manage.py`, find what lies beside it."""
    if str(folder) in sys.path:
        inherited = os.environ.get("PYTHONPATH", "")
        if str(folder) not in inherited.split(os.pathsep):
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), inherited]))


def _own_words(words: Sequence[str]) -> list[str]:
    """Without the options that Django has read."""
    own: list[str] = []
    is_value = False
    for word in words:
        if is_value:
            is_value = False
        elif word in {"--settings", "--pythonpath"}:
            is_value = True
        elif not word.startswith(("--settings=", "--pythonpath=")):
            own.append(word)
    return own


def _with_jobs(words: Sequence[str]) -> list[str]:
    given = list(words)
    if given[:1] != ["worker"] or any(
        word == "--require" or word.startswith(("-r", "--require=")) for word in given
    ):
        return given
    return ["worker", "-r", _JOBS, *given[1:]]
