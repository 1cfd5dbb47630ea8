"""`kiqbridge stats`: count jobs and processes, and list the queues.

Each queue is listed with the time that its oldest job has waited.
"""

import argparse
import sys
import time
from importlib.util import find_spec
from typing import Any, Final

from kiqbridge import api
from kiqbridge.api.verdict import LIMITS
from kiqbridge.commands import output
from kiqbridge.commands.acting import write_paused_classes
from kiqbridge.commands.arguments import add, add_example, add_json, duration
from kiqbridge.errors import RedisRefused
from kiqbridge.store.server_memory import parse_memory
from kiqbridge.wire.amounts import size_text
from kiqbridge.wire.names import shown

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
    text = "show the memory of the server by kind of key; shown without this option when it is nearly full"
    add(parser, "--memory", text)
    text = "again and again until Ctrl-C (every 2 s), on a terminal with running jobs and the last deaths; "
    text += "with --json a line each time"
    add(parser, "--watch [SECONDS]", text, type=duration, const=_WATCH_S)
    add_example(parser, "kiqbridge stats", "kiqbridge stats --memory", "kiqbridge stats --json")


def run(options: argparse.Namespace) -> int:
    """Show the counts once, or until Ctrl-C."""
    operator = api.open_operator(via="cli")
    if options.watch is None:
        _show(operator, options)
        return 0
    try:
        if output.is_terminal() and not options.json and find_spec("rich"):
            from kiqbridge.commands.stats_watch import watch  # noqa: PLC0415 - loads rich

            watch(operator, options.watch)
        while True:
            _show(operator, options)
            sys.stdout.flush()
            time.sleep(options.watch)
    except KeyboardInterrupt:
        return 0


def _show(operator: api.Operator, options: argparse.Namespace) -> None:
    fields, memory = _fields(operator), _memory(operator, is_wanted=options.memory)
    if options.json:
        for queue in fields["queues"]:
            if "rates" in queue:
                queue["rates"] = queue["rates"].fields(queue["size"])
        output.write_json({**fields, "memory": _memory_fields(memory)} if memory else fields)
        return
    output.write_line("   ".join(f"{name} {fields[name]:,}" for name in _COUNTS))
    if fields["queues"]:
        output.write_line()
        rows = (output.queue_row(**queue) for queue in fields["queues"])
        output.write_table(output.QUEUE_TITLES, rows)
    else:
        output.write_line("No job was ever pushed to a queue here.")
    if fields["paused_classes"]:
        write_paused_classes(operator)
    if memory is not None:
        _show_memory(memory)


def _memory(operator: api.Operator, *, is_wanted: bool) -> api.MemoryByKind | None:
    """What takes the memory, if that is asked for or the memory is nearly full."""
    try:
        found = parse_memory(operator.pool.call("INFO", "memory"))
        if is_wanted or (found is not None and found.share >= LIMITS.memory_warning):
            return api.fetch_memory_by_kind(operator)
    except RedisRefused as error:
        if is_wanted:
            output.warn(f"what takes the memory is not known: {error}")
    return None


def _show_memory(memory: api.MemoryByKind) -> None:
    of = "measured" if not memory.is_estimate else "estimated: measured were"
    output.write_line()
    output.write_line(
        f"The server uses {size_text(memory.used)} ({of} {memory.looked_at:,} of {memory.total:,} keys):"
    )
    rows = [
        (
            each.kind,
            f"{each.keys:,}",
            size_text(each.bytes),
            _share(each.bytes, memory),
            _largest(each),
        )
        for each in memory.kinds
    ]
    rest = "other databases, connections, buffers"
    rows.append((rest, "-", size_text(memory.rest), _share(memory.rest, memory), "-"))
    output.write_table(("kind", ">keys", ">memory", ">share", "largest"), rows)


def _share(count: int, memory: api.MemoryByKind) -> str:
    return f"{count / memory.used:.0%}" if memory.used else "-"


def _largest(kind: api.KindOfKeys) -> str:
    return f"{shown(kind.largest)} {size_text(kind.largest_bytes)}" if kind.largest else "-"


def _memory_fields(memory: api.MemoryByKind) -> dict[str, Any]:
    names = "kind is_ours keys bytes largest largest_bytes"
    kinds = [
        {**output.fields_of(each, names), "largest": shown(each.largest)} for each in memory.kinds
    ]
    return {**output.fields_of(memory, "used rest looked_at total"), "kinds": kinds}


def _fields(operator: api.Operator) -> dict[str, Any]:
    """What `--json` prints; `latency` in seconds (negative: `enqueued_at` is in the future), `at` in epoch seconds; `rates` one by one."""
    stats, rates = api.Stats(operator), api.fetch_queue_rates(operator)
    pauses = operator.pauses()
    paused = {each.name for each in pauses if each.kind == "queue"}
    return {
        "at": stats.fetched_at,
        **{name: getattr(stats, attribute) for name, attribute in _COUNTS.items()},
        "queues": [
            {
                "name": name,
                "size": queue.size,
                "latency": round(queue.latency, 3),
                "paused": name in paused,
                **({"rates": rates[name]} if name in rates else {}),
            }
            for name, queue in stats.queues.items()
        ],
        "paused_classes": [each.name for each in pauses if each.kind == "class"],
    }
