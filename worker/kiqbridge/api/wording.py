"""How a verdict says it: who may be stuck in which job, what is paused, names and numbers. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from kiqbridge.api.in_flight import HeldJob
from kiqbridge.store.pauses import Pause
from kiqbridge.wire.amounts import count_text, instant_text, span_text
from kiqbridge.wire.names import shown

MOST_NAMED: Final = 3
"""So many names are in a sentence; more are only counted."""

STUCK: Final = (
    "Look at that job: a C call that keeps the interpreter lock stops its whole process. If it does not return, end the "
    'process (kill -9), and its jobs go back to their queues; declare the job with pool="process".'
)
"""What to do about a process that is there."""

_OF_PROCESS: Final = ": its process was killed, or crashed"

IF_STUCK: Final = (
    "If the process is still there, a C call of that job may keep the interpreter lock: end the process (kill -9), and "
    'declare the job with pool="process".'
)


def deployed_text(deployed: Mapping[float, str], now: float) -> str:
    """A sentence behind another one: which deployment was the last; `deployed`: its minute (epoch seconds) → label."""
    if not deployed:
        return ""
    at, label = max(deployed.items())
    return f" {shown(label)} was deployed {span_text(max(0.0, now - at))} ago."


def describe_stuck(held: Sequence[HeldJob], do: str) -> tuple[str, str]:
    """A clause that ends a sentence: who may be stuck in which job; and what to do.

    Args:
        held: jobs of workers without a heartbeat; without any the clause is empty.
        do: what is to be done if no process is stuck.
    """
    if not held:
        return "", do
    first = held[0].process
    others = len({each.process for each in held}) - 1
    mine = [each for each in held if each.process == first]
    # In one that had begun; where no heartbeat showed any, perhaps in the first that it was to run.
    jobs = [each for each in mine if each.begun] or mine
    is_there = jobs[0].owner == "alive"  # as its supervisor says
    state = "is stuck" if is_there else "was killed, or is stuck"
    job = f"{shown(jobs[0].job.display_class)} {shown(jobs[0].job.jid)}"
    more = f" or in one of {len(jobs) - 1:,} more" if len(jobs) > 1 else ""
    too = f"; so {are(others)} {count_text(others, 'other')}" if others else ""
    clause = f"; {shown(first)} gives no heartbeat and {state}, perhaps in {job}{more}{too}"
    return clause, STUCK if is_there else f"{do} {IF_STUCK}"


def pause_text(pause: Pause, now: float | None = None) -> str:
    """A clause: what is paused, who paused it and why; with `now` (epoch seconds) for how long and until when, too."""
    by = f" by {shown(pause.by)}" if pause.by else ""
    since = until = ""
    if now is not None:
        since = f" for {span_text(now - pause.at)}" if pause.at is not None else ""
        until = f", until {instant_text(pause.until)}" if pause.until is not None else ""
    reason = f": {shown(pause.reason)}" if pause.reason else ""
    return f"{pause.kind} {shown(pause.name)} is paused{since}{by}{until}{reason}"


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(shown(name) for name in names[:MOST_NAMED]) + more


def killed_text(count: int) -> str:
    """A clause: how many of those that died operators have killed; empty if none."""
    return f", {count:,} of them killed by operators" if count else ""


def died_text(died_of: Mapping[tuple[str, str], int]) -> str:
    """A clause: which classes died of which errors; empty if that is not known."""
    named = sorted(died_of.items(), key=lambda each: -each[1])[:MOST_NAMED]
    parts = [
        f"{count:,} {shown(name)} ({shown(error)}{_OF_PROCESS if error.endswith('ProcessDied') else ''})"
        for (name, error), count in named
    ]
    return f", of the newest {sum(died_of.values()):,}: {', '.join(parts)}" if parts else ""


def megabytes(count: int) -> str:
    """Bytes: `1,204 MB`."""
    return f"{count / 1_000_000:,.0f} MB"


def ending(count: int) -> str:
    """The ending of a verb whose subject is so many."""
    return "s" if count == 1 else ""


def were(count: int) -> str:
    """The verb of so many, in the past."""
    return "was" if count == 1 else "were"


def are(count: int) -> str:
    """The verb of so many."""
    return "is" if count == 1 else "are"
