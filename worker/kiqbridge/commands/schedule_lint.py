"""`kiqbridge schedule lint`: what will surprise about schedules, with what to do about it."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, TextIO

from kiqbridge.clocks.ledger import read_ledger
from kiqbridge.commands.arguments import add_option, add_switch, user_input, within
from kiqbridge.commands.moments import moment_or_now
from kiqbridge.commands.output import BOLD, DIM, RESET, has_colours, write_json
from kiqbridge.commands.schedule_sources import Sources, add_source_arguments, read_sources
from kiqbridge.schedule.lint import lint
from kiqbridge.schedule.lint.finding import Finding
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.names import shown

CROWD: Final = 5
_RUNS: Final = 100
"""So many of a schedule's last occurrences say how long its jobs take."""
_COLOURS: Final = {"error": "\033[31;1m", "warning": "\033[33m", "note": "\033[36m"}


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb lint."""
    verb = verbs.add_parser(
        "lint",
        help="what will surprise about schedules",
        description="Check schedules that can be read, but do what was perhaps not meant: dates that never "
        "come, zones, minutes at which everybody fires, hours that daylight saving time leaves out or "
        "repeats, jobs longer than their interval (with --redis), duplicates. Exit 0 without errors, 1 with "
        "some, 2 if something cannot be read. `# lint: ignore KB104` beside a schedule switches a finding off.",
    )
    add_switch(verb, "--strict", "exit 1 for warnings and notes too")
    add_switch(verb, "--json", "an array of findings")
    add_option(
        verb,
        "--crowd",
        "N",
        f"so many schedules at one minute are too many (default: {CROWD})",
        type=within(2),
        default=CROWD,
    )
    add_option(verb, "--from", "TIME", "look ahead from there (default: now)", dest="begin")
    add_source_arguments(verb)
    verb.set_defaults(command=_lint)


def _lint(options: argparse.Namespace) -> int:
    with user_input():
        now = moment_or_now("--from", options.begin)
        sources = read_sources(options)
    findings = lint(sources.schedules, now=now, took_s=_took_s(sources), crowd=options.crowd)
    if options.json:
        write_json([asdict(each) for each in findings])
    else:
        write_findings(sys.stdout, findings, len(sources.schedules))
    is_bad = any(each.severity == "error" or options.strict for each in findings)
    return 1 if is_bad else 0


def write_findings(stream: TextIO, findings: Sequence[Finding], count: int) -> None:
    """The findings for people, and their number on the last line."""
    colour = has_colours(stream)
    dim, bold, reset = (DIM, BOLD, RESET) if colour else ("", "", "")
    for each in findings:
        shade = _COLOURS[each.severity] if colour else ""
        text = (
            f"{shade}{each.severity} {each.code}{reset}  {bold}{each.schedule}{reset}  "
            f"{dim}{each.place}{reset}\n"
            f"  {each.what}\n"
            f"  {dim}why{reset}  {each.why}\n"
            f"  {dim}do{reset}   {each.advice}\n"
        )
        text += "".join(f"       {line}\n" for line in each.details)
        stream.write(f"{shown(text)}\n")
    sums = Counter(each.severity for each in findings)
    words = [count_text(sums[name], name) for name in ("error", "warning", "note") if sums[name]]
    stream.write(f"{count_text(count, 'schedule')}: {', '.join(words) or 'nothing to say'}\n")


def _took_s(sources: Sources) -> dict[str, list[float]]:
    """Seconds that the last jobs of each schedule took, by the ledger."""
    server = sources.server
    if server is None:
        return {}
    return {
        each.name: [
            end.took_s
            for entry in read_ledger(server.pool, server.keys, each.name, most=_RUNS)
            for end in entry.ends
            if end.took_s is not None
        ]
        for each in sources.schedules
    }
