"""`kiqbridge init`: write an app: jobs, tests, a Makefile, an image, and with --lambda what AWS needs.

That is a template with a cron rule, its functions and the build. A file that is there stays as it is, unless --force
is given. Each file is printed, and what to do next.
"""

import argparse
import re
import shlex
from pathlib import Path
from typing import Final

from kiqbridge.commands.arguments import add, add_example
from kiqbridge.commands.output import write
from kiqbridge.dev.scaffold.app_files import App, app_files
from kiqbridge.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,62}(?<!-)")
"""What a package and a stack of CloudFormation may both be called."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, and what."""
    text = "folder of the app; made if it is not there (default: the current one)"
    add(parser, "[DIR]", text, type=Path, default=Path())
    text = "lower-case letters, digits and hyphens; the package and the stack are called so (default: the name of "
    text += "the folder)"
    add(parser, "--name NAME", text, type=_name)
    text = "template with a cron rule, functions and build for AWS (default: with them)"
    add(parser, "--lambda", text, action=argparse.BooleanOptionalAction, default=True)
    add(parser, "--force", "overwrite files that are there")
    add(parser, "--dry-run", "print what would be written, and write nothing")
    add_example(parser, "kiqbridge init shop", "kiqbridge init shop --no-lambda --dry-run")


def run(options: argparse.Namespace) -> int:
    """Write the files that are not there yet.

    Raises:
        ConfigError: the folder has no usable name, or cannot be written to; or this installation lacks the files.
    """
    folder: Path = options.dir
    name = options.name or name_of(folder)
    files = app_files(App(name=name, with_lambda=options.lambda_))
    for path, text in sorted(files.items()):
        target = folder / path
        try:
            is_there = target.is_symlink() or target.exists()
            if is_there and not options.force:
                write(f"kept         {target} (it is there; --force overwrites it)\n")
                continue
            if not options.dry_run:
                # Write one file; a link in its place is replaced, not followed.
                target.parent.mkdir(parents=True, exist_ok=True)
                if target.is_symlink():
                    target.unlink()
                target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise ConfigError(
                f"{target}: cannot be written: {error.strerror}; choose another folder, or correct that and "
                "run this again: existing files are kept"
            ) from error
        verb = "overwritten" if is_there else "written"
        write(f"{f'would be {verb}' if options.dry_run else verb:<12} {target}\n")
    if not options.dry_run:
        # The next commands.
        there = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
        commands = [
            *there,
            "make test     # sets up what it needs, then runs the tests",
            "make up       # server, cron rules, worker and page on this machine",
            *([] if there else ["make help     # the other commands"]),
        ]
        write("".join(("\nNext:\n", *(f"  {line}\n" for line in commands))))
    return 0


def name_of(folder: Path) -> str:
    """The name of an app in a folder of this name.

    Raises:
        ConfigError: nothing usable is in it.
    """
    base = folder.resolve().name
    name = re.sub(r"[^a-z0-9]+", "-", base.lower()).strip("-")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{base!r}: no name for an app can be made of that; give one with --name, such as --name shop"
        )
    return name


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} does not begin with a lower-case letter, or holds more than those, digits and hyphens "
            "between them, or is longer than 63 characters"
        )
    return text
