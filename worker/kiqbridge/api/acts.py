"""What the page can do about what a rule finds: each a form with one button, for the page Now and the doctor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote

from kiqbridge.api.filters import Filter
from kiqbridge.store.pauses import Pause

_HOUR_S: Final = "3600"


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A form that the page posts.

    Attributes:
        label: the words of its button.
        path: where it goes, from the page's root.
        fields: what it holds, in pairs.
        question: asked before; empty: it destroys nothing, or what answers it asks.
        role: who may.
    """

    label: str
    path: str
    fields: Sequence[tuple[str, str]]
    question: str = ""
    role: Literal["operator", "admin"] = "operator"


def page_of(screen: str, name: str) -> str:
    """The path of a page that is about something with a name, such as `/queues/mail`."""
    return f"/{screen}/{quote(name, safe='', errors='surrogateescape')}"


def resume(pause: Pause) -> Act:
    """End a pause of a queue or a class."""
    path = page_of("queues" if pause.kind == "queue" else "metrics", pause.name)
    return Act(label="Resume", path=path, fields=[("action", "resume")])


def of_failing(name: str) -> Sequence[Act]:
    """Pause a class that fails for an hour; kill its retries."""
    paused = Act(
        label="Pause for 1 h",
        path=page_of("metrics", name),
        fields=[("action", "pause"), ("for_s", _HOUR_S), ("reason", "it fails")],
        question=f"Our workers put the jobs of {name} off until the pause ends; they fail no more meanwhile.",
    )
    which = str(Filter.of_class(name))
    return [paused, to_all("kill", "Kill its retries…", "retries", which)]


def to_all(action: str, label: str, screen: str, q: str = "") -> Act:
    """Retry or kill all jobs of a set that match; the page asks, with their number."""
    where = f"?q={quote(q, safe=':', errors='replace')}" if q else ""
    return Act(label=label, path=f"/{screen}{where}", fields=[("action", action), ("all", "1")])


def stop_all() -> Act:
    """Stop all processes."""
    return _to_processes(
        "Stop all",
        "All processes stop: jobs that do not end within the time to stop go back to their queues. Nothing runs until "
        "workers are started again.",
        action="stop",
    )


def quiet_all() -> Act:
    """Quiet all processes."""
    return _to_processes(
        "Quiet all",
        "All processes end the jobs that they run, and take no new ones. A process that is quiet stays so until it is "
        "started again.",
        action="quiet",
    )


def stop(identity: str, name: str = "") -> Act:
    """Stop a process; its name stands on the button where there is no row of its own."""
    return _to_processes(
        f"Stop {name}".strip(),
        "It stops: jobs that do not end within its time to stop go back to their queues.",
        action="stop",
        identity=identity,
    )


def quiet(identity: str) -> Act:
    """Quiet a process."""
    return _to_processes(
        "Quiet",
        "It ends the jobs that it runs, and takes no new ones until it is started again.",
        action="quiet",
        identity=identity,
    )


def _to_processes(label: str, question: str, **fields: str) -> Act:
    one = "identity" in fields
    return Act(
        label=label,
        path="/processes/act" if one else "/processes/act-on-all",
        fields=[*fields.items(), *([] if one else [("confirmed", "1")])],
        question=question,
        role="admin",
    )


def dump_threads(identity: str) -> Act:
    """Have a process write where each of its threads is."""
    return Act(
        label="Dump threads", path="/processes/dump-threads", fields=[("identity", identity)]
    )


def run_schedule(name: str) -> Act:
    """Enqueue the jobs of a schedule."""
    return Act(
        label=f"Run {name}",
        path="/schedules/act",
        fields=[("name", name), ("action", "run")],
        question=f"The jobs of {name} are enqueued at once, besides its occurrences.",
    )
