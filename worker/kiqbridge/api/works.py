"""The jobs that run, as their processes of Python and Ruby show them (protocol §10.4)."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api.metrics import class_histograms
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.api.processes import ProcessSet
from kiqbridge.store.replies import pairs_of
from kiqbridge.wire.amounts import span_text
from kiqbridge.wire.job_record import JobRecord
from kiqbridge.wire.names import text_of
from kiqbridge.wire.payload import read_timestamp

MEASURED: Final = 12
"""Classes whose durations are read: two commands each."""
STALE_S: Final = 15.0
"""A heartbeat comes each 10 s at most; a job may have ended since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A job that runs, as the last heartbeat of its process showed it.

    Attributes:
        process: the identity of its process.
        tid: of its thread, or of its task on an event loop.
        job: the job.
        run_at: when it began, epoch seconds.
    """

    process: str
    tid: str
    job: JobRecord
    run_at: float


class WorkSet:
    """The jobs that run now, in all processes, the longest running first.

    Args:
        operator: default `default_operator()`.
    """

    def __init__(self, operator: Operator | None = None) -> None:
        self.operator = operator or default_operator()

    def __iter__(self) -> Iterator[Work]:
        """Two round trips, however many processes there are."""
        pool, keys = self.operator.pool, self.operator.keys
        names = [text_of(name) for name in pool.call("SMEMBERS", keys.processes)]
        both = [key(name) for name in names for key in (keys.work, keys.workers)]
        replies = pool.run(*(("HGETALL", key) for key in both)) if names else []
        found = [
            parse_work(name, text_of(tid), text)
            # Up to 6.4 under the second name; ours write both.
            for name, new, old in zip(names, replies[::2], replies[1::2], strict=True)
            for tid, text in pairs_of(new or old).items()
        ]
        works = filter(None, found)
        return iter(sorted(works, key=lambda work: (work.run_at, work.process, work.tid)))

    @property
    def size(self) -> int:
        """How many jobs run, by the heartbeats of the processes."""
        return sum(process.busy for process in ProcessSet(self.operator))

    def __len__(self) -> int:
        return self.size

    def find_work(self, jid: str) -> Work | None:
        """The running job of this jid, None if it does not run."""
        return next((work for work in self if work.job.jid == jid), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningJob:
    """A job that runs, and how long those of its class usually do.

    Attributes:
        work: the job.
        age_s: seconds for which it has run.
        p95_s: seconds within which 95 of 100 jobs of its class ended in the last hour; None: not measured.
    """

    work: Work
    age_s: float
    p95_s: float | None

    @property
    def is_late(self) -> bool:
        """Whether it runs longer than those; for less than `STALE_S` that is not sure."""
        return self.p95_s is not None and self.age_s > max(self.p95_s, STALE_S)

    @property
    def times(self) -> int:
        """So many times as long as those it has run; 0: not longer, or that is not known."""
        return int(self.age_s / self.p95_s) if self.p95_s and self.is_late else 0

    @property
    def age_text(self) -> str:
        """`2 s`; of one that is late `3 min, 40 x p95`."""
        return span_text(self.age_s) + (f", {self.times:,} x p95" if self.times > 1 else "")


def usual_durations(works: Sequence[Work], operator: Operator) -> Mapping[str, float]:
    """Class → seconds within which 95 of 100 of its jobs ended in the last hour; of the first classes, in a round trip."""
    classes = list(dict.fromkeys(each.job.display_class for each in works))[:MEASURED]
    took = class_histograms(classes, operator=operator) if classes else {}
    return {name: p95 / 1000 for name, each in took.items() if (p95 := each.p95) is not None}


def running_jobs(
    works: Iterable[Work], usual: Mapping[str, float], now: float
) -> Sequence[RunningJob]:
    """Each with its age at `now` (epoch seconds), and what `usual_durations` says of its class."""
    return [
        RunningJob(
            work=each, age_s=max(0.0, now - each.run_at), p95_s=usual.get(each.job.display_class)
        )
        for each in works
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Where a thread was.

    Attributes:
        run_at: when its job had begun, epoch seconds.
        at: when it was there, epoch seconds.
        text: the calls, innermost last.
    """

    run_at: float
    at: float
    text: str

    def is_of(self, work: Work) -> bool:
        """Whether the thread still runs that job."""
        return abs(self.run_at - work.run_at) < 1.0  # a heartbeat has whole seconds


def fetch_stacks(
    works: Iterable[Work], operator: Operator | None = None
) -> Mapping[tuple[str, str], Stack]:
    """Where the threads of these jobs are, by process and thread, of processes that were asked within ten minutes.

    One round trip. A process is asked by `Process.dump_threads`.

    Raises:
        RedisUnavailable: nothing was read.
    """
    whose = operator or default_operator()
    by_place = {(each.process, each.tid): each for each in works}
    names = sorted({process for process, _ in by_place})
    replies = (
        whose.pool.run(*(("HGETALL", whose.keys.stacks(name)) for name in names)) if names else []
    )
    found = {
        (name, text_of(tid)): stack
        for name, reply in zip(names, replies, strict=True)
        for tid, text in pairs_of(reply).items()
        if (stack := _stack(text)) is not None
    }
    return {
        place: stack
        for place, stack in found.items()
        if place in by_place and stack.is_of(by_place[place])
    }


def _stack(text: bytes) -> Stack | None:
    try:
        read = json.loads(text)
        return Stack(run_at=float(read["run_at"]), at=float(read["at"]), text=str(read["stack"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def parse_work(process: str, tid: str, text: bytes) -> Work | None:
    """A running job out of what its process wrote; None: that cannot be read."""
    try:
        work = json.loads(text)
        payload = work["payload"]
        # A text from 7.2 on, an object before (§10.4).
        raw = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
        job = JobRecord(raw.encode("utf-8", "surrogatepass"), queue=str(work["queue"]))
        run_at = read_timestamp(work["run_at"]) or 0.0
        return Work(process=process, tid=tid, job=job, run_at=run_at)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
