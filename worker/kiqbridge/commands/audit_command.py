"""`kiqbridge audit`: who has done what to jobs, queues and processes."""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from kiqbridge.api import AuditEntry, Operator, open_operator, read_audit
from kiqbridge.commands.arguments import add_example, add_option, add_switch, count
from kiqbridge.commands.job_rows import since_cell
from kiqbridge.commands.output import (
    write_json,
    write_line,
    write_table,
)

_LIMIT: Final = 25
_AT_ONCE: Final = 500


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which entries, and how they are shown."""
    add_option(parser, "--by", "GLOB", "who did it, such as 'ann@*'", default="*")
    add_option(parser, "--action", "GLOB", "what was done, such as delete", default="*")
    add_option(parser, "--target", "GLOB", "to what, such as 'queue:*'", default="*")
    add_option(parser, "--limit", "N", f"at most so many (default {_LIMIT})", type=count)
    form = parser.add_mutually_exclusive_group()
    add_switch(form, "--json", "one JSON document")
    add_switch(form, "--jsonl", "a JSON document a line, all entries")
    add_example(parser, "kiqbridge audit --action delete --limit 10")


def run(options: argparse.Namespace) -> int:
    """Show them, the latest first."""
    operator = open_operator(via="cli")
    entries = _matching(operator, options)
    limit = options.limit or (None if options.jsonl else _LIMIT)
    if options.jsonl:
        for entry in islice(entries, limit):
            write_json(_fields(entry))
        return 0
    found, now = list(islice(entries, limit)), time.time()
    if options.json:
        write_json({"entries": [_fields(entry) for entry in found]})
    elif not found:
        write_line("The audit log has no such entry.")
    else:
        write_table(
            ("when", "by", "via", "action", "target", "~which", ">jobs"),
            [
                (
                    since_cell(entry.at, now),
                    entry.by,
                    entry.via,
                    entry.action,
                    entry.target,
                    entry.detail,
                    f"{entry.count:,}",
                )
                for entry in found
            ],
        )
    return 0


def _fields(entry: AuditEntry) -> dict[str, Any]:
    return asdict(entry)


def _matching(operator: Operator, options: argparse.Namespace) -> Iterator[AuditEntry]:
    before: str | None = None
    while entries := read_audit(operator, most=_AT_ONCE, before=before):
        for entry in entries:
            if all(
                fnmatchcase(value, glob)
                for value, glob in (
                    (entry.by, options.by),
                    (entry.action, options.action),
                    (entry.target, options.target),
                )
            ):
                yield entry
        before = entries[-1].id
