"""One connection to Redis: what happens when a call fails, and nothing about jobs.

redis-py repeats commands by itself, which duplicates a push whose reply was lost; here nothing is
repeated unless the caller says that it may be. Three things can happen to a call:

1. it never reached a server (refused, no route): tried once more, then `RedisUnavailable`;
2. a server refused it because it is a replica or was failing over: once more on a new connection
   (protocol §1, failover rule);
3. it was sent and the reply was lost: repeated if `repeatable`, else `ReplyLost`.
"""

import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from redis.connection import AbstractConnection

from kiqbridge.errors import RedisUnavailable
from kiqbridge.runtime import descriptors, job_forks
from kiqbridge.store import deadline
from kiqbridge.store.deadline import Times
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.redis_address import READ_TIMEOUT_S
from kiqbridge.store.redis_source import RedisSource
from kiqbridge.store.replies import (
    NotReplicated,
    Replicas,
    ReplyLost,
    check_confirmed,
    is_failover,
    is_login_refused,
    translate,
    unavailable,
)
from kiqbridge.store.round_trip import PIECE_BYTES, Command, Way, is_connected, pack, way_of
from kiqbridge.store.scripts import Script
from kiqbridge.wire.batches import BATCH_BYTES

logger = logging.getLogger(__name__)

PROBE_AFTER_IDLE_S: Final = 5.0
"""A connection unused for longer is probed before it is used: a frozen Lambda or a NAT gateway may have
dropped it without notice."""
PROBE_WITHIN_S: Final = 1.0
"""Until a silent server fails the probe; a new connection then gets the whole of its time."""
_LEAST_BATCH_BYTES = 16_384


class RedisConnection:
    """One connection, used by one thread at a time, opened when first needed.

    A silent server counts as lost after the read timeout; a slow link does not, as long as bytes get
    through, however few.

    Attributes:
        batch_bytes: how long a call may be that is made of parts, such as jobs: a quarter after one that
            did not get through, and an eighth more after each that did, up to `BATCH_BYTES`.
        settle_replicas: how many replicas must confirm a script that settles jobs; None: none.
    """

    def __init__(self, source: RedisSource, make: Callable[[], AbstractConnection]) -> None:
        self._source = source
        self._make = make
        self._connection: AbstractConnection | None = None
        self._way: Way | None = None
        self._version = source.version
        self._times = Times()
        self._renew_at = float("inf")
        self._used_at = time.monotonic()
        self._used_at_time = time.time()
        self._forks = job_forks.count
        self._descriptor: descriptors.Descriptor | None = None
        self.batch_bytes = BATCH_BYTES
        self.settle_replicas: Replicas | None = None
        self._is_in_doubt = False

    def __repr__(self) -> str:
        return f"RedisConnection({self._source.address})"

    def run(
        self, *commands: Command, repeatable: bool = True, replicas: Replicas | None = None
    ) -> list[Any]:
        """Send commands in one go and return their replies, bytes as bytes.

        Raises:
            RedisUnavailable: no server carried it out.
            ReplyLost: sent, but no reply, and not `repeatable`.
            RedisRefused: a command was answered with an error.
            NotReplicated: carried out, but confirmed by fewer replicas than `replicas` asks for.
        """
        replies = self._attempt(commands, repeatable=repeatable, replicas=replicas)
        return self._checked(replies, commands, replicas)

    def call(self, *command: str | bytes | float) -> Any:
        """One repeatable command and its reply; raises as `run`."""
        return self.run(command)[0]

    def script(
        self,
        script: Script,
        keys: Sequence[str],
        args: Sequence[str | bytes | float],
        *,
        repeatable: bool = True,
        replicas: Replicas | None = None,
        settles: bool = False,
    ) -> Any:
        """Run a script by its hash, loading it where the server does not know it; raises as `run`.

        One that `settles` jobs waits for `settle_replicas` and, unlike others, only logs when they do
        not confirm it: it cannot be taken back, and repeating it would change nothing.
        """
        if settles and self.settle_replicas is not None:
            try:
                reply = self.script(script, keys, args, replicas=self.settle_replicas)
            except NotReplicated as doubt:
                if not self._is_in_doubt:  # once, until it goes well again
                    logger.warning(
                        "jobs were settled on the primary only: %s. A failover now may lose what became of them; "
                        "check the replicas",
                        doubt,
                    )
                self._is_in_doubt = True
                return doubt.replies[0]
            self._is_in_doubt = False
            return reply
        nodes = self._source.nodes
        if nodes is not None:
            script, keys = nodes.guarded(script, keys)
        evalsha = ("EVALSHA", script.sha, len(keys), *keys, *args)
        replies = self._attempt([evalsha], repeatable=repeatable, replicas=replicas)
        if isinstance(replies[0], redis.exceptions.NoScriptError):
            evaluate = ("EVAL", script.text, len(keys), *keys, *args)
            replies = self._attempt([evaluate], repeatable=repeatable, replicas=replicas)
        return self._checked(replies, [evalsha], replicas)[0]

    def close(self) -> None:
        """Drop the connection; the next call opens a new one."""
        if self._descriptor is not None:
            self._descriptor.check()  # else another connection could be shut down
        if self._connection is None:
            return
        self._way = None
        with contextlib.suppress(Exception):  # it is being thrown away, whatever it raises
            self._connection.disconnect()  # type: ignore[no-untyped-call]

    @property
    def address(self) -> str:
        """Where it leads, as it may be shown."""
        return self._source.address

    @property
    def patience_s(self) -> float:
        """Seconds for which a call waits for a reply."""
        return self._times.reply_s or READ_TIMEOUT_S

    @property
    def opened(self) -> AbstractConnection | None:
        """The connection of redis-py, once it was opened."""
        return self._connection

    @property
    def idle_s(self) -> float:
        """Seconds since it was asked for something."""
        return time.monotonic() - self._used_at

    def outdate(self) -> None:
        """Let the next call, of whatever thread, open a new connection in the place of this one."""
        self._renew_at = 0.0

    def _checked(
        self, replies: list[Any], commands: Sequence[Command], replicas: Replicas | None
    ) -> list[Any]:
        """The replies of the commands themselves; raises what one of them, or WAIT, reports."""
        answers = replies[:-1] if replicas else replies
        for reply in answers:
            if isinstance(reply, Exception):
                refused = [
                    place for place, each in enumerate(answers) if isinstance(each, Exception)
                ]
                command, source = commands[refused[0]], self._source
                failed = translate(reply, source.address, command, source.user)
                failed.refused = refused
                raise failed from reply
        if replicas is None:
            return answers
        check_confirmed(replies[-1], replicas, answers)
        return answers

    def _attempt(
        self, commands: Sequence[Command], *, repeatable: bool, replicas: Replicas | None = None
    ) -> list[Any]:
        if self._forks != job_forks.count:
            job_forks.refuse("this connection to Redis")
        if self._descriptor is not None:
            self._descriptor.check()
        count = len(commands)
        if not count and replicas is None:
            return []  # there would be no answer
        if replicas is not None:
            commands = [*commands, ("WAIT", replicas.count, replicas.timeout_ms)]
        self._check_if_usable(repeatable=repeatable)
        first = self.exchange(commands, repeatable=repeatable, last=False)
        if first is not None:
            for reply in first:
                if isinstance(reply, Exception):
                    break
            else:
                return first
        if (nodes := self._source.nodes) is not None:
            return nodes.until_done(self, commands, count, first, repeatable=repeatable)
        return self._repeated(commands, first, count, repeatable=repeatable)

    def _repeated(
        self, commands: Sequence[Command], first: list[Any] | None, count: int, *, repeatable: bool
    ) -> list[Any]:
        """The replies after a first try that was lost or refused in part; WAIT may follow `count` commands."""
        replies: list[Any] = [None] * len(commands)
        sent: Sequence[int] = range(len(commands))
        for last in (False, True):
            fresh = first
            if last:
                asked = [commands[index] for index in sent]
                fresh = self.exchange(asked, repeatable=repeatable, last=True)
            if fresh is None:
                continue
            for index, reply in zip(sent, fresh, strict=True):
                replies[index] = reply
            # Not WAIT's own reply: UNBLOCKED there follows a write that was carried out.
            refused = [
                index
                for index in range(count)
                if is_failover(replies[index]) or self.is_renewed(replies[index])
            ]
            if not refused:
                return replies
            self.close()
            if not repeatable:  # what a server took before it refused the rest stays as it is
                sent = [*refused, *range(count, len(commands))]
        return replies

    def is_renewed(self, error: object) -> bool:
        """Whether a login that was refused may succeed now, since the address was read again."""
        return (
            isinstance(error, Exception)
            and is_login_refused(error)
            and self._source.renew(self._version, error)
        )

    def exchange(
        self, commands: Sequence[Command], *, repeatable: bool, last: bool
    ) -> list[Any] | None:
        """The replies; None when they were lost and may be asked for again."""
        packed = pack(commands)
        way = self._way
        if way is None or self._times.is_bound or deadline.left() is not None or not way.is_open:
            way = self._connect(last=last)
        try:
            replies = way.ask(packed, len(commands))
        except (redis.exceptions.RedisError, OSError) as error:  # also an answer that is none
            self.close()
            is_timeout = isinstance(error, redis.exceptions.TimeoutError | TimeoutError)
            is_stuck = is_timeout and len(packed) > PIECE_BYTES
            if is_stuck:
                self._send_less(len(packed))
            if not repeatable:
                raise ReplyLost(f"no reply from {self._source.address}: {error}") from error
            # What is long and got stuck is not sent again as it is: the caller may divide it.
            if last or is_stuck:
                raise self._unavailable(error) from error
            return None
        except BaseException:
            self.close()  # a half-read reply must never be taken for the next one
            raise
        if self.batch_bytes < BATCH_BYTES and len(packed) > self.batch_bytes // 2:
            self.batch_bytes = min(self.batch_bytes + self.batch_bytes // 8, BATCH_BYTES)
        return replies

    def _send_less(self, size: int) -> None:
        self.batch_bytes = max(min(size, self.batch_bytes) // 4, _LEAST_BATCH_BYTES)
        logger.warning(
            "a call of %s bytes to Redis at %s did not get through before its timeout; batches of "
            "jobs have %s bytes at most now, and a call that cannot be divided is tried again. Check the network to "
            "Redis, and its slow log",
            f"{size:,}",
            self._source.address,
            f"{self.batch_bytes:,}",
        )

    def _connect(self, *, last: bool) -> Way:
        """To the open connection; to a new one if its address has changed, or changes after a refusal."""
        attempts = 1 if last else 2
        is_renewed = False
        while True:
            try:
                return self._opened()
            except (redis.exceptions.RedisError, OSError) as error:
                self.close()
                attempts -= 1
                if not is_renewed and self._source.renew(self._version, error):
                    is_renewed = True
                elif attempts < 1:
                    raise self._unavailable(error) from error
            except BaseException:
                self.close()  # what is open and not logged in must not be used
                raise

    def _opened(self) -> Way:
        connection = self._connection
        if connection is not None and is_connected(connection):
            self._times.bound(connection)
            return self._way_to(connection)
        if connection is None or self._version != self._source.version:
            connection = self._make()
            self._connection, self._version = connection, self._source.version
            self._times = Times.of(connection)
        self._times.bound(connection)
        connection.connect()  # type: ignore[no-untyped-call]
        self._times.bound(connection)
        if self._source.max_age_s is not None:
            # Not all at once: those that were opened together, at the start, would be closed together.
            age = self._source.max_age_s * random.uniform(0.8, 1.0)  # noqa: S311 - spreads load
            self._renew_at = time.monotonic() + age
        if descriptors.is_watching:
            opened = getattr(connection, "_sock", None)
            if opened is not None and (
                self._descriptor is None or self._descriptor.opened is not opened
            ):
                self._descriptor = descriptors.Descriptor(opened)
        return self._way_to(connection)

    def _way_to(self, connection: AbstractConnection) -> Way:
        way = self._way
        if way is None or not way.is_open:
            self._way = way = way_of(connection)
        if not self._times.is_bound:
            way.let_the_kernel_time()
        return way

    def _check_if_usable(self, *, repeatable: bool) -> None:
        """Before a call: let go of a connection that is too old, or that the other end has left."""
        now, now_time = time.monotonic(), time.time()
        if now >= self._renew_at:
            self._renew_at = float("inf")
            self.close()
        # The clock of a frozen environment may stand still, the time of day does not.
        idle_s = max(now - self._used_at, now_time - self._used_at_time)
        self._used_at, self._used_at_time = now, now_time
        if idle_s >= PROBE_AFTER_IDLE_S:
            connection = self._connection
            if connection is None or not is_connected(connection):
                return
            try:
                self._times.bound(connection, PROBE_WITHIN_S)
                self._way_to(connection).ask(pack([("PING",)]), 1)
            except (redis.exceptions.RedisError, OSError):
                self.close()
        elif not repeatable:
            # Let go of a connection that the server has ended meanwhile, without a round trip.
            way = self._way
            if way is not None and way.has_ended():  # nothing was asked, so nothing may come
                self.close()

    def _unavailable(self, error: Exception) -> RedisUnavailable:
        uses_tls = isinstance(self._connection, redis.connection.SSLConnection)
        return unavailable(error, self._source.address, uses_tls=uses_tls)
