"""`kiqbridge stats`: counts of jobs and processes, and each queue.

Of each queue with the time that its oldest job has waited.
"""

import argparse
import sys
import time
from importlib.util import find_spec
from typing import Any, Final

from kiqbridge.api import Operator, Stats, open_operator
from kiqbridge.commands import output
from kiqbridge.commands.arguments import add, add_example, add_json, duration

_WATCH_S: Final = 2.0
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How it is shown, and how often."""
    add_json(parser)
    text = "again and again until Ctrl-C (every 2 s), on a terminal with running jobs and the last deaths; "
    text += "with --json a line each time"
    add(parser, "--watch [SECONDS]", text, type=duration, const=_WATCH_S)
    add_example(parser, "kiqbridge stats", "kiqbridge stats --json")


def run(options: argparse.Namespace) -> int:
    """Show the counts once, or until Ctrl-C."""
    operator = open_operator(via="cli")
    if options.watch is None:
        _show(operator, as_json=options.json)
        return 0
    try:
        if output.is_terminal() and not options.json and find_spec("rich"):
            from kiqbridge.commands.stats_watch import watch  # noqa: PLC0415 - loads rich

            watch(operator, options.watch)
        while True:
            _show(operator, as_json=options.json)
            sys.stdout.flush()
            time.sleep(options.watch)
    except KeyboardInterrupt:
        return 0


def _show(operator: Operator, *, as_json: bool) -> None:
    fields = _fields(operator)
    if as_json:
        output.write_json(fields)
        return
    output.write_line("   ".join(f"{name} {fields[name]:,}" for name in _COUNTS))
    if not fields["queues"]:
        output.write_line("No job was ever pushed to a queue here.")
        return
    output.write_line()
    output.write_table(
        output.QUEUE_TITLES, (output.queue_row(**queue) for queue in fields["queues"])
    )


def _fields(operator: Operator) -> dict[str, Any]:
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
