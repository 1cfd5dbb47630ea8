"""`kiqbridge doctor`: what is wrong with the Redis that jobs are trusted to, and what to do."""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from kiqbridge.config import merge
from kiqbridge.doctor import Finding, Status, examine
from kiqbridge.errors import RedisUnavailable
from kiqbridge.keys import Keys
from kiqbridge.redis_connection import RedisPool

UNREACHABLE = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How to answer."""
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(options: argparse.Namespace) -> int:
    """Examine the server: 0 all is well, 1 something is wrong, 3 it cannot be reached."""
    config = merge(environ=os.environ, flags={})
    pool = RedisPool(config.redis_url)
    code = 0
    try:
        findings = examine(pool, Keys(config.namespace))
    except RedisUnavailable as error:
        findings, code = [_unreachable(str(pool.probe(error) or error))], UNREACHABLE
    if any(finding.status is Status.PROBLEM for finding in findings):
        code = code or 1
    if options.json:
        answer = {
            "redis": pool.address,
            "ok": code == 0,
            "findings": [asdict(finding) for finding in findings],
        }
        sys.stdout.write(json.dumps(answer) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(findings)))
    return code


def _unreachable(text: str) -> Finding:
    what, _, action = text.partition("; ")
    return Finding(
        check="reachable",
        status=Status.PROBLEM,
        what=what,
        why="nothing can be pushed or performed",
        action=action or "wait until the server is done with it, or look at its log",
    )


def _lines(findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<8} {finding.check}: {finding.what}")
        lines += [f"{'':<9}why: {finding.why}"] if finding.why else []
        lines += [f"{'':<9}do:  {finding.action}"] if finding.action else []
    return lines
