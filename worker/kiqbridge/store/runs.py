"""What of a schedule runs at this moment: the hash `kb:runs`, where overlap or age matter (docs/schedules.md).

A mark names the incarnation that runs the job, or the identity of a process that has none (basic fetch). It is
void once that is registered no more, so whatever dies blocks no schedule.
"""

from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import text_of
from kiqbridge.wire.tick_mark import TickMark

_BEGIN: Final = scripts.load("begin_run")
_END: Final = scripts.load("end_run")


class RunMark(NamedTuple):
    """A job of a schedule, and who runs it; owner and jid have no blanks."""

    tick: TickMark
    jid: str
    owner: str


class Begun(NamedTuple):
    """Whether a job begins.

    Attributes:
        outcome: `run`, `expired` or `skipped`.
        others: jids of what is to be cancelled, or for which it is skipped.
    """

    outcome: str
    others: list[str]


def begin_run(connection: RedisConnection, keys: Keys, mark: RunMark, *, is_first: bool) -> Begun:
    """Decide whether a job begins, and note it.

    Args:
        connection: where to write.
        keys: names of keys.
        mark: the job.
        is_first: it was never tried before, as far as its payload says: then it may be too old.

    Raises:
        RedisUnavailable: repeat it.
        RedisRefused: the key is of another type.
    """
    tick = mark.tick
    max_age = "" if tick.max_age_s is None or not is_first else repr(tick.max_age_s)
    args: list[str | bytes | float] = [
        tick.schedule,
        mark.owner,
        mark.jid,
        tick.at,
        tick.overlap,
        max_age,
    ]
    reply = connection.script(_BEGIN, [keys.runs, keys.inflight, keys.processes], args)
    outcome, *others = map(text_of, reply)
    return Begun(outcome, others)


def end_run(connection: RedisConnection, keys: Keys, mark: RunMark, *, is_over: bool) -> bool:
    """Note that a job runs no longer; `is_over`: nor will it. False: another one runs it, or nobody.

    Raises:
        RedisUnavailable: repeat it.
        RedisRefused: the key is of another type.
    """
    tick = mark.tick
    args: list[str | bytes | float] = [
        tick.schedule,
        mark.owner,
        mark.jid,
        tick.at,
        "1" if is_over else "",
    ]
    return bool(connection.script(_END, [keys.runs], args))
