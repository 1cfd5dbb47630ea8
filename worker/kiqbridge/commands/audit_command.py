"""`kiqbridge audit`: the last 10,000 actions on jobs, queues and processes.

Each entry has the user, the time, the tool, the action, its target and the number of jobs.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Final

from kiqbridge.api import AuditEntry, Operator, open_operator, read_audit
from kiqbridge.commands.arguments import add, add_example, add_listing
from kiqbridge.commands.output import answer_table, listed, since_cell

_LIMIT: Final = 25
_AT_ONCE: Final = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which entries, and how they are shown."""
    add(parser, "--by GLOB", "only actions of these users, such as 'ann@*'", default="*")
    add(parser, "--action GLOB", "only these actions, such as delete", default="*")
    add(parser, "--target GLOB", "to what, such as 'queue:*'", default="*")
    add_listing(parser, _LIMIT, "all entries")
    add_example(parser, "kiqbridge audit --action delete --limit 10")


def run(options: argparse.Namespace) -> int:
    """Show them, the latest first."""
    entries = _matching(open_operator(via="cli"), options)
    found, now = listed(options, entries, asdict, _LIMIT), time.time()
    return answer_table(
        options,
        {"entries": [asdict(entry) for entry in found]},
        ("when", "by", "via", "action", "target", "which", ">jobs"),
        [
            (since_cell(e.at, now), e.by, e.via, e.action, e.target, e.detail, f"{e.count:,}")
            for e in found
        ],
        none="The audit log has no such entry.",
    )


def _matching(operator: Operator, options: argparse.Namespace) -> Iterator[AuditEntry]:
    before: str | None = None
    while entries := read_audit(operator, most=_AT_ONCE, before=before):
        for entry in entries:
            if all(
                fnmatchcase(getattr(entry, name), getattr(options, name))
                for name in ("by", "action", "target")
            ):
                yield entry
        before = entries[-1].id
