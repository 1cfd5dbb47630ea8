"""The lines around the tables: where it looks, counts, keys, help."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from kiqbridge.api import JobRecord, Operator, Stats, Verdict
from kiqbridge.top.acts import Action, Deed
from kiqbridge.top.model import MAX_NAME, Kind, Listing, Role, View
from kiqbridge.top.visible import duration, visible

_NAMES: Final[Mapping[Kind, str]] = {
    "shards": "shard",
    "queues": "queue",
    "waiting": "waiting job",
    "work": "running job",
    "processes": "process",
    "retry": "retry",
    "dead": "dead job",
    "schedule": "scheduled job",
    "schedules": "schedule",
}
_PLURALS: Final[Mapping[Kind, str]] = {"retry": "retries", "processes": "processes"}
MAX_ADVICE: Final = 300
MAX_AWAY: Final = 3

_KEYS: Final = (
    ("1 … 7, ← →", "another screen"),
    ("↑ ↓, j k", "another row; PgUp PgDn, g G for more"),
    ("Tab", "another table, where there are several"),
    ("Enter", "details: arguments, error, backtrace; of a queue its jobs"),
    ("[ ]", "the page before, the next page"),
    (
        "/",
        "filter: class=Mail* error=timeout queue=default tag=x arg=42 older_than_s=3600, or any text",
    ),
    ("Space", "select the row, or no longer; Escape selects none, then ends the filter"),
    ("F5", "look again now"),
    ("q", "quit"),
)
_SIGNS: Final = (
    "Last ones: ● on time  ◐ late  ◒ caught up  ○ missed  x a job is dead  - paused or skipped"
)


def place(operator: Operator, missing: Collection[str]) -> str:
    """Where it looks: the address of a server, or how many shards there are."""
    names = operator.shards
    if not names:
        return operator.pool.address
    count = f"{len(names) - len(missing)} of {len(names)}" if missing else str(len(names))
    return f"{count} shards: {', '.join(names)}"


def away_lines(missing: Mapping[str, str], since: Mapping[str, float], width: int) -> Text:
    """The shards that are away, since when, and why, as far as there is room; a line for each, and at most so many."""
    text = Text()
    for name in list(missing)[:MAX_AWAY]:
        line = Text.assemble(
            (" away ", "bold white on red"),
            (f"  shard {visible(name, MAX_NAME)}", "bold"),
            f" since {clock(since[name])}  ",
            (visible(missing[name], MAX_ADVICE), "dim"),
        )
        line.truncate(max(width, 1), overflow="ellipsis")
        text = Text("\n").join([text, line]) if text else line
    if len(missing) > MAX_AWAY:
        text.append(f"\n {len(missing) - MAX_AWAY:,} more are away", "red")
    return text


def top_line(address: str, role: Role, at: float | None, width: int) -> Text:
    """Program, server, role and clock."""
    may_do = "read-only" if role == "viewer" else role
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(" kiqbridge ", "bold reverse")
    text.append(f" {visible(address)}")
    right = f"{may_do}  {clock(at) if at else ''} "
    text.append(" " * max(2, width - text.cell_len - len(right)))
    text.append(right, "dim" if role == "viewer" else "yellow")
    return text


def clock(at: float) -> str:
    """`12:03:04 UTC`, of epoch seconds."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def verdict_lines(verdict: Verdict) -> Text:
    """Healthy, or the worst facts with what to do."""
    if verdict.healthy:
        return Text.assemble((" healthy ", "bold black on green"), "  nothing asks for an action")
    text = Text()
    for fact in verdict.worst():
        is_bad = fact.severity == "critical"
        if text:
            text.append("\n")
        text.append(f" {fact.severity} ", "bold white on red" if is_bad else "bold black on yellow")
        text.append(f"  {visible(fact.what, MAX_NAME)}\n", "bold")
        text.append(f"   {visible(fact.do, MAX_ADVICE)}", "dim")
    return text


def rate_line(rates: Sequence[float]) -> Text:
    """What the line of rates shows."""
    text = Text(" Processed a second", "bold")
    if rates:
        text.append(f"  now {rates[-1]:,.0f}, at most {max(rates):,.0f}", "dim")
    return text


def counts_line(stats: Stats) -> Text:
    """How much there is of everything."""
    latency = stats.default_queue_latency
    shares = (
        ("Processed", f"{stats.processed:,}", ""),
        ("Failed", f"{stats.failed:,}", ""),
        ("Busy", f"{stats.workers_size:,}", "green" if stats.workers_size else ""),
        ("Enqueued", f"{stats.enqueued:,}", ""),
        ("Retries", f"{stats.retry_size:,}", "yellow" if stats.retry_size else ""),
        ("Scheduled", f"{stats.scheduled_size:,}", ""),
        ("Dead", f"{stats.dead_size:,}", "red" if stats.dead_size else ""),
        ("Latency", duration(latency), "yellow" if latency >= 60 else ""),  # noqa: PLR2004 - a minute
    )
    text = Text()
    for title, value, style in shares:
        text.append(f" {title} ", "dim")
        text.append(f"{value} ", f"bold {style}".strip())
    return text


def title_line(listing: Listing, view: View, marked: int) -> Text:
    """What a table is, how much of it is shown."""
    text = Text(f" {listing.title}", "bold", no_wrap=True, overflow="ellipsis")
    if listing.total is not None:
        text.append(f"  {listing.total:,}", "default")
    if listing.pages > 1:
        text.append(f"  page {view.page:,} of {listing.pages:,}", "dim")
    if view.typed:
        text.append(f"  filter: {visible(view.typed, 100)}", "yellow")
    if listing.note:
        text.append(f"  {listing.note}", "dim")
    if marked:
        text.append(f"  {marked} selected", "bold yellow")
    return text


def keys_line(actions: Sequence[tuple[str, str]]) -> Text:
    """The keys that do something here."""
    text = Text(no_wrap=True, overflow="ellipsis")
    for key, label in (
        *actions,
        ("Enter", "details"),
        ("/", "filter"),
        ("?", "help"),
        ("q", "quit"),
    ):
        text.append(f" {key} ", "bold reverse")
        text.append(f" {label} ")
    return text


def help_text(actions: Sequence[tuple[str, str, str]], role: Role) -> Text:
    """All keys; `actions` are key, what it does, and who may."""
    text = Text()
    for key, meaning in _KEYS:
        text.append(f"{key:>12}  ", "bold cyan")
        text.append(f"{meaning}\n")
    if actions:
        text.append("\non this screen\n", "bold")
    for key, meaning, who in actions:
        text.append(f"{key:>12}  ", "bold cyan")
        text.append(meaning)
        text.append(f"  ({who})\n", "dim")
    if role == "viewer":
        text.append(
            "\nThis is read-only: start it with --role operator, or admin, to act.\n", "yellow"
        )
    return text


def what(action: Action, deed: Deed) -> str:
    """How many of what an action is about to be done to."""
    name = _NAMES[deed.kind]
    plural = _PLURALS.get(deed.kind, f"{name}s")
    if action.is_for_all:
        if deed.view.where:
            return f"all {plural} that match {visible(deed.view.typed, 100)}"
        return f"all {deed.total or 0:,} {plural}" if deed.total != 1 else f"the only {name}"
    if len(deed.items) > 1:
        return f"{len(deed.items):,} {plural}"
    item = deed.items[0]
    if isinstance(item, JobRecord):
        return f"{name} {visible(item.display_class, 100)} {visible(item.jid, 40)}"
    own = item.queue.name if deed.kind == "queues" else getattr(item, "name", "")
    return f"{name} {visible(own or item.identity, MAX_NAME)}"
