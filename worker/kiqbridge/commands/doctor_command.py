"""`kiqbridge doctor`: what is wrong with Redis, the jobs in it and the workers, and what to do about it.

Each check only reads, and gives findings (`kiqbridge.doctor`). A check that the server refuses to this
user ends as `unknown`, not as a problem.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TextIO

from kiqbridge.api import open_operator
from kiqbridge.commands.help_text import add_example
from kiqbridge.doctor import AREAS, CATALOGUE, Finding, Selection, Status, examine, examine_template
from kiqbridge.doctor.redis_rights import NEEDS
from kiqbridge.doctor.redis_server import REACHABLE
from kiqbridge.errors import RedisUnavailable
from kiqbridge.wire.names import shown

UNREACHABLE: Final = 3
_COLOURS: Final = {
    Status.OK: "\033[32m",
    Status.WARNING: "\033[33m",
    Status.PROBLEM: "\033[31;1m",
    Status.UNKNOWN: "\033[36m",
}
_BOLD, _DIM, _RESET = "\033[1m", "\033[2m", "\033[0m"
_WORST_FIRST: Final = (Status.PROBLEM, Status.WARNING, Status.UNKNOWN, Status.OK)
_INDENT: Final = " " * 11


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which rules, and how to answer."""
    add_example(parser, "kiqbridge doctor --area redis --json")
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    parser.add_argument(
        "--area",
        action="append",
        choices=AREAS,
        default=[],
        help="only rules of this area; may be repeated",
    )
    parser.add_argument(
        "--rule", action="append", default=[], metavar="RULE", type=_rule, help="only this rule"
    )
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="RULE", type=_rule, help="not this rule"
    )
    parser.add_argument(
        "--needs",
        action="append",
        choices=NEEDS,
        default=[],
        help="whose rights this user must have; may be repeated (default: worker)",
    )
    parser.add_argument(
        "--stop-timeout",
        type=float,
        metavar="SECONDS",
        help="after which the orchestrator kills a worker that is to stop",
    )
    parser.add_argument(
        "--template",
        type=Path,
        metavar="FILE",
        help="examine this template in place of a running system; needs neither Redis nor AWS",
    )
    parser.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of the template; may be repeated",
    )
    parser.add_argument("--strict", action="store_true", help="exit 1 for warnings too")
    parser.add_argument("--list", action="store_true", help="print the rules, and examine nothing")


def run(options: argparse.Namespace) -> int:
    """Examine: 0 all is well, 1 something is wrong, 3 Redis cannot be reached."""
    selection = Selection(areas=options.area, rules=options.rule, ignored=options.ignore)
    if options.list:
        return _list(selection, as_json=options.json)
    if options.template is not None:
        given = dict(item.partition("=")[::2] for item in options.parameter)
        findings = examine_template(options.template, parameters=given, selection=selection)
        return _answer(options, findings, {"template": str(options.template)})
    return _examine(options, selection)


def _examine(options: argparse.Namespace, selection: Selection) -> int:
    operator = open_operator(via="cli")
    if options.only_shards:
        operator = operator.limited_to(tuple(dict.fromkeys(options.only_shards)))
    code = 0
    try:
        findings = examine(
            operator,
            environ=os.environ,
            selection=selection,
            needs=options.needs or ["worker"],
            stop_timeout_s=options.stop_timeout,
        )
    except RedisUnavailable as error:
        findings, code = [_unreachable(str(operator.pool.probe(error) or error))], UNREACHABLE
    return _answer(options, findings, {"redis": operator.pool.address}, code)


def _answer(
    options: argparse.Namespace,
    findings: Sequence[Finding],
    about: Mapping[str, str],
    code: int = 0,
) -> int:
    """Write the findings, and return the exit code."""
    bad = {Status.PROBLEM, Status.WARNING} if options.strict else {Status.PROBLEM}
    code = code or int(any(finding.status in bad for finding in findings))
    if options.json:
        # `check` is what a rule was called before there were areas.
        rows = [{"check": finding.rule, **asdict(finding)} for finding in findings]
        sys.stdout.write(json.dumps({**about, "ok": code == 0, "findings": rows}) + "\n")
    else:
        _write(sys.stdout, findings)
    return code


def _list(selection: Selection, *, as_json: bool) -> int:
    rules = [rule for rule in CATALOGUE.values() if selection.has(rule)]
    if as_json:
        sys.stdout.write(json.dumps([asdict(rule) for rule in rules]) + "\n")
    else:
        width = max((len(rule.id) for rule in rules), default=0)
        lines = [f"{rule.area:<9}{rule.id:<{width}}  {rule.reports}\n" for rule in rules]
        sys.stdout.write("".join(lines))
    return 0


def _unreachable(text: str) -> Finding:
    what, _, action = text.partition("; ")
    return REACHABLE.problem(
        what, action=action or "wait until the server is done with it, or look at its log"
    )


def _write(stream: TextIO, findings: Sequence[Finding]) -> None:
    """The findings of each area, the worst first, with why and what to do; the sum on the last line."""
    colour = stream.isatty() and not os.environ.get("NO_COLOR")
    bold, dim, reset = (_BOLD, _DIM, _RESET) if colour else ("", "", "")
    for area in AREAS:
        own = sorted(
            (finding for finding in findings if finding.area == area),
            key=lambda finding: _WORST_FIRST.index(finding.status),
        )
        if own:
            stream.write(f"{bold}{area}{reset}\n")
        for finding in own:
            shade = _COLOURS[finding.status] if colour else ""
            name = finding.rule if finding.status is Status.OK else f"{bold}{finding.rule}{reset}"
            lines = [f"  {shade}{finding.status:<8}{reset} {name}: {shown(finding.what)}"]
            if finding.why:
                lines.append(f"{_INDENT}{dim}why:{reset} {shown(finding.why)}")
            if finding.action:
                lines.append(f"{_INDENT}{dim}do:{reset}  {shown(finding.action)}")
            stream.write("".join(f"{line}\n" for line in lines))
    sums = Counter(finding.status for finding in findings)
    words = [f"{sums[status]} {status}" for status in _WORST_FIRST if sums[status]]
    stream.write(f"{', '.join(words)}; docs/doctor.md describes each rule\n")


def _rule(text: str) -> str:
    if text not in CATALOGUE:
        import difflib  # noqa: PLC0415 - only to help with an error

        near = difflib.get_close_matches(text, CATALOGUE, n=1)
        hint = f"; did you mean {near[0]}?" if near else "; --list shows them"
        raise argparse.ArgumentTypeError(f"there is no rule {text!r}{hint}")
    return text
