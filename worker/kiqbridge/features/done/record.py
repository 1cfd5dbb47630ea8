r"""The record of a job that has ended, as `kb:done:jobs` keeps it under its jid: a line for each execution, in JSON.

The first line is the job's member of `kb:done:classes`, `CLASS\0KIND\0MILLISECONDS\0JID`; the kind is `d` (done), `e`
(ended in another way) or `f` (failed, and tried again). A line has no argument of the job:

    {"at":1700000000.5,"outcome":"dead","took":0.2,"queue":"low","worker":"web:1:aa t1","error":"OSError","message":"no route"}

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kiqbridge.runtime.records import dataclass
from kiqbridge.wire import json_text
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import TickMark, tick_mark_of

if TYPE_CHECKING:
    from kiqbridge.engine.perform.ended import Ended

MOST_BYTES: Final = 2_000
"""Of a record: the first executions of a job that fails again and again are forgotten."""

MAX_JID: Final = 100
MAX_NAME: Final = 200
MAX_MESSAGE: Final = 300
MAX_TAGS: Final = 10
MAX_TAG: Final = 50
MAX_NEXT: Final = 5

SEPARATOR: Final = "\0"


class Entry(NamedTuple):
    """A line that is to be written: under which class and kind, the jid, milliseconds of its end in 15 digits."""

    place: str
    jid: str
    at: str
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One line; see `kiqbridge.engine.perform.ended.Ended`."""

    outcome: str
    at: float
    took_s: float | None = None
    queue: str = ""
    worker: str = ""
    error: str = ""
    message: str = ""
    tags: Sequence[str] = ()
    bid: str = ""
    chain: str = ""
    next: Sequence[str] = ()
    tick: TickMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneJob:
    """A job of which a record is kept.

    Attributes:
        jid, job_class: of it.
        runs: its executions, the last ones, the earliest first; at least one.
    """

    jid: str
    job_class: str
    runs: Sequence[Run]

    @property
    def last(self) -> Run:
        """The last one: how the job has ended, if it has."""
        return self.runs[-1]

    @property
    def has_ended(self) -> bool:
        """Whether it was not to be tried again."""
        return self.last.outcome != "failed"


def entry_of(ended: "Ended", worker: str) -> Entry | None:
    """What is kept of this; None: its jid is none that could be looked up."""
    jid = ended.jid
    if not isinstance(jid, str) or not 0 < len(jid) <= MAX_JID or not jid.isprintable():
        return None
    kind = {"done": "d", "failed": "f"}.get(ended.outcome, "e")
    name = _named(ended.name, MAX_NAME) or "?"
    found = dict(_fields(ended, worker))
    line = json_text.dumps(found)
    if len(line) > MOST_BYTES:  # of signs that take many bytes
        line = json_text.dumps({each: found[each] for each in ("at", "outcome", "worker")})
    return Entry(f"{name}{SEPARATOR}{kind}", jid, f"{max(0, int(ended.at * 1000)):015d}", line)


def _fields(ended: "Ended", worker: str) -> Iterator[tuple[str, Any]]:
    yield "at", round(ended.at, 3)
    yield "outcome", ended.outcome
    if ended.took_s is not None:
        yield "took", round(ended.took_s, 6)
    yield "queue", _named(ended.queue, MAX_NAME)
    yield "worker", f"{worker} {ended.tid}"
    if ended.error:
        yield "error", _named(ended.error, MAX_NAME)
        first = ended.message.lstrip()[: 2 * MAX_MESSAGE].splitlines()
        yield "message", _named(first[0] if first else "", MAX_MESSAGE)
    if ended.marks:
        yield from _marks(ended.marks)


def _marks(marks: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    tags = marks.get("tags")
    if isinstance(tags, list) and tags:
        yield "tags", [_named(str(tag), MAX_TAG) for tag in tags[:MAX_TAGS]]
    flow, tick = flow_of(marks), tick_mark_of(marks)
    if flow is not None:
        following = flow.get("next")
        chain = following.get("id") if isinstance(following, dict) else None
        found = {"bid": flow.get("bid"), "chain": chain}
        yield from ((name, each[:MAX_JID]) for name, each in found.items() if isinstance(each, str))
        if isinstance(following, dict) and (jids := list(_following(following))):
            yield "next", jids
    if tick is not None:
        yield "tick", {"schedule": tick.schedule, "at": tick.at}


def _following(launch: Mapping[str, Any]) -> Iterator[str]:
    """The jobs of the steps that follow, those that are no group."""
    steps = launch.get("steps")
    for step in steps[:MAX_NEXT] if isinstance(steps, list) else ():
        job = step.get("job") if isinstance(step, dict) else None
        jid = job.get("jid") if isinstance(job, dict) else None
        if isinstance(jid, str):
            yield jid[:MAX_JID]


def parse_record(jid: str, text: bytes) -> DoneJob | None:
    """The counterpart; None: no code of ours has written that."""
    head, *lines = text.split(b"\n")
    name = text_of(head).split(SEPARATOR)[0]
    runs = [run for run in map(_run, lines) if run is not None]
    return DoneJob(jid=jid, job_class=name, runs=runs) if runs else None


def _run(line: bytes) -> Run | None:
    try:
        read = json_text.loads(line)
        took = read.get("took")
        return Run(
            outcome=str(read["outcome"]),
            at=float(read["at"]),
            took_s=None if took is None else float(took),
            tick=tick_mark_of(read),
            tags=[str(tag) for tag in read.get("tags", ())],
            next=[str(jid) for jid in read.get("next", ())],
            **{each: str(read.get(each, "")) for each in _TEXTS},
        )
    except (json_text.MalformedJSON, ValueError, KeyError, TypeError, AttributeError):
        return None


_TEXTS: Final = ("queue", "worker", "error", "message", "bid", "chain")


def _named(text: str, most: int) -> str:
    """No longer, and of what is no sign nothing: no line may end in it, and no name be cut by it."""
    cut = text[:most].encode("utf-8", "replace").decode()
    return (
        cut if cut.isprintable() else "".join(sign if sign.isprintable() else "?" for sign in cut)
    )
