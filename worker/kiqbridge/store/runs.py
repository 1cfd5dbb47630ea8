"""What of a schedule runs at this moment: the hash `kb:runs`, where overlap or age matter (docs/explanation/schedules.md).

A mark names the incarnation that runs the job, or the identity of a process that has none (basic fetch). It is
void once that is registered no more, so whatever dies blocks no schedule.
"""

from typing import Final, NamedTuple

from kiqbridge.store import scripts
from kiqbridge.store.effects import Effect
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import TickMark

_END: Final = scripts.load("end_run")


class RunMark(NamedTuple):
    """A job of a schedule, and who runs it; owner and jid have no blanks."""

    tick: TickMark
    jid: str
    owner: str


def ask_run(keys: Keys, mark: RunMark, *, is_first: bool) -> Effect:
    """What decides whether a job of a schedule begins, and notes it (store/begin.py).

    It answers with the jids of what is to be cancelled, or for which it is skipped.

    Args:
        keys: names of keys.
        mark: the job.
        is_first: it was never tried before, as far as its payload says: then it may be too old.
    """
    tick = mark.tick
    max_age = "" if tick.max_age_s is None or not is_first else repr(tick.max_age_s)
    args: list[str | float] = [tick.schedule, mark.owner, mark.jid, tick.at, tick.overlap, max_age]
    return Effect("run", [keys.runs, keys.inflight, keys.processes], args)


def end_run(connection: RedisConnection, keys: Keys, mark: RunMark, *, is_over: bool) -> bool:
    """Note that a job runs no longer; `is_over`: nor will it. False: another one runs it, or none.

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
