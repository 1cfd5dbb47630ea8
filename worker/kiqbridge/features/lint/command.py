"""`kiqbridge schedule lint`: check readable schedules for likely mistakes.

Dates that never come, zones, minutes at which many schedules fire, hours that daylight saving time leaves out or
repeats, jobs longer than their interval (with --redis), duplicates. Exit 0 without errors, 1 with some, 2 if something
cannot be read. `# lint: ignore KB104` beside a schedule switches a finding off.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Final, TextIO

from kiqbridge.commands import schedule_sources
from kiqbridge.commands.arguments import add, add_example, user_input, within
from kiqbridge.commands.output import BOLD, DIM, painter, write_json
from kiqbridge.features.lint.finding import Finding
from kiqbridge.features.lint.rules import lint
from kiqbridge.store.ledger import read_ledger
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.names import shown

CROWD: Final = 5
_RUNS: Final = 100
"""So many of a schedule's last occurrences say how long its jobs take."""
_COLOURS: Final = {"error": "\033[31;1m", "warning": "\033[33m", "note": "\033[36m"}


def add_arguments(verb: argparse.ArgumentParser) -> None:
    """The options of `schedule lint`."""
    add_example(verb, "kiqbridge schedule lint --template template.yaml")
    add(verb, "--strict", "exit 1 for warnings and notes too")
    add(verb, "--json", "an array of findings")
    text = f"so many schedules at one minute are too many (default: {CROWD})"
    add(verb, "--crowd N", text, type=within(2), default=CROWD)
    add(verb, "--from TIME", "look ahead from there (default: now)")
    schedule_sources.add_source_arguments(verb)


def run(options: argparse.Namespace) -> int:
    """Print the findings; 1 if one is an error."""
    now = options.from_ or datetime.now(UTC)
    with user_input():
        sources = schedule_sources.read_sources(options)
    findings = lint(sources.schedules, now=now, took_s=_took_s(sources), crowd=options.crowd)
    if options.json:
        write_json([asdict(each) for each in findings])
    else:
        write_findings(sys.stdout, findings, len(sources.schedules))
    is_bad = any(each.severity == "error" or options.strict for each in findings)
    return 1 if is_bad else 0


def write_findings(stream: TextIO, findings: Sequence[Finding], count: int) -> None:
    """The findings for people, and their number on the last line."""
    paint = painter(stream)
    for each in findings:
        severity = paint(_COLOURS[each.severity], f"{each.severity} {each.code}")
        lines = (
            f"{severity}  {paint(BOLD, each.schedule)}  {paint(DIM, each.place)}",
            f"  {each.what}",
            f"  {paint(DIM, 'why')}  {each.why}",
            f"  {paint(DIM, 'do')}   {each.advice}",
            *(f"       {line}" for line in each.details),
        )
        stream.write("".join(f"{shown(line)}\n" for line in (*lines, "")))
    sums = Counter(each.severity for each in findings)
    words = [count_text(sums[name], name) for name in ("error", "warning", "note") if sums[name]]
    stream.write(f"{count_text(count, 'schedule')}: {', '.join(words) or 'nothing to say'}\n")


def _took_s(sources: schedule_sources.Sources) -> dict[str, list[float]]:
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
