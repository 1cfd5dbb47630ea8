"""How far iterable jobs are: their cursors, executions and time (protocol §13.1), of Python and Ruby alike."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kiqbridge.api.operator import Operator, default_operator
from kiqbridge.store.replies import number_in
from kiqbridge.wire import json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """The progress of one job, as it was saved last: every five seconds while it runs.

    Attributes:
        jid: of the job.
        executions: how many were begun.
        runtime_s: seconds that the executions took which have ended.
        cursor: where it is, as `build_enumerator` gets it; None before its first item, or if it is unreadable.
        cancelled_at: epoch seconds of the request to cancel it; None: there is none.
    """

    jid: str
    executions: int
    runtime_s: float
    cursor: Any
    cancelled_at: float | None = None

    @property
    def cursor_text(self) -> str:
        """The cursor as JSON."""
        return json_text.dumps(self.cursor).decode("utf-8", "replace")


def fetch_iterations(
    jids: Iterable[str], operator: Operator | None = None
) -> Mapping[str, Iteration]:
    """The progress of those of these jobs that are iterable, by jid, in one round trip.

    Args:
        jids: such as those of the jobs that run.
        operator: default `default_operator()`.

    Raises:
        RedisUnavailable, RedisRefused: nothing was read.
    """
    whose = operator or default_operator()
    asked = list(dict.fromkeys(jid for jid in jids if jid))
    if not asked:
        return {}
    commands = [("HMGET", whose.keys.iteration(jid), "ex", "c", "rt", "cancelled") for jid in asked]
    return {
        jid: _iteration(jid, reply)
        for jid, reply in zip(asked, whose.pool.run(*commands), strict=True)
        if any(value is not None for value in reply)
    }


def _iteration(jid: str, reply: Sequence[bytes | None]) -> Iteration:
    executions, cursor, runtime, cancelled = reply
    try:
        found = json_text.loads(cursor or b"null")
    except json_text.MalformedJSON:
        found = None
    return Iteration(
        jid=jid,
        executions=int(number_in(executions)),
        runtime_s=number_in(runtime),
        cursor=found,
        cancelled_at=number_in(cancelled) or None,
    )
