"""What a node of a cluster refuses, and how the call gets carried out all the same.

None of these answers leaves anything behind, so that each refused command may be sent again:

- MOVED: another node owns the slot: there, at once;
- ASK: the slot is on its way, and the key has arrived or is not there yet: this command at the other node, once;
- TRYAGAIN, CLUSTERDOWN, LOADING, MASTERDOWN, READONLY: again after a pause, as long as patience lasts.

A transaction is refused as a whole, whichever of its commands was. Where commands of one call were executed and
others refused, those that were executed are only repeated if the call is repeatable.
"""

import time
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final, cast

from kiqbridge.errors import RedisUnavailable
from kiqbridge.features.cluster.nodes import OfOwner, Place
from kiqbridge.runtime import threads
from kiqbridge.store import deadline
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.replies import ANSWERS, ReplyLost, error_text, is_failover
from kiqbridge.store.round_trip import Command, pack

if TYPE_CHECKING:
    from kiqbridge.store.redis_connection import RedisConnection

FIRST_PAUSE_S: Final = 0.01
LONGEST_PAUSE_S: Final = 0.25
QUICK_MOVES: Final = 3
"""How many redirections are followed without a pause; more means that two nodes disagree for a while."""


class _Verdict(Enum):
    MOVED = auto()
    ASK = auto()
    WAIT = auto()
    RENEWED = auto()
    """The address was read again after the login was refused."""


class Attempts:
    """A call whose first attempt was lost or refused in part.

    Args:
        connection: what it is sent on.
        commands: with WAIT behind them, if replicas are to confirm.
        count: how many there are without it.
        repeatable: whether commands that were executed may be repeated.
    """

    def __init__(
        self,
        connection: "RedisConnection",
        commands: Sequence[Command],
        count: int,
        *,
        repeatable: bool,
    ) -> None:
        self._connection = connection
        self._commands = commands
        self._count = count
        self._repeatable = repeatable
        self._replies: list[Any] = [None] * len(commands)
        self._until = time.monotonic() + connection.patience_s
        self._pause_s = FIRST_PAUSE_S
        self._moves = 0
        self._is_lost = False
        self._not_asked: Exception | None = None
        """Why a node did not take ASKING."""

    def until_done(self, fresh: list[Any] | None) -> list[Any]:
        """The replies of the call; `fresh` are those of the first attempt, None: lost, and may be repeated.

        Raises:
            RedisUnavailable: no node carried it out.
            ReplyLost: sent, but no reply, and not repeatable.
        """
        groups = list(_groups(self._commands, self._count))
        sent = groups
        while True:
            if fresh is None:
                self._is_lost = True
            else:
                for index, reply in zip(self._indices(sent), fresh, strict=True):
                    if index < self._count:
                        self._replies[index] = reply
                    else:
                        self._confirm(reply)
                refused = self._refused(sent)
                if not refused:
                    return self._replies
                if not self._repeatable:
                    sent = refused
            asked = [self._commands[index] for index in self._indices(sent)]
            fresh = self._connection.exchange(
                asked, repeatable=self._repeatable, last=self._is_lost
            )

    def _opened(self) -> OfOwner:
        return cast("OfOwner", self._connection.opened)

    def _refused(self, sent: Sequence[range]) -> list[range]:
        """What must be sent again, after the pause that it needs."""
        verdicts = {group: self._verdict(group) for group in sent}
        for group, verdict in verdicts.items():
            if verdict is _Verdict.ASK and self._asked_there(group[0]):
                verdicts[group] = self._verdict(group)
        left = {group: verdict for group, verdict in verdicts.items() if verdict is not None}
        if left:
            self._prepare(left)
        return list(left)

    def _prepare(self, left: dict[range, _Verdict]) -> None:
        """Find out where to send it next, and wait if need be."""
        kinds = set(left.values())
        connection = self._opened()
        place = connection.host, connection.port
        errors = [self._replies[i] for group in left for i in group]
        if _Verdict.MOVED in kinds:
            moved = next(e for e in errors if isinstance(e, redis.exceptions.MovedError))
            connection.nodes.moved(_place_of(moved, place))
            self._moves += 1
        elif not any(
            isinstance(e, redis.exceptions.TryAgainError | redis.exceptions.AskError)
            for e in errors
        ):
            connection.nodes.forget(place)
        if kinds != {_Verdict.ASK}:
            self._connection.close()
        if kinds == {_Verdict.RENEWED} or (
            kinds == {_Verdict.MOVED} and self._moves <= QUICK_MOVES
        ):
            return
        self._pause(next(e for e in errors if isinstance(e, Exception)))

    def _pause(self, error: Exception) -> None:
        rest_s = self._until - time.monotonic()
        left_s = deadline.left()
        if left_s is not None:
            rest_s = min(rest_s, left_s)
        if rest_s <= 0:
            error = self._not_asked or error
            raise RedisUnavailable(
                f"Redis at {self._connection.address} refused the call: {error_text(error)}; the cluster fails over, or "
                "moves the slot of these keys: it is possible again when that is done"
            ) from error
        threads.beat()
        time.sleep(min(self._pause_s, rest_s))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _verdict(self, group: range) -> _Verdict | None:
        """What to do about a command, or a transaction; None: it is done."""
        if not isinstance(self._replies[group[-1]], Exception):  # also of a transaction: EXEC's own
            return None
        is_alone = len(group) == 1
        for index in group:
            reply = self._replies[index]
            if isinstance(reply, redis.exceptions.MovedError):
                return _Verdict.MOVED
            if isinstance(reply, redis.exceptions.AskError):
                # ASKING holds for one command, and a transaction has several.
                return _Verdict.ASK if is_alone else _Verdict.WAIT
            if _is_passing(reply):
                return _Verdict.WAIT
            if isinstance(reply, Exception) and self._connection.is_renewed(reply):
                return _Verdict.RENEWED
        return None

    def _asked_there(self, index: int) -> bool:
        """Send one command to the node that ASK names; whether that has answered.

        Raises:
            ReplyLost: sent, but no reply, and not repeatable.
        """
        connection = self._opened()
        place = _place_of(self._replies[index], (connection.host, connection.port))
        if place is None:
            return False
        wait = self._commands[self._count :]
        try:
            other = connection.nodes.open(place, connection.options)
        except (redis.exceptions.RedisError, OSError):
            return False
        replies: list[Any] = []
        try:
            other.send_packed_command([pack([("ASKING",), self._commands[index], *wait])])  # type: ignore[no-untyped-call]
            for _ in range(2 + len(wait)):
                try:
                    replies.append(other.read_response(disconnect_on_error=False))
                except ANSWERS as error:
                    replies.append(error)
        except (redis.exceptions.RedisError, OSError) as error:
            if not self._repeatable:
                raise ReplyLost(f"no reply from {place[0]}:{place[1]}: {error}") from error
            return False
        finally:
            other.disconnect()  # type: ignore[no-untyped-call]
        if isinstance(replies[0], Exception) and isinstance(
            replies[1], redis.exceptions.MovedError
        ):
            # Without the right to ASKING: the node does not own the slot yet, and sends us back.
            self._not_asked = replies[0]
            return False
        self._replies[index] = replies[1]
        if wait:
            self._confirm(replies[-1])
        return True

    def _confirm(self, reply: Any) -> None:
        """WAIT's reply for a part of the call: the least of all counts."""
        known = self._replies[-1]
        is_less = isinstance(known, int) and isinstance(reply, int) and known < reply
        is_refused = isinstance(known, Exception) and isinstance(reply, int)
        self._replies[-1] = known if is_less and not self._repeatable and not is_refused else reply

    def _indices(self, sent: Sequence[range]) -> list[int]:
        return [*(i for group in sent for i in group), *range(self._count, len(self._commands))]


def _groups(commands: Sequence[Command], count: int) -> Iterator[range]:
    """The commands one by one, and each transaction as a whole."""
    index = 0
    while index < count:
        last = index
        if commands[index][0] == "MULTI":
            last = next((i for i in range(index, count) if commands[i][0] == "EXEC"), index)
        yield range(index, last + 1)
        index = last + 1


def _is_passing(reply: object) -> bool:
    """Whether the node refuses for now."""
    kinds = (
        redis.exceptions.TryAgainError,
        redis.exceptions.ClusterDownError,
        redis.exceptions.BusyLoadingError,
    )
    return isinstance(reply, kinds) or is_failover(reply)


def _place_of(error: redis.exceptions.AskError, here: Place) -> Place | None:
    """Where MOVED or ASK sends us; None where the node cannot name it."""
    if error.host == "?":
        return None
    return error.host or here[0], error.port
