"""Reading the records of jobs that have ended: one by its jid, and lists, the last end first."""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from kiqbridge.api.life import Attempt, End, Known, Part, Relative
from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.features.done.record import DoneJob, parse_record
from kiqbridge.runtime.records import dataclass
from kiqbridge.wire.names import text_of

AT_ONCE: Final = 500
"""Records that one round trip reads."""

MOST_LOOKED: Final = 20_000
"""Records that are looked at for one answer: forty round trips."""


LAST: Final = "\U0010ffff"
"""Behind each jid."""

_DIGITS: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class DoneFilter:
    """A job matches if all that is given applies.

    Attributes:
        job_class, queue, error_class: globs.
        tag: one of its tags.
        outcome: `done`, `dead`, `discarded`, `skipped`, `expired`, `cancelled`, or `bad`: any but `done`.
        longer_than_s: seconds that its last execution took at least.
        text: what its jid, worker or error contains, in any case.
    """

    job_class: str = ""
    queue: str = ""
    error_class: str = ""
    tag: str = ""
    outcome: str = ""
    longer_than_s: float = 0.0
    text: str = ""

    def matches(self, job: DoneJob) -> bool:
        """Whether a job is meant."""
        last = job.last
        return (
            (not self.job_class or fnmatchcase(job.job_class, self.job_class))
            and (not self.queue or fnmatchcase(last.queue, self.queue))
            and (not self.error_class or fnmatchcase(last.error, self.error_class))
            and (not self.tag or self.tag in last.tags)
            and (not self.outcome or last.outcome == self.outcome or self._is_bad(last.outcome))
            and (not self.longer_than_s or (last.took_s or 0.0) >= self.longer_than_s)
            and self.text.casefold() in f"{job.jid} {last.worker} {last.message}".casefold()
        )

    def _is_bad(self, outcome: str) -> bool:
        return self.outcome == "bad" and outcome != "done"


class Position(NamedTuple):
    """Where a list goes on: behind the job that ended then (milliseconds), under this jid."""

    at_ms: int
    jid: str

    def __str__(self) -> str:
        return f"{self.at_ms}-{self.jid}"


def parse_position(text: str) -> Position | None:
    """The counterpart of its text; None: it is none."""
    at, _, jid = text.partition("-")
    is_time = at.isdecimal() and at.isascii() and len(at) <= _DIGITS
    return Position(int(at), jid) if is_time else None


def fetch_done(jid: str, operator: Operator | None = None) -> DoneJob | None:
    """The record of one job; None: there is none.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    text = whose.pool.call("HGET", whose.keys.done_jobs, jid)
    return None if text is None else parse_record(jid, text)


def classes_of(operator: Operator, jids: Sequence[str]) -> Mapping[str, str]:
    """The classes of those of these jobs of which there is a record; raises as `fetch_done`."""
    texts = operator.pool.call("HMGET", operator.keys.done_jobs, *jids) if jids else []
    found = (parse_record(jid, text) for jid, text in zip(jids, texts, strict=True) if text)
    return {job.jid: job.job_class for job in found if job is not None}


def count_done(operator: Operator | None = None) -> int:
    """How many records there are, those of jobs that are tried again included; raises as `fetch_done`."""
    whose = operator or default_operator()
    return int(whose.pool.call("ZCARD", whose.keys.done))


def scan_done(
    where: DoneFilter | None = None,
    operator: Operator | None = None,
    *,
    before: Position | None = None,
    most: int = MOST_LOOKED,
) -> Iterator[tuple[DoneJob | None, Position]]:
    """Jobs that have ended, the last first.

    Args:
        where: which; default all.
        operator: default `default_operator()`.
        before: only those behind this one.
        most: records that are looked at.

    Yields:
        A job, and its position; None in the place of one that does not match.

    Raises:
        RedisUnavailable, RedisRefused: the rest was not read.
    """
    whose, chosen = operator or default_operator(), where or DoneFilter()
    for page in _pages(whose, before, most):
        texts = whose.pool.call("HMGET", whose.keys.done_jobs, *(jid for jid, _ in page))
        for (_, position), text in zip(page, texts, strict=True):
            job = parse_record(position.jid, text) if text is not None else None
            is_meant = job is not None and job.has_ended and chosen.matches(job)
            yield (job if is_meant else None), position


def _pages(
    operator: Operator, before: Position | None, most: int
) -> Iterator[Sequence[tuple[bytes, Position]]]:
    """The jids, the last end first; a page goes on behind the last one, whatever was added meanwhile."""
    pool, key = operator.pool, operator.keys.done
    last, left = before, most
    while left > 0:
        highest = "+inf" if last is None else str(last.at_ms)
        down = (key, highest, "-inf", "BYSCORE", "REV", "LIMIT", 0, AT_ONCE, "WITHSCORES")
        rows = pool.call("ZRANGE", *down)
        pairs = [
            (jid, Position(int(float(score)), text_of(jid)))
            for jid, score in zip(rows[::2], rows[1::2], strict=True)
        ]
        behind = [each for each in pairs if last is None or _is_behind(each[1], last)][:left]
        if behind:
            yield behind
            last = behind[-1][1]
        elif last is None or len(pairs) < AT_ONCE:
            return
        else:  # more than that ended in one millisecond: the rest of them is passed over
            last = Position(last.at_ms - 1, LAST)
        left -= len(behind) or AT_ONCE


def _is_behind(position: Position, last: Position) -> bool:
    return (position.at_ms, position.jid.encode("utf-8", "surrogateescape")) < (
        last.at_ms,
        last.jid.encode("utf-8", "surrogateescape"),
    )


def part_of(operator: Operator, known: Known) -> Part | None:
    """The seam `history`."""
    job = fetch_done(known.jid, operator)
    if job is None:
        return None
    last = job.last
    end = End(
        outcome=last.outcome, at=last.at, source="record", error=last.error, message=last.message
    )
    parents = [Relative(kind="batch", id=last.bid, text="")] if last.bid else []
    if last.chain:
        parents.append(Relative(kind="chain", id=last.chain, text=""))
    return Part(
        attempts=[
            Attempt(
                at=run.at,
                outcome=run.outcome,
                took_s=run.took_s,
                worker=run.worker,
                error=run.error,
                message=run.message,
            )
            for run in job.runs
        ],
        end=end if job.has_ended else None,
        parents=parents,
        children=[Relative(kind="job", id=each, text="the step behind it") for each in last.next],
        job_class=job.job_class,
        queue=last.queue,
        tags=last.tags,
        tick=last.tick,
    )
