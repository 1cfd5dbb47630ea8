"""What the page can do about what a rule finds: each a form with one button, for the page Now and the doctor."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple
from urllib.parse import quote

from kiqbridge.api.filters import Filter
from kiqbridge.store.pauses import Pause


class Act(NamedTuple):
    """A form that the page posts.

    Attributes:
        label: the words of its button.
        path: where it goes, from the page's root.
        fields: what it holds; a field may stand there several times.
        question: asked before; empty: it destroys nothing, or what answers it asks.
        role: who may.
    """

    label: str
    path: str
    fields: Mapping[str, str | Sequence[str]]
    question: str = ""
    role: Literal["operator", "admin"] = "operator"


def page_of(screen: str, name: str) -> str:
    """The path of a page that is about something with a name, such as `/queues/mail`."""
    return f"/{screen}/{quote(name, safe='', errors='surrogateescape')}"


def resume(pause: Pause) -> Act:
    """End a pause of a queue or a class."""
    screen = "queues" if pause.kind == "queue" else "metrics"
    return Act("Resume", page_of(screen, pause.name), {"action": "resume"})


def of_failing(name: str) -> Sequence[Act]:
    """Pause a class that fails for an hour; kill its retries."""
    fields = {"action": "pause", "for_s": "3600", "reason": "it fails"}
    asked = (
        f"Our workers put the jobs of {name} off until the pause ends; they fail no more meanwhile."
    )
    kill = to_all("kill", "Kill its retries…", "retries", str(Filter.of_class(name)))
    return [Act("Pause for 1 h", page_of("metrics", name), fields, asked), kill]


def to_all(action: str, label: str, screen: str, q: str = "") -> Act:
    """Retry, kill or reschedule all jobs of a set that match; the page asks, with their number."""
    where = f"?q={quote(q, safe=':', errors='replace')}" if q else ""
    return Act(label, f"/{screen}{where}", {"action": action, "all": "1"})


def quiet(identity: str = "") -> Act:
    """Quiet a process; without a name all of them."""
    asked = "It ends the jobs that it runs, and takes no new ones until it is started again."
    return _signal("quiet", "Quiet", identity, asked)


def stop(identity: str = "", name: str = "") -> Act:
    """Stop a process; without a name all of them. `name` stands on the button, where no row has it."""
    asked = "It stops: jobs that do not end within its time to stop go back to their queues."
    return _signal("stop", f"Stop {name}".strip(), identity, asked)


def _signal(action: str, label: str, identity: str, asked: str) -> Act:
    if identity:
        fields = {"identity": identity, "action": action}
        return Act(label, "/processes/act", fields, asked, "admin")
    fields = {"action": action, "confirmed": "1"}
    asked = f"{asked} That is done to all processes: nothing runs until workers are started again."
    return Act(f"{label} all", "/processes/act-on-all", fields, asked, "admin")


def dump_threads(identity: str) -> Act:
    """Have a process write where each of its threads is."""
    return Act("Dump threads", "/processes/dump-threads", {"identity": identity})


def run_schedule(name: str) -> Act:
    """Enqueue the jobs of a schedule."""
    asked = f"The jobs of {name} are enqueued at once, besides its occurrences."
    return Act(f"Run {name}", "/schedules/act", {"name": name, "action": "run"}, asked)
