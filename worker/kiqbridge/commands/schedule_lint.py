"""`kiqbridge schedule lint`: what will surprise about schedules, with what to do about it."""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from kiqbridge.commands.arguments import add_option, add_switch
from kiqbridge.errors import ConfigError

if TYPE_CHECKING:
    from kiqbridge.commands.schedule_sources import Sources
    from kiqbridge.schedule.lint.finding import Finding

CROWD: Final = 5
_RUNS: Final = 100
"""So many of a schedule's last occurrences say how long its jobs take."""
_COLOURS: Final = {"error": "\033[31;1m", "warning": "\033[33m", "note": "\033[36m"}
_DIM, _BOLD, _RESET = "\033[2m", "\033[1m", "\033[0m"


def add_arguments(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The verb lint."""
    from kiqbridge.commands.schedule_sources import add_source_arguments  # noqa: PLC0415

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
        type=_crowd,
        default=CROWD,
    )
    add_option(verb, "--from", "TIME", "look ahead from there (default: now)", dest="begin")
    add_source_arguments(verb)
    verb.set_defaults(command=_lint)


def _lint(options: argparse.Namespace) -> int:
    from kiqbridge.commands.moments import moment_of  # noqa: PLC0415
    from kiqbridge.commands.schedule_sources import read_sources, unreadable  # noqa: PLC0415
    from kiqbridge.schedule.lint.rules import lint  # noqa: PLC0415

    try:
        now = datetime.now(UTC) if options.begin is None else moment_of("--from", options.begin)
        sources = read_sources(options)
    except ConfigError as error:
        return unreadable(error)
    findings = lint(sources.schedules, now=now, took_s=_took_s(sources), crowd=options.crowd)
    if options.json:
        sys.stdout.write(json.dumps([asdict(each) for each in findings]) + "\n")
    else:
        write_findings(sys.stdout, findings, len(sources.schedules))
    is_bad = any(each.severity == "error" or options.strict for each in findings)
    return 1 if is_bad else 0


def write_findings(stream: TextIO, findings: Sequence["Finding"], count: int) -> None:
    """The findings for people, and their number on the last line."""
    from kiqbridge.wire.amounts import count_text  # noqa: PLC0415
    from kiqbridge.wire.names import shown  # noqa: PLC0415

    colour = stream.isatty() and not os.environ.get("NO_COLOR")
    dim, bold, reset = (_DIM, _BOLD, _RESET) if colour else ("", "", "")
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


def _took_s(sources: "Sources") -> dict[str, list[float]]:
    """Seconds that the last jobs of each schedule took, by the ledger."""
    server = sources.server
    if server is None:
        return {}
    from kiqbridge.clocks.ledger import read_ledger  # noqa: PLC0415

    return {
        each.name: [
            end.took_s
            for entry in read_ledger(server.pool, server.keys, each.name, most=_RUNS)
            for end in entry.ends
            if end.took_s is not None
        ]
        for each in sources.schedules
    }


def _crowd(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:  # noqa: PLR2004 - as in the message
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 2")
    return int(text)
