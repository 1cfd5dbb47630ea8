"""`kiqbridge doctor`: what is wrong with Redis, the jobs in it and the workers, and what to do about it.

Each check only reads, and gives findings (`kiqbridge.doctor`). A check that the server refuses to this
user ends as `unknown`, not as a problem.
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
from kiqbridge.commands.arguments import add_example, add_json, add_list, add_option, add_switch
from kiqbridge.commands.output import BOLD, DIM, RESET, has_colours, write_json
from kiqbridge.doctor import AREAS, CATALOGUE, Finding, Selection, Status, examine, examine_template
from kiqbridge.doctor.redis_rights import NEEDS
from kiqbridge.doctor.redis_server import REACHABLE
from kiqbridge.errors import RedisUnavailable, did_you_mean
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
"""Characters of `why:` and `do:` with the space behind them."""
_WIDEST: Final = 110
"""Longer lines are hard to read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which rules, and how to answer."""
    add_example(parser, "kiqbridge doctor --area redis --json")
    add_json(parser)
    parser.add_argument(
        "--area",
        action="append",
        choices=AREAS,
        default=[],
        help="only rules of this area; may be repeated",
    )
    add_list(parser, "--rule", "RULE", "only this rule", type=_rule)
    add_list(parser, "--ignore", "RULE", "not this rule", type=_rule)
    parser.add_argument(
        "--needs",
        action="append",
        choices=NEEDS,
        default=[],
        help="whose rights this user must have; may be repeated (default: worker)",
    )
    add_option(
        parser,
        "--stop-timeout",
        "SECONDS",
        "after which the orchestrator kills a worker that is to stop",
        type=float,
    )
    add_option(
        parser,
        "--template",
        "FILE",
        "examine this template in place of a running system; needs neither Redis nor AWS",
        type=Path,
    )
    add_list(parser, "--parameter", "NAME=VALUE", "of the template; may be repeated")
    add_switch(parser, "--strict", "exit 1 for warnings too")
    add_switch(parser, "--all", "show the checks that found nothing wrong, too")
    add_switch(parser, "--list", "print the rules, and examine nothing")


def run(options: argparse.Namespace) -> int:
    """Examine: 0 no problem, 1 there is one, 3 Redis cannot be reached."""
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
        rows = [asdict(finding) for finding in findings]
        write_json({**about, "ok": code == 0, "findings": rows})
    else:
        _write(sys.stdout, findings, every=options.all)
    return code


def _list(selection: Selection, *, as_json: bool) -> int:
    rules = [rule for rule in CATALOGUE.values() if selection.has(rule)]
    if as_json:
        write_json([asdict(rule) for rule in rules])
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


def _write(stream: TextIO, findings: Sequence[Finding], *, every: bool) -> None:
    """What is wrong, the worst first, with why and what to do; the sum on the last line."""
    colour = has_colours(stream)
    bold, dim, reset = (BOLD, DIM, RESET) if colour else ("", "", "")
    # A line that goes into a file or a pipe stays one line, for those who search it.
    width = min(shutil.get_terminal_size().columns, _WIDEST) if stream.isatty() else sys.maxsize
    ranked = sorted(findings, key=lambda finding: list(_COUNTED).index(finding.status))
    for finding in ranked:
        is_ok = finding.status is Status.OK
        if is_ok and not every:
            continue
        shade = _COLOURS[finding.status] if colour else ""
        text = _wrapped(f"{finding.rule}: {shown(finding.what)}", width, _INDENT)
        if not is_ok:
            text = text.replace(finding.rule, f"{bold}{finding.rule}{reset}", 1)
        stream.write(f"{shade}{finding.status:<{len(_INDENT)}}{reset}{text}\n")
        for word, more in (("why:", finding.why), ("do:", finding.action)):
            if more:
                indent = _INDENT + " " * _WORD
                text = _wrapped(shown(more), width, indent)
                stream.write(f"{_INDENT}{dim}{word:<{_WORD}}{reset}{text}\n")
        if not is_ok:
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
    if text not in CATALOGUE:
        hint = did_you_mean(text, CATALOGUE, "; --list shows them")
        raise argparse.ArgumentTypeError(f"there is no rule {text!r}{hint}")
    return text
