"""`kiqbridge deploy-mark`: mark a deployment on the Web UI's Metrics page: a line in its charts at this minute.

It is kept for 90 days. A label is marked once within a minute, however many machines mark it (protocol §12.5).
"""

import argparse
import subprocess
import time
from dataclasses import asdict

from kiqbridge.api.operator import open_operator
from kiqbridge.client.deploy_mark import DeployMark
from kiqbridge.commands.arguments import add, add_changing, add_example
from kiqbridge.commands.git import git
from kiqbridge.commands.output import answer
from kiqbridge.errors import PayloadError
from kiqbridge.features.deploy_marks.marks import minute_of, parse_label


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What was deployed."""
    add_example(parser, "kiqbridge deploy-mark v42")
    text = "name of the deployment (default: the last commit of the git repository here, as short hash and subject)"
    add(parser, "[LABEL]", text)
    add_changing(parser)


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
    document = asdict(mark) | {"dry_run": options.dry_run}
    return answer(options, document, [_sentence(mark, is_dry=options.dry_run)])


def _label_from_git() -> str:
    """Short hash, space, subject of the last commit, as Sidekiq's default is (§12.5)."""
    try:
        found = git("log", "-1", "--format=%h %s")
        if not found.returncode:
            return found.stdout.strip()
        reason = found.stderr.strip().partition("\n")[0]
        said = f"git knows none ({reason})"
    except (OSError, subprocess.TimeoutExpired) as error:
        said = f"git does not run ({error})"
    remedy = "name what was deployed: kiqbridge deploy-mark LABEL"
    raise PayloadError(f"label: none is given, and {said}; {remedy}")


def _sentence(mark: DeployMark, *, is_dry: bool) -> str:
    if is_dry:
        return f"would mark {mark.at}: {mark.label}"
    if mark.standing != mark.label:
        return f"not marked: {mark.standing!r} stands at {mark.at} already, and one mark is kept per minute"
    return f"{'marked' if mark.new else 'already marked'} {mark.at}: {mark.label}"
