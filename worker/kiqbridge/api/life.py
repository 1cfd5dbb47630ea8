"""The life of a job as the command, the page and `JobHandle` show it: one model, which `history_of` fills.

Nothing of it reads Redis. A feature adds a `Part` at the seam `history`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kiqbridge.api.whereabouts import Found, Rest
from kiqbridge.api.works import Stack
from kiqbridge.client.job_handle import JobStatus
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.tick_mark import TickMark

Kind = Literal["", "good", "bad", "next"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution that has ended; what is not kept of it is None, or "".

    Attributes:
        at: when it ended, epoch seconds.
        took_s: seconds that it took.
        outcome: `done`, `failed` (it is tried again), or how the job ended with it.
        worker: identity of the process, a space, and its thread.
        error, message: class of the error, and the first line of its message.
    """

    at: float
    outcome: str
    took_s: float | None = None
    worker: str = ""
    error: str = ""
    message: str = ""

    @property
    def began_at(self) -> float | None:
        """Epoch seconds."""
        return None if self.took_s is None else self.at - self.took_s

    @property
    def kind(self) -> Kind:
        """As of an `Event`."""
        return "good" if self.outcome == "done" else "bad"

    @property
    def label(self) -> str:
        """How it ended, in words: `Done`, `Failed: OSError: no route`."""
        return ": ".join(filter(None, (self.outcome.capitalize(), self.error, self.message)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One moment: `at` in epoch seconds; `kind` is `bad` for a failure, `next` for what is to come."""

    at: float
    label: str
    kind: Kind = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A job or batch to which a job belongs, or that follows it.

    Attributes:
        kind: `batch`, `chain`, `group` or `job`.
        id: of it: a bid, a jid, the id of a chain.
        text: how it belongs, and its state.
    """

    kind: Literal["batch", "chain", "group", "job"]
    id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a job does not run now: the one reason that counts.

    Attributes:
        kind: `place`, `paused queue`, `paused class`, `unserved`, `due`, `suspect`, `claimed`, `limiter`, `batch`,
            `step`; of a queue also `busy`.
        text: the reason, without its time.
        about: what it names: `queue:NAME`, `class:NAME`, `batch:BID`, `job:JID`, `limiter:NAME`, or "".
        until: when it ends, epoch seconds; None = not known.
        place, of: of a job that waits in a queue: which one it is from 1 on, and of how many.
    """

    kind: str
    text: str
    about: str = ""
    until: float | None = None
    place: int | None = None
    of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a job has ended.

    Attributes:
        outcome: `done`, `dead`, `discarded`, `skipped`, `expired`, `cancelled`, `gone` or `deleted`.
        at: epoch seconds; 0 = not known.
        source: what says so: `result`, `record`, `ledger`, `batch` or `audit`.
        error, message: of its last error.
        has_value: whether what it returned is kept, and is `value`.
    """

    outcome: str
    at: float
    source: str
    error: str = ""
    message: str = ""
    has_value: bool = False
    value: Any = None

    @property
    def reason(self) -> str:
        """The error in one line; "" if there was none."""
        return ": ".join(filter(None, (self.error, self.message)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a job when a feature is asked for its part.

    Attributes:
        jid: its id.
        found: where it is, the place that counts first; empty: nowhere.
        carriers: jobs whose text names it, such as the step of a chain before it.
        bid: a batch that names it, if the caller knows one.
        now: epoch seconds.
        is_all: whether all queues and sets were looked through.
    """

    jid: str
    found: Sequence[Found]
    carriers: Sequence[Found]
    now: float
    bid: str = ""
    is_all: bool = True

    @property
    def job(self) -> JobRecord | None:
        """The job as it lies in Redis; None: it does not."""
        return self.found[0].job if self.found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a feature knows of the life of a job; see `JobHistory`."""

    attempts: Sequence[Attempt] = ()
    end: End | None = None
    parents: Sequence[Relative] = ()
    children: Sequence[Relative] = ()
    wait: Wait | None = None
    job_class: str = ""
    queue: str = ""
    tags: Sequence[str] = ()
    tick: TickMark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """The life of a job, as far as it is kept.

    Attributes:
        jid: its id.
        status: where it is now, else how it has ended, else `unknown`.
        found: where it is, the place that counts first; empty: nowhere.
        job_class, queue, tags: of it, also if only a record says so.
        wait: why it does not run now; None: it runs, or has ended.
        events: what happened to it, and what is to come, the earliest first; without its attempts.
        attempts: its executions, the earliest first. Which, see docs/how_to/dead_jobs.md.
        end: how it has ended; None: it has not, or that is not kept.
        parents: what it belongs to.
        children: what follows it, or was made of it.
        stack: where its thread is, if it runs and its process was asked within ten minutes (`Process.dump_threads`).
        refused: questions that the server refused, in words.
        rest: what of queues and sets was not looked at, since the look was bounded; None: nothing.
    """

    jid: str
    status: JobStatus
    found: Sequence[Found] = ()
    job_class: str = ""
    queue: str = ""
    tags: Sequence[str] = ()
    wait: Wait | None = None
    events: Sequence[Event] = ()
    attempts: Sequence[Attempt] = ()
    end: End | None = None
    parents: Sequence[Relative] = ()
    children: Sequence[Relative] = ()
    stack: Stack | None = None
    refused: Sequence[str] = ()
    rest: Rest | None = None

    @property
    def job(self) -> JobRecord | None:
        """The job as it lies in Redis; None: it does not."""
        return self.found[0].job if self.found else None

    @property
    def timeline(self) -> Sequence[Event | Attempt]:
        """Events and attempts, the earliest first."""
        return sorted([*self.events, *self.attempts], key=lambda each: each.at)

    @property
    def is_known(self) -> bool:
        """Whether anything of it is kept."""
        return bool(
            self.found or self.end or self.attempts or self.parents or self.wait or self.events
        )
