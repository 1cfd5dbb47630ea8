"""`kiqbridge stats`: how much there is of everything, and the queues."""

import argparse
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Final

from kiqbridge.api import Operator, Stats, open_operator
from kiqbridge.commands.arguments import add_example, add_json, add_option, duration
from kiqbridge.commands.output import (
    is_terminal,
    write_json,
    write_line,
    write_table,
)
from kiqbridge.wire.amounts import waited_text

_WATCH_S: Final = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is shown, and how often."""
    add_json(parser)
    add_option(
        parser,
        "--watch",
        "SECONDS",
        "again and again until Ctrl-C (every 2 s), on a terminal with running jobs and the last deaths; "
        "with --json a line each time",
        nargs="?",
        type=duration,
        const=_WATCH_S,
    )
    add_example(parser, "kiqbridge stats", "kiqbridge stats --json")


def run(options: argparse.Namespace) -> int:
    """Show the counts once, or until Ctrl-C."""
    if options.watch is None:
        _show(open_operator(via="cli"), as_json=options.json)
        return 0
    try:
        if is_terminal() and not options.json and find_spec("rich"):
            from kiqbridge.commands.stats_watch import watch  # noqa: PLC0415 - loads rich

            watch(open_operator(via="cli"), options.watch)
        while True:
            _show(open_operator(via="cli"), as_json=options.json)
            sys.stdout.flush()
            time.sleep(options.watch)
    except KeyboardInterrupt:
        return 0


def _show(operator: Operator, *, as_json: bool) -> None:
    fields = stats_fields(operator)
    if as_json:
        write_json(fields)
        return
    write_line("   ".join(f"{name} {fields[name]:,}" for name in _COUNTS))
    if not fields["queues"]:
        write_line("No job was ever pushed to a queue here.")
        return
    write_line()
    write_table(
        ("queue", ">jobs", ">latency", "paused"),
        (
            (
                queue["name"],
                f"{queue['size']:,}",
                waited_text(queue["latency"]) if queue["size"] else "-",
                "paused" if queue["paused"] else "",
            )
            for queue in fields["queues"]
        ),
    )


_COUNTS: Final = {
    "processed": "processed",
    "failed": "failed",
    "busy": "workers_size",
    "enqueued": "enqueued",
    "scheduled": "scheduled_size",
    "retries": "retry_size",
    "dead": "dead_size",
    "processes": "processes_size",
}
"""As it is shown → attribute of `Stats`."""


def stats_fields(operator: Operator) -> Mapping[str, Any]:
    """What `--json` prints; `latency` in seconds (negative: `enqueued_at` is in the future), `at` in epoch seconds."""
    stats = Stats(operator)
    paused = {each.name for each in operator.pauses() if each.kind == "queue"}
    return {
        "at": stats.fetched_at,
        **{name: getattr(stats, attribute) for name, attribute in _COUNTS.items()},
        "queues": [
            {
                "name": name,
                "size": queue.size,
                "latency": round(queue.latency, 3),
                "paused": name in paused,
            }
            for name, queue in stats.queues.items()
        ],
    }
