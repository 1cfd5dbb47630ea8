"""`kiqbridge stats --watch` on a terminal: what is asked for at night, read again and again; it only looks.

Needs rich. A read that fails is repeated: the last state stays on the screen, with the error above it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kiqbridge import api
from kiqbridge.api.facts import Facts
from kiqbridge.api.gauges import read_gauges
from kiqbridge.commands import output
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.wire.amounts import count_text, instant_text, span_text
from kiqbridge.wire.names import printable

_WORST = 3
_DEATHS = 5
_LEAST_ROWS = 3
"""Rows that a table keeps, however low the terminal is."""


def watch(operator: api.Operator, seconds: float) -> None:
    """Show the state every so many seconds, until the caller is interrupted."""
    console = Console(highlight=False)
    last: Sequence[RenderableType] = ()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                last = list(_screen(operator, console))
                shown = last
            except (RedisUnavailable, RedisRefused) as error:
                clock, again = instant_text(time.time()), span_text(seconds)
                note = f"{clock} not read, again in {again}: {printable(str(error))}"
                shown = [Text(note, style="bold red"), *last]
            live.update(Group(*shown), refresh=True)
            time.sleep(seconds)


def _screen(operator: api.Operator, console: Console) -> Iterator[RenderableType]:
    facts = api.fetch_facts(operator)
    today = api.fetch_history(1, operator=operator)
    deaths = api.DeadSet(operator).page(1, _DEATHS).rows
    yield from _head(facts, sum(today.processed.values()), sum(today.failed.values()))
    worst = api.judge(facts).facts[:_WORST]
    for fact in worst:
        yield Text(printable(fact.what), style="red" if fact.severity == "critical" else "yellow")
    rows = max(_LEAST_ROWS, (console.height - 12 - len(worst) - len(deaths)) // 2)
    now = facts.at
    paused = {pause.name for pause in facts.pauses if pause.kind == "queue"}
    rates = api.fetch_queue_rates(operator)
    queues = sorted(facts.queues, key=lambda queue: (-queue.latency_s, -queue.size))
    title = f"{count_text(len(queues), 'queue')}, the slowest first"
    cells: Iterable[Sequence[str]] = (
        output.queue_row(
            each.name,
            each.size,
            each.latency_s,
            paused=each.name in paused,
            rates=rates.get(each.name),
        )
        for each in queues
    )
    yield from _table(title, (*output.QUEUE_TITLES[:3], "", "rates"), cells, rows)
    title = f"{count_text(len(facts.work), 'job')} running, the longest first"
    cells = (
        (span_text(now - each.run_at), output.class_cell(job), job.queue, job.jid, each.process)
        for each in facts.work
        for job in [each.job]
    )
    yield from _table(title, (">runs for", "class", "queue", "!jid", "process"), cells, rows)
    title = f"{count_text(facts.dead, 'dead job')}, the last to die first"
    cells = (
        (
            output.since_cell(each.score, now),
            output.class_cell(each),
            each.jid,
            output.error_cell(each),
        )
        for each in deaths
    )
    yield from _table(title, (">died", "class", "!jid", "error"), cells, _DEATHS)


def _head(facts: Facts, processed: int, failed: int) -> Iterator[Text]:
    now = read_gauges(facts)
    yield Text(
        f"{instant_text(facts.at)}   processes {len(facts.processes)}   busy {now['busy']} of {now['concurrency']}"
        f"   today processed {processed:,} failed {failed:,}",
        style="bold",
    )
    yield Text(
        f"waiting {now['jobs_enqueued']:,}   scheduled {now['jobs_scheduled']:,}   retries {now['jobs_retrying']:,}"
        f"   dead {now['jobs_dead']:,} ({facts.dead_lately:,} in the last hour)"
    )


def _table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], most: int
) -> Iterator[RenderableType]:
    cells = [[printable(cell) for cell in row] for row in rows]
    yield Text()
    yield Text(title, style="bold")
    if cells:
        yield output.drawn_table(columns, cells[:most])
    if len(cells) > most:
        yield Text(f"{len(cells) - most:,} more", style="dim")
