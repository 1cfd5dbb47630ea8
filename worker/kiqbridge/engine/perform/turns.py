"""Which process of a fleet sees a push first: one listens, the others are parked (docs/decisions/0011).

All processes that serve the same set of queues share a *role*. In each, one idle thread waits here:

1. It has the role: it *listens*. Its connection has read the queues (`EXISTS`), so a push is reported to it.
   It claims at once, on the same connection, and the claim's script hands the role on.
2. It has not: it is *parked* in `BLPOP` on the wake list. The role comes as a token in that list, to the
   process that has been parked for longest. So work goes round, and each push wakes one process.
   The token says when the sign is to be renewed next, so who hands the role on does not renew it.
3. A listener that dies leaves its sign (a key with a TTL), which it would have renewed, to expire. One of the
   parked ones is the *standby*: it looks whenever the sign would have expired, and takes the role. If both die,
   another parked one finds it out, which looks now and then. Each renewal changes the text of a sign: one that
   has stood unchanged for its term is over, also if the server's clock was set back and its TTL goes on.
4. Where no process is parked the listener is *alone*: it renews nothing and hands nothing on until a key that only
   others write, the sign or the standby's, is reported to it.

A token is only a reason to look. One that is lost costs time: until the sign has expired and the standby
looks, less than a second. Two listeners at once cost commands; who finds a later sign than its own parks.
"""

import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.errors import RedisUnavailable
from kiqbridge.runtime.digests import sha1
from kiqbridge.runtime.role import Troubles
from kiqbridge.store import scripts, wake_connection
from kiqbridge.store.leadership import Sight
from kiqbridge.store.replies import error_text
from kiqbridge.store.round_trip import pack
from kiqbridge.wire.names import bytes_of, text_of

if TYPE_CHECKING:
    from redis.connection import AbstractConnection

    from kiqbridge.store.redis_pool import RedisPool
    from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

_CHECK = scripts.load("wake_check")
_RENEW = scripts.load("wake_renew")
_FORGET = scripts.load("wake_forget")

SIGN_MS: Final = 950
"""How long the sign of who listens outlives its last renewal."""
RENEW_S: Final = 0.45
"""How often it is renewed: twice may be missed by a process that gets no CPU."""
STANDBY_MS: Final = 1_900
STANDBY_AFTER_S: Final = 0.02
"""How long after the sign would have expired the standby looks: it has the role within a second of the last renewal."""
LOOK_S_A_PROCESS: Final = 1.0
"""Each other parked process looks after this time multiplied by the size of the fleet: one look a second in all."""
LOOK_AT_LEAST_S: Final = 0.3
OFTEN_UP_TO: Final = 6
"""In a fleet of up to so many processes, each parked one looks after `LOOK_AT_LEAST_S`."""
LOOK_AT_MOST_S: Final = 60.0
SMALL_FLEET: Final = 3
"""In a fleet that is no larger every parked process looks as often as a standby."""
COUNT_S: Final = 30.0
"""How long a parked process goes by the size of the fleet that it has read."""
LATE_AT_LEAST_S: Final = 0.2
LATE_AT_MOST_S: Final = 5.0
"""A BLPOP that has not ended a third of its time later is given up: the server is lost, or its clock was set back."""

_LOOK = b"look"
_NAMED_BYTES = 100


class State(Enum):
    """Where this process stands."""

    UNKNOWN = "unknown"
    LISTENING = "listening"
    HANDED_ON = "handed on"
    PARKED = "parked"


def set_of(queues: Iterable[str]) -> str:
    """The name of a set of queues: the same for all processes that serve them, in whatever order."""
    joined = raw_name(",".join(sorted(set(queues))))
    if len(joined) <= _NAMED_BYTES:
        return text_of(joined)
    return sha1(joined, usedforsecurity=False).hexdigest()


def raw_name(name: str) -> bytes:
    """The bytes of a queue's name or key."""
    try:
        return bytes_of(name)
    except UnicodeEncodeError:  # no name that Redis can have: its claim reports it
        return name.encode("utf-8", "backslashreplace")


class Turns:
    """The part of one capsule in this; used by one thread at a time, but for `interrupt`.

    Args:
        queues: that are served.
        keys: the namespace.
        connect: as of `WakeConnection`.
        troubles: gets what the server refuses for good.

    Attributes:
        state: where this process stands.
        is_alone: it listens, and no other is parked.
    """

    def __init__(
        self,
        queues: Sequence[str],
        keys: "Keys",
        connect: "Callable[..., AbstractConnection]",
        troubles: Troubles | None = None,
    ) -> None:
        self.state = State.UNKNOWN
        self.is_alone = False
        self._connection = wake_connection.WakeConnection(connect)
        self._troubles = Troubles() if troubles is None else troubles
        self._turn_work = f"taking turns in listening for pushes to {', '.join(queues)}"
        self._keys = keys
        self._list, self._sign, self._standby = keys.wake(set_of(queues))
        self._generation = ""  # the text of the sign
        self._standby_text = ""
        self._sign_sight, self._standby_sight = Sight(), Sight()
        self._is_armed = False
        self._is_standby = False
        self._processes = 1
        self._sign_left_s = 0.0
        self._solo_until = 0.0
        self._is_solo_reported = False
        self._renew_at = self._retry_at = self._parked_until = self._count_at = 0.0
        self._rng = random.Random()  # noqa: S311 - spreads looks over time

    def __repr__(self) -> str:
        alone = " alone" if self.is_alone else ""
        return f"<{type(self).__name__} {self.state.value}{alone}>"

    def interrupt(self) -> None:
        """Have the thread that waits here return."""
        self._connection.interrupt()

    def leave(self) -> None:
        """No thread waits here from now on: leave the role to another process."""
        try:
            if self.state is State.PARKED:
                # A token may be on its way to this process, where no thread would read it. If so it is lost.
                self._connection.close()
                self.state = State.HANDED_ON
            elif self.state is State.LISTENING and not self.is_alone:
                self._connection.ask(
                    ("RPUSH", self._list, token_of(self._generation, self._renew_in_ms))
                )
                self.state = State.HANDED_ON
        except wake_connection.FAILURES as error:
            logger.debug("the role of the listener was not handed on: %s", error)
            self._drop(0.0)

    def close(self) -> None:
        """Drop the connection: this process takes no jobs any more."""
        self._drop(0.0)

    def forget(self, connection: "RedisPool") -> None:
        """After this process has signed off: the last one leaves no role behind.

        Raises:
            RedisUnavailable: it stays, which costs nothing but its keys.
        """
        connection.script(_FORGET, [self._keys.inflight, self._sign, self._standby, self._list], [])

    def _drop(self, pause_s: float = wake_connection.RETRY_S) -> None:
        self._connection.close()
        self.state = State.UNKNOWN
        self._is_armed = self._is_standby = False
        self._retry_at = time.monotonic() + pause_s
        self._count_at = 0.0

    def _await_role(self) -> None:
        if self.state is State.UNKNOWN:
            self._connection.track()  # now, so that the turns of this process are shorter
            self._check()
        elif self.state is State.HANDED_ON:
            self._park()
        else:
            message = self._connection.receive(self._parked_until - time.monotonic())
            if message is None:
                if time.monotonic() >= self._parked_until:
                    logger.debug("Redis has not ended a BLPOP; it is asked on a new connection")
                    self._drop(0.0)
            elif isinstance(message, wake_connection.News):
                pass  # of keys that this process has read before it parked
            else:
                self._unparked(message)

    def _park(self) -> None:
        if self._is_standby or self._processes <= SMALL_FLEET:
            seconds = self._sign_left_s + STANDBY_AFTER_S
        else:
            seconds = LOOK_AT_LEAST_S + LOOK_S_A_PROCESS * (self._processes - OFTEN_UP_TO)
            seconds = max(LOOK_AT_LEAST_S, seconds)
            seconds = min(seconds, LOOK_AT_MOST_S) * self._rng.uniform(0.75, 1.25)
        self._connection.send(pack([("BLPOP", self._list, f"{seconds:.3f}")]))
        late_s = min(max(seconds / 3, LATE_AT_LEAST_S), LATE_AT_MOST_S)
        self._parked_until = time.monotonic() + seconds + late_s
        self.state = State.PARKED
        self._troubles.worked(self._turn_work)

    def _unparked(self, message: Any) -> None:
        self.state = State.HANDED_ON
        if isinstance(message, Exception):
            self._refused(message)
        elif message is wake_connection.NIL:
            if not self._are_places_held():
                self._check()
        elif message[1] == _LOOK:
            self._check()
        else:
            times, _, generation = text_of(message[1]).rpartition("/")
            self._begin(generation, int(times.partition("/")[0] or 0) / 1000)

    def _begin(self, generation: str, renew_in_s: float = RENEW_S) -> None:
        self.state = State.LISTENING
        self.is_alone = self._is_armed = False
        self._generation = generation
        self._renew_at = time.monotonic() + renew_in_s

    @property
    def _renew_in_ms(self) -> int:
        """In how many milliseconds the thread that listens then has to renew the sign."""
        return max(0, int((self._renew_at - time.monotonic()) * 1000))

    def _are_places_held(self) -> bool:
        """Whether one read is enough: this is one of many, and somebody listens, and somebody stands by."""
        if self._is_standby or self._processes <= SMALL_FLEET or time.monotonic() >= self._count_at:
            return False
        [texts] = self._connection.ask(("MGET", self._sign, self._standby))
        if isinstance(texts, Exception) or None in texts:
            return False
        self._sign_sight.see(texts[0], SIGN_MS / 1000)
        self._standby_sight.see(texts[1], STANDBY_MS / 1000)
        return not (self._sign_sight.over or self._standby_sight.over)

    def _check(self) -> None:
        """Look whether anybody listens; become what is missing."""
        text = os.urandom(6).hex()
        keys = (self._sign, self._standby, self._list, self._keys.inflight)
        over = self._sign_sight.over, self._standby_sight.over
        args = (text, self._standby_text, SIGN_MS, STANDBY_MS, *over, self._count_now())
        reply = self._script(_CHECK, keys, args)
        if isinstance(reply, Exception):
            self._refused(reply)
            return
        what, count, left_ms, sign, standby = reply
        self._processes = count or self._processes
        # A sign without an end is none of ours: it counts as one that was just renewed.
        self._sign_left_s = (SIGN_MS if left_ms < 0 else left_ms) / 1000
        self._sign_sight.see(sign, self._sign_left_s)
        self._standby_sight.see(standby, STANDBY_MS / 1000)
        self._is_standby = what == 1
        if self._is_standby:
            self._standby_text = text
        if what == 2:  # noqa: PLR2004 - see wake_check.lua
            self._begin(text)
        else:
            self.state = State.HANDED_ON

    def _count_now(self) -> int:
        """1 = the size of the fleet is to be read with this script, which it is now and then."""
        now = time.monotonic()
        if now < self._count_at:
            return 0
        self._count_at = now + COUNT_S
        return 1

    def _refused(self, error: Exception) -> None:
        """The server does not allow what a fleet needs: listen as if alone, and try it again later."""
        if isinstance(self._connection.failure(error), RedisUnavailable):
            raise error
        if not self._is_solo_reported:
            logger.warning(
                "this Redis refuses what idle processes share (%s): a push wakes a thread of each process instead "
                "of one in the fleet; allow BLPOP, and the keys kb:wake:*, in the ACL of this user",
                error_text(error),
            )
        self._is_solo_reported = True
        self.listen_by_itself(wake_connection.TRACKING_RETRY_S)

    def listen_by_itself(self, for_s: float = float("inf")) -> None:
        """Listen beside other threads, and share nothing with them, for so many seconds."""
        self._solo_until = time.monotonic() + for_s
        self._begin("")
        self.is_alone = True

    def _look_for_company(self) -> None:
        """Whether this process is still the only one that waits; arms the keys that others write."""
        sign, standby = self._connection.ask_tracked(("GET", self._sign), ("GET", self._standby))
        if isinstance(sign, bytes) and text_of(sign) != self._generation:
            self._step_down()
        elif isinstance(standby, bytes):
            self.is_alone = False
            self._renew_at = time.monotonic()

    def _renew(self) -> None:
        self._renew_at = time.monotonic() + RENEW_S
        if self._is_standby and self._processes > SMALL_FLEET:
            # Both roles would die together; another is asked to look. Not when the role comes, since it
            # mostly goes on sooner than this, and this process is the standby again.
            self._connection.ask(("DEL", self._standby))
            self._is_standby = False
        keys = (self._sign, self._standby, self._list, self._keys.inflight)
        text = renewed(self._generation)
        args = (text, self._generation, SIGN_MS, self._standby_sight.over, self._count_now())
        reply = self._script(_RENEW, keys, args)
        if isinstance(reply, Exception):
            self._refused(reply)
            return
        what, count, standby = reply
        self._processes = count or self._processes
        self._standby_sight.see(standby, STANDBY_MS / 1000)
        if what == 0:
            self._step_down()
        elif what == 1:
            self._generation = text
        else:
            self.is_alone = True
            self._is_armed = False

    def _step_down(self) -> None:
        self.state = State.HANDED_ON
        self.is_alone = self._is_armed = False

    def _script(self, script: scripts.Script, keys: Sequence[str], args: Sequence[Any]) -> Any:
        [reply] = self._connection.ask(("EVALSHA", script.sha, len(keys), *keys, *args))
        if isinstance(reply, Exception) and "NOSCRIPT" in str(reply):
            [reply] = self._connection.ask(("EVAL", script.text, len(keys), *keys, *args))
        return reply


def token_of(generation: str, renew_in_ms: int = 0) -> str:
    """What is handed on: when the next one is to renew the sign, and under which generation.

    An earlier build takes all of it for the generation, and puts a number behind it.
    """
    return f"{renew_in_ms:03d}/{generation}"


def renewed(generation: str) -> str:
    """The text of the sign at its next renewal: the same generation with the next number."""
    name, _, number = generation.partition(":")
    return f"{name}:{int(number or 0) + 1}"
