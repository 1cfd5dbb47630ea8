"""`python -m kiqbridge.commands.build_manifest`: the manifest of the template's schedules, for the layer.

The layer must have the same bytes for the same sources, wherever it is built. So the version is no time of the
build, but that of the newest change of what the manifest is made of:

1. SOURCE_DATE_EPOCH, if the environment has it (reproducible-builds.org);
2. else the time of the newest commit that changed the template, while git knows no other change of it;
3. else the time at which the file was changed.

Answers of `make deploy` that change a schedule count with the time of their file.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.check import read_answers
from kiqbridge.schedule.manifest import Manifest, build_manifest
from kiqbridge.schedule.template import TemplateError

GIT_TIMEOUT_S = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the manifest of a template; the exit code is 0, or 1 if it has faults."""
    parser = argparse.ArgumentParser(
        prog="python -m kiqbridge.commands.build_manifest", description=main.__doc__
    )
    parser.add_argument("template", type=Path)
    parser.add_argument("--answers", type=Path, metavar="SAMCONFIG")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        manifest = manifest_of(options.template, options.answers, os.environ)
    except TemplateError as error:
        sys.stderr.writelines(f"error: {problem}\n" for problem in error.problems)
        return 1
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    options.output.write_text(manifest.to_text(), encoding="utf-8")
    return 0


def manifest_of(template: Path, answers: Path | None, environ: Mapping[str, str]) -> Manifest:
    """The manifest of a template as it is deployed.

    Args:
        template: the file.
        answers: configuration file of SAM with the parameters; None or no file = the defaults.
        environ: the environment.

    Raises:
        TemplateError, ConfigError: it has faults.
    """
    given = read_answers(answers, template) if answers is not None else {}
    manifest = build_manifest(template, given, version=_version(template, environ))
    if not given or answers is None or environ.get("SOURCE_DATE_EPOCH"):
        return manifest
    if build_manifest(template, version=manifest.version).hash == manifest.hash:
        return manifest
    version = max(manifest.version, int(answers.stat().st_mtime))
    return Manifest(version=version, schedules=manifest.schedules)


def _version(template: Path, environ: Mapping[str, str]) -> int:
    given = environ.get("SOURCE_DATE_EPOCH", "")
    if given:
        if not given.isdecimal():
            raise ConfigError(f"SOURCE_DATE_EPOCH: {given!r} is no number of epoch seconds")
        return int(given)
    committed = _committed_at(template)
    if committed is not None:
        return committed
    try:
        return int(template.stat().st_mtime)
    except OSError as error:
        raise ConfigError(f"{template}: cannot be read: {error.strerror}") from error


def _committed_at(template: Path) -> int | None:
    """When the file was committed last; None: it differs from that, or there is no git."""
    if _git(template, "status", "--porcelain", "--ignored") != "":
        return None
    at = _git(template, "log", "-1", "--format=%ct")
    return int(at) if at and at.isdecimal() else None


def _git(template: Path, *arguments: str) -> str | None:
    """What git says of the file; None: there is no git, or the file is not its own."""
    git = shutil.which("git")
    if git is None:
        return None
    command = [git, "-C", str(template.resolve().parent), *arguments, "--", template.name]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments and the name of a file
            command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
