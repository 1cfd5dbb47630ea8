"""`kiqbridge deploy-mark`: mark a deployment in the Web UI's charts (protocol §12.5)."""

import argparse
import subprocess
import time
from dataclasses import asdict

from kiqbridge.api.operator import open_operator
from kiqbridge.commands.arguments import add_example, add_json, add_option, add_switch
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.errors import PayloadError
from kiqbridge.store.deploy import DeployMark, minute_of, parse_label

GIT_TIMEOUT_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What was deployed."""
    add_example(parser, "kiqbridge deploy-mark v42")
    add_option(
        parser,
        "label",
        "LABEL",
        "what was deployed (default: the last commit of the git repository here, as short hash and "
        "subject)",
        nargs="?",
    )
    add_json(parser)
    add_switch(parser, "--dry-run", "only print what would be marked")


def run(options: argparse.Namespace) -> int:
    """Mark a deployment; 0 also if it was marked before.

    Raises:
        PayloadError: no label, and git knows none.
        RedisUnavailable: nothing was written.
    """
    label = parse_label(_label_from_git() if options.label is None else options.label)
    if options.dry_run:
        at = minute_of(time.time())
        mark = DeployMark(label=label, at=at, standing=label, new=False)
    else:
        client = open_operator(via="cli").client
        try:
            mark = client.deploy_mark(label)
        finally:
            client.close()
    if options.json:
        write_json(asdict(mark) | {"dry_run": options.dry_run})
    else:
        write_line(_sentence(mark, is_dry=options.dry_run))
    return 0


def _label_from_git() -> str:
    """Short hash, space, subject of the last commit, as Sidekiq's default is (§12.5)."""
    remedy = "name what was deployed: kiqbridge deploy-mark LABEL"
    try:
        git = subprocess.run(
            ["git", "log", "-1", "--format=%h %s"],  # noqa: S607 - the user's own git
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PayloadError(
            f"label: none is given, and git does not run ({error}); {remedy}"
        ) from error
    if git.returncode:
        reason = git.stderr.decode(errors="replace").strip().partition("\n")[0]
        raise PayloadError(f"label: none is given, and git knows none ({reason}); {remedy}")
    return git.stdout.decode(errors="replace").strip()


def _sentence(mark: DeployMark, *, is_dry: bool) -> str:
    if is_dry:
        return f"would mark {mark.at}: {mark.label}"
    if mark.standing != mark.label:
        return f"not marked: {mark.standing!r} stands at {mark.at} already, and one mark is kept per minute"
    return f"{'marked' if mark.new else 'already marked'} {mark.at}: {mark.label}"
