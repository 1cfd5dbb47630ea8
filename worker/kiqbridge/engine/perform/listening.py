"""The idle thread of a process that listens for pushes, or waits for its turn to do so (turns.py).

Its connection has read the queues, so a push is reported to it. It claims at once, on the same connection, before it
has even read what is reported, and the claim's script hands the role on. A look is one `EXISTS` of all queues and of the set of paused ones, on that tracked
connection: 0 means that there is nothing, and that any change from then on is reported. If something is paused, or claims
brought nothing though there were jobs, it looks closely: the queues that are not paused, and the set itself.
"""

import logging
import time
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kiqbridge.engine.perform.turns import State, Turns, raw_name, token_of
from kiqbridge.runtime.role import Troubles
from kiqbridge.store import wake_connection
from kiqbridge.store.lean_redis import redis
from kiqbridge.wire.names import bytes_of, text_of

if TYPE_CHECKING:
    from redis.connection import AbstractConnection

    from kiqbridge.engine.inflight.chunk import Chunk
    from kiqbridge.engine.inflight.claims import Claimer, PreparedClaim
    from kiqbridge.store.round_trip import Command
    from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

TIGHT_LOOK_S = 0.02
"""Pause before a claim while there is no room for some kind of job (slots.py)."""


FUTILE_CLAIMS: Final = 3
"""After so many claims in a row that brought nothing, pause before the next."""


_NO_TIME: Final = b"000/"
"""How the token of a prepared claim begins: `token_of` with no time left."""


class _GoOn(Enum):
    GO_ON = "go on"


_GO_ON = _GoOn.GO_ON


class PendingClaim(NamedTuple):
    """Who would claim, in which order and how many at once: the idle thread that waits here."""

    claimer: "Claimer"
    queues: Sequence[str]
    most: Callable[[], int] = lambda: 1


class Listening(Turns):
    """Where the idle threads of one capsule wait.

    Args:
        queues, keys, connect, troubles: as of `Turns`.
        is_tight: whether some kind of job finds no room here now.
    """

    def __init__(
        self,
        queues: Sequence[str],
        keys: "Keys",
        connect: "Callable[..., AbstractConnection]",
        is_tight: Callable[[], bool] = lambda: False,
        troubles: Troubles | None = None,
    ) -> None:
        super().__init__(queues, keys, connect, troubles)
        self._is_tight = is_tight
        self._work = f"listening for pushes to {', '.join(queues)}"
        self._look_at_queues = LookAtQueues(self._connection, queues, keys)
        self._look_at = 0.0

    def wait(self, pending: PendingClaim | None = None) -> "Chunk | None":
        """Block until there may be jobs; they are claimed already if there is an `pending`.

        None: the thread is to claim by itself, or was interrupted.
        """
        connection = self._connection
        connection.pause(self._retry_at - time.monotonic())
        try:
            while not connection.take_interruption():
                if self.state is not State.LISTENING:
                    self._await_role()
                elif (step := self._listen(pending)) is not _GO_ON:
                    return step
        except wake_connection.FAILURES as error:
            work = self._work if self.state is State.LISTENING else self._turn_work
            self._troubles.failed(work, connection.failure(error))
            self._drop()  # the thread's own claim reports the outage, and waits it out
        except Exception:
            # An answer that makes no sense: the connection is out of step.
            logger.exception("watching the queues failed; it is tried again")
            self._drop()
        except BaseException:
            self._drop()
            raise
        return None

    def _drop(self, pause_s: float = wake_connection.RETRY_S) -> None:
        super()._drop(pause_s)
        self._look_at_queues.forget()

    def looked(self, *, found: bool) -> None:
        """The thread that waited here has claimed by itself."""
        self._look_at_queues.claimed(found=found)

    def _listen(self, pending: PendingClaim | None) -> "Chunk | _GoOn | None":
        connection = self._connection
        if not self._is_armed:
            # Here too, since each may find jobs at its first look, and hand the role on.
            if not self.is_alone and time.monotonic() >= self._renew_at:
                self._renew()
                return _GO_ON
            if self._look():
                # Where it is tight, what was found may be what there is no room for; a free place wakes by itself.
                pause_s = TIGHT_LOOK_S if self._is_tight() else self._look_at_queues.pause_s
                if pause_s:
                    self._connection.pause(pause_s)
                return self._claim(pending, self._prepare(pending))
            if self.state is not State.LISTENING:
                return _GO_ON
            self._is_armed = True
            look_s = (
                wake_connection.SAFETY_LOOK_S
                if connection.tracks
                else wake_connection.LOOK_WITHOUT_TRACKING_S
            )
            self._look_at = time.monotonic() + look_s
        return self._wait_for_news(pending, self._prepare(pending))

    def _wait_for_news(
        self, pending: PendingClaim | None, prepared: "PreparedClaim | None"
    ) -> "Chunk | _GoOn | None":
        connection, claim = self._connection, None
        if pending is not None and prepared is not None and self._look_at_queues.is_plain:
            claim = partial(self._packed, pending, prepared)
        until = self._look_at if self.is_alone else min(self._look_at, self._renew_at)
        message = connection.receive(until - time.monotonic(), claim)
        if pending is not None and prepared is not None and message is wake_connection.SENT:
            return self._claimed_at_news(pending, prepared)
        if isinstance(message, wake_connection.News):
            return self._heard(message, pending, prepared)
        if message is not None:
            raise redis.exceptions.ConnectionError("a reply to nothing")
        now = time.monotonic()
        if not self.is_alone and now >= self._renew_at:
            self._renew()
        if now >= self._look_at:
            self._is_armed = False
            if self._solo_until and now >= self._solo_until:
                self._solo_until = 0.0
                self.state = State.UNKNOWN
        return _GO_ON

    def _heard(
        self,
        news: wake_connection.News,
        pending: PendingClaim | None,
        prepared: "PreparedClaim | None",
    ) -> "Chunk | _GoOn | None":
        if news.all:
            # The server was emptied: what this process knows of the others is no more.
            self._is_armed = False
            self.state = State.UNKNOWN
            return _GO_ON
        if self._look_at_queues.leads_to_claim(news):
            return self._claim(pending, prepared)
        self._is_armed = False
        if self.is_alone and not self._solo_until:
            self._look_for_company()
        return _GO_ON

    def _look(self) -> bool:
        """Whether a claim is due: there are jobs in queues that are not paused; arms all of them."""
        self._connection.news.clear()
        is_shared = self.is_alone and not self._solo_until
        if is_shared and self._look_at_queues.is_close:
            self._look_for_company()
            if self.state is not State.LISTENING:
                return False
        is_due = self._look_at_queues.look(*(self._sign, self._standby) if is_shared else ())
        for work in (self._work, self._turn_work):
            self._troubles.worked(work)
        return is_due

    def _prepare(self, pending: PendingClaim | None) -> "PreparedClaim | None":
        """The claim that is sent at the news, written before there are any."""
        if pending is None:
            return None
        token = "" if self.is_alone else token_of(self._generation)
        return pending.claimer.prepare(pending.queues, pending.most(), self._list, token)

    def _packed(self, pending: PendingClaim, claim: "PreparedClaim") -> bytes:
        """What is to be sent of a claim; empty: the thread is to claim on its own.

        A job waits for it. If it has a token, that says when the sign is to be renewed.
        """
        if self._is_tight() or (claim.most > 1 and pending.most() == 1):
            return b""
        if not pending.claimer.may_send(claim):
            return b""
        if self.is_alone:
            return claim.packed
        before, _, generation = claim.packed.rpartition(_NO_TIME)
        return b"%s%03d/%s" % (before, self._renew_in_ms, generation)

    def _claim(
        self, pending: PendingClaim | None, prepared: "PreparedClaim | None"
    ) -> "Chunk | _GoOn | None":
        """Claim on this connection; None: the thread is to claim on its own."""
        self._is_armed = False
        if pending is None or prepared is None:
            return None
        packed = self._packed(pending, prepared)
        if not packed:
            return None
        self._connection.send(packed)
        is_known, chunk = self._answered(pending, prepared)
        if not is_known:
            return None
        self.looked(found=chunk is not None)
        return _GO_ON if chunk is None else chunk

    def _claimed_at_news(
        self, pending: PendingClaim, sent: "PreparedClaim"
    ) -> "Chunk | _GoOn | None":
        """A claim was sent when something was reported; find out what that was while the server answers."""
        self._is_armed = False
        message = self._connection.receive(0)
        is_news = isinstance(message, wake_connection.News)
        is_due = is_news and not message.all and self._look_at_queues.leads_to_claim(message)
        is_known, chunk = self._answered(
            pending, sent, [] if is_news or message is None else [message]
        )
        if is_due:
            self.looked(found=chunk is not None)
        elif is_news and message.all:
            self.state = State.UNKNOWN
        elif chunk is None and self.is_alone and not self._solo_until:
            self._look_for_company()
        if not is_known:
            return None
        return _GO_ON if chunk is None else chunk

    def _answered(
        self, pending: PendingClaim, sent: "PreparedClaim", replies: Sequence[Any] = ()
    ) -> "tuple[bool, Chunk | None]":
        """What a claim has brought, as of `Claimer.accept`."""
        [reply] = replies or self._connection.replies(1, is_urgent=True)
        if isinstance(reply, Exception) and "NOSCRIPT" in str(reply):
            self._connection.send(sent.packed_whole())
            [reply] = self._connection.replies(1)
        is_known, chunk = pending.claimer.accept(sent, reply)
        if is_known and not self.is_alone:
            if chunk is None:
                self._renew()  # another process may listen as well
            else:
                self.state = State.HANDED_ON
        return is_known, chunk


class LookAtQueues:
    """What one process knows of its queues between two looks.

    Args:
        connection: where it waits for changes.
        queues: that are served.
        keys: the namespace.
    """

    def __init__(
        self, connection: wake_connection.WakeConnection, queues: Sequence[str], keys: "Keys"
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._queues = {name: keys.queue(name) for name in queues}
        self._queue_keys = frozenset(map(raw_name, self._queues.values()))
        self._paused_key = bytes_of(keys.paused)
        self._paused: set[str] | None = None
        self._futile = 0

    @property
    def is_close(self) -> bool:
        """Whether the next look will be a close one."""
        return bool(self._futile or self._paused)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is paused, as far as is known, and claims bring what they are to bring."""
        return self._paused is not None and not self.is_close

    @property
    def pause_s(self) -> float:
        """Seconds to wait before a claim, since the last ones brought nothing."""
        over = self._futile - FUTILE_CLAIMS
        return 0.001 * 2 ** min(over, 8) if over > 0 else 0.0

    def forget(self) -> None:
        """The connection is gone: what was paused may have changed."""
        self._paused = None

    def claimed(self, *, found: bool) -> None:
        """A claim has brought jobs, or nothing."""
        self._futile = 0 if found else self._futile + 1

    def leads_to_claim(self, news: wake_connection.News) -> bool:
        """Note a change; whether it leads to a claim at once, without a look before.

        So the thread that got the last job takes the news for a job as well.
        """
        if self.is_plain and not news.keys.isdisjoint(self._queue_keys):
            return True
        if self._paused_key in news.keys:
            self._paused = None
        return False

    def look(self, *others: str) -> bool:
        """Whether there are jobs in queues that are not paused, or one of these other keys; all are tracked then.

        Raises:
            RedisError, OSError: not known.
        """
        if not self.is_close:
            keys = [self._keys.paused, *self._queues.values(), *others]
            count = _number(self._connection.ask_tracked(("EXISTS", *keys))[0])
            # What was reported until now came before the reply, and is seen in it.
            self._connection.news.clear()
            if not count:
                self._paused = set()
                return False
            if self._paused is not None:
                return True
        return self._look_closely()

    def _look_closely(self) -> bool:
        names = self._paused or set()
        while True:
            served = [key for name, key in self._queues.items() if name not in names]
            # With the set each time: the news of a change that came between two looks is passed over.
            exists: list[Command] = [("EXISTS", *served)] if served else []
            paused, *found = self._connection.ask_tracked(("SMEMBERS", self._keys.paused), *exists)
            if isinstance(paused, Exception):
                raise paused
            seen, names = names, {text_of(name) for name in paused}
            self._paused = names
            count = _number(found[0]) if found else 0
            if seen == names or not (seen or count):
                if not count:
                    self._futile = 0
                return bool(count)


def _number(reply: Any) -> int:
    if isinstance(reply, Exception):
        raise reply
    return int(reply)
