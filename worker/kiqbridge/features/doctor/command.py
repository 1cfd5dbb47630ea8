"""`kiqbridge doctor`: examine the running system (what waits, fails, dies or is missed), Redis, jobs and workers.

Each finding has its cause and what to do (docs/reference/doctor.md). Exit 0 if there is no problem, 1 if there
is one, 3 if Redis cannot be reached. Nothing is changed.

Each check only reads, and gives findings (`kiqbridge.features.doctor`). A check that the server refuses to this user ends as
`unknown`, not as a problem.
"""

import argparse
import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TextIO

from kiqbridge.api import open_operator
from kiqbridge.api.verdict import AREAS, Finding, Status
from kiqbridge.commands.arguments import add, add_example, add_json
from kiqbridge.commands.output import BOLD, DIM, answer, painter, write_json
from kiqbridge.errors import RedisUnavailable, did_you_mean
from kiqbridge.features.doctor.examination import CATALOGUE, examine, examine_template
from kiqbridge.features.doctor.finding import Selection, sentence
from kiqbridge.features.doctor.redis_server import REACHABLE
from kiqbridge.store.rights import NEEDS
from kiqbridge.wire.names import shown

UNREACHABLE: Final = 3
_COLOURS: Final = {
    Status.OK: "\033[32m",
    Status.WARNING: "\033[33m",
    Status.PROBLEM: "\033[31;1m",
    Status.UNKNOWN: "\033[36m",
}
_COUNTED: Final = {
    Status.PROBLEM: ("problem", "problems"),
    Status.WARNING: ("warning", "warnings"),
    Status.UNKNOWN: ("not known", "not known"),
    Status.OK: ("check found nothing wrong", "checks found nothing wrong"),
}
"""The worst first; what is counted, one of them and several."""
_INDENT: Final = " " * 9
_WORD: Final = 5
"""Characters of `why:`, `do:` and `run:` with the space behind them."""
_WIDEST: Final = 110
"""Longer lines are hard to read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which rules, and how to answer."""
    add_example(parser, "kiqbridge doctor --area redis --json")
    add_json(parser)
    add(parser, "--area AREA...", "only rules of this area; may be repeated", choices=AREAS)
    add(parser, "--rule RULE...", "only this rule", type=_rule)
    add(parser, "--ignore RULE...", "not this rule", type=_rule)
    text = "program whose rights this user must have; may be repeated (default: worker)"
    add(parser, "--needs ROLE...", text, choices=NEEDS)
    text = "after which the orchestrator kills a worker that is to stop"
    add(parser, "--stop-timeout SECONDS", text)
    text = "examine this template in place of a running system; needs neither Redis nor AWS"
    add(parser, "--template FILE", text, type=Path)
    add(parser, "--parameter NAME=VALUE...", "of the template; may be repeated")
    add(parser, "--strict", "exit 1 for warnings too")
    add(parser, "--all", "show the checks that found nothing wrong, too")
    add(parser, "--list", "print the rules, and examine nothing")


def run(options: argparse.Namespace) -> int:
    """Examine: 0 no problem, 1 there is one, 3 Redis cannot be reached."""
    selection = Selection(areas=options.area, rules=options.rule, ignored=options.ignore)
    if options.list:
        rules = [rule for rule in CATALOGUE.values() if selection.has(rule)]
        width = max((len(rule.id) for rule in rules), default=0)
        lines = (f"{rule.area:<9}{rule.id:<{width}}  {rule.reports}" for rule in rules)
        return answer(options, [asdict(rule) for rule in rules], lines)
    if options.template is not None:
        given = dict(item.partition("=")[::2] for item in options.parameter)
        findings = examine_template(options.template, parameters=given, selection=selection)
        return _answer(options, findings, {"template": str(options.template)})
    operator = open_operator(via="cli")
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
        rows = [{**asdict(each), "acts": [act._asdict() for act in each.acts]} for each in findings]
        write_json({**about, "ok": code == 0, "findings": rows})
    else:
        _write(sys.stdout, findings, every=options.all)
    return code


def _unreachable(text: str) -> Finding:
    what, _, action = text.partition("; ")
    return REACHABLE.problem(
        what, do=action or "wait until the server is done with it, or look at its log"
    )


def _write(stream: TextIO, findings: Sequence[Finding], *, every: bool) -> None:
    """What is wrong, the worst first, with why and what to do; the sum on the last line."""
    paint = painter(stream)
    # A line that goes into a file or a pipe stays one line, for those who search it.
    width = min(shutil.get_terminal_size().columns, _WIDEST) if stream.isatty() else sys.maxsize
    ranked = sorted(findings, key=lambda finding: list(_COUNTED).index(finding.status))
    for finding in ranked:
        is_ok = finding.status is Status.OK
        if is_ok and not every:
            continue
        text = _wrapped(f"{finding.rule}: {shown(finding.what)}", width, _INDENT)
        if not is_ok:
            text = text.replace(finding.rule, paint(BOLD, finding.rule), 1)
        status = paint(_COLOURS[finding.status], f"{finding.status:<{len(_INDENT)}}")
        stream.write(f"{status}{text}\n")
        if is_ok:
            continue
        why, do = sentence(shown(finding.why)), sentence(shown(finding.do))
        for word, more in (("why:", why), ("do:", do), ("run:", finding.command)):
            text = _wrapped(more, width, _INDENT + " " * _WORD)
            stream.write(f"{_INDENT}{paint(DIM, f'{word:<{_WORD}}')}{text}\n")
        stream.write("\n")
    sums = Counter(finding.status for finding in findings)
    words = [
        f"{sums[status]} {names[sums[status] != 1]}"
        for status, names in _COUNTED.items()
        if sums[status]
    ]
    begin = "all is well: " if set(sums) == {Status.OK} else ""
    hint = "" if every or not sums[Status.OK] else " (--all lists them)"
    stream.write(f"{begin}{', '.join(words)}{hint}; --list describes each rule\n")


def _wrapped(text: str, width: int, indent: str) -> str:
    """Lines of at most so many characters; all but the first begin with the indent."""
    if len(indent) + len(text) <= width:
        return text
    lines = textwrap.wrap(text, width - len(indent), break_long_words=False, break_on_hyphens=False)
    return f"\n{indent}".join(lines)


def _rule(text: str) -> str:
    if text in CATALOGUE:
        return text
    hint = did_you_mean(text, CATALOGUE, "; --list shows them")
    raise argparse.ArgumentTypeError(f"there is no rule {text!r}{hint}")
