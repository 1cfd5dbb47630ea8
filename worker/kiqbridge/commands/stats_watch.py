"""`kiqbridge stats --watch` on a terminal: what is asked for at night, read again and again; it only looks.

Needs rich. A read that fails is repeated: the last state stays on the screen, with the error above it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kiqbridge.api import DeadSet, Operator, fetch_facts, fetch_history, judge
from kiqbridge.api.facts import Facts
from kiqbridge.commands.job_rows import class_cell, error_cell, since_cell
from kiqbridge.commands.output import drawn_table
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.wire.amounts import count_text, instant_text, span_text, waited_text
from kiqbridge.wire.names import printable

_DEATHS = 5
_LEAST_ROWS = 3
"""Rows that a table keeps, however low the terminal is."""


def watch(operator: Operator, seconds: float) -> None:
    """Show the state every so many seconds, until the caller is interrupted."""
    console = Console(highlight=False)
    last: Sequence[RenderableType] = ()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                last = list(_screen(operator, console))
                shown = last
            except (RedisUnavailable, RedisRefused) as error:
                note = (
                    f"{_clock()} not read, again in {span_text(seconds)}: {printable(str(error))}"
                )
                shown = [Text(note, style="bold red"), *last]
            live.update(Group(*shown), refresh=True)
            time.sleep(seconds)


def _screen(operator: Operator, console: Console) -> Iterator[RenderableType]:
    facts = fetch_facts(operator)
    today = fetch_history(1, operator=operator)
    deaths = DeadSet(operator).page(1, _DEATHS).rows
    yield from _head(facts, sum(today.processed.values()), sum(today.failed.values()))
    verdict = judge(facts)
    for fact in verdict.worst():
        yield Text(printable(fact.what), style="red" if fact.severity == "critical" else "yellow")
    left = console.height - 12 - len(verdict.worst()) - len(deaths)
    rows = max(_LEAST_ROWS, left // 2)
    width = console.width
    yield from _table(
        f"{count_text(len(facts.queues), 'queue')}, the slowest first",
        ["queue", ">jobs", ">latency", ""],
        (
            (
                queue.name,
                f"{queue.size:,}",
                waited_text(queue.latency_s) if queue.size else "-",
                "paused" if queue.name in _paused(facts) else "",
            )
            for queue in sorted(facts.queues, key=lambda queue: (-queue.latency_s, -queue.size))
        ),
        rows,
        width,
    )
    yield from _table(
        f"{count_text(len(facts.work), 'job')} running, the longest first",
        [
            ">runs for",
            "class",
            "queue",
            "!jid",
            "~process",
        ],
        (
            (
                span_text(facts.at - work.run_at),
                class_cell(work.job),
                work.job.queue,
                work.job.jid,
                work.process,
            )
            for work in facts.work
        ),
        rows,
        width,
    )
    yield from _table(
        f"{count_text(facts.dead, 'dead job')}, the last to die first",
        [">died", "class", "!jid", "~error"],
        (
            (
                since_cell(entry.score, facts.at),
                class_cell(entry),
                entry.jid,
                error_cell(entry),
            )
            for entry in deaths
        ),
        _DEATHS,
        width,
    )


def _head(facts: Facts, processed: int, failed: int) -> Iterator[Text]:
    busy = sum(process.busy for process in facts.processes)
    threads = sum(process.concurrency for process in facts.processes)
    waiting = sum(queue.size for queue in facts.queues)
    yield Text(
        f"{instant_text(facts.at)}   processes {len(facts.processes)}   busy {busy} of {threads}"
        f"   today processed {processed:,} failed {failed:,}",
        style="bold",
    )
    yield Text(
        f"waiting {waiting:,}   scheduled {facts.schedule.size:,}   retries {facts.retry.size:,}"
        f"   dead {facts.dead:,} ({facts.dead_lately:,} in the last hour)"
    )


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], most: int, width: int
) -> Iterator[RenderableType]:
    cells = [[printable(cell) for cell in row] for row in rows]
    yield Text()
    yield Text(title, style="bold")
    if cells:
        yield drawn_table(columns, cells[:most], width)
    if len(cells) > most:
        yield Text(f"{len(cells) - most:,} more", style="dim")


def _paused(facts: Facts) -> set[str]:
    return {pause.name for pause in facts.pauses if pause.kind == "queue"}


def _clock() -> str:
    return instant_text(datetime.now(UTC))
