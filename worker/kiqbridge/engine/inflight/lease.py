"""A process' right to its in-flight jobs, and the watch over that of others.

A process registers under a name of its own, the incarnation, and says every few seconds that it is
alive. Each claim checks the registration. Who falls silent is reaped by another one: its jobs go
back to the queues and its registration ends, so that a machine which was only frozen finds itself
fenced off when it wakes: it drops what it has not begun and registers as a new incarnation.

Two processes of the fleet watch the others, those that hold a watch slot; see beat.py.
"""

import itertools
import logging
import random
import threading
import time
import weakref
from collections.abc import Callable, Collection, Sequence

from kiqbridge.engine.inflight.beat import News, send_beat
from kiqbridge.engine.inflight.reaping import ORPHAN_LIMIT
from kiqbridge.engine.inflight.recovery import Reaped, Reaper
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.runtime import job_forks, threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.role import Role
from kiqbridge.store import scripts
from kiqbridge.store.leadership import Sight
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.keys import LAYOUT, Keys

logger = logging.getLogger(__name__)

SIGN_OFF_S = 2.0
"""For so long a sign-off begins anew when a reply was lost; an outage must not hold up the end."""

LONGEST_BEAT_S = 4.5
"""However late jobs may be recovered, a beat also brings what would else be asked for every few seconds."""

LONGEST_WATCH_BEAT_S = 3.0
"""The same of who watches: a slot lasts two of them, so that one that is vacant is found soon."""

_REGISTER = scripts.load("register")
_RENEW = scripts.load("renew")


class Lease:
    """One incarnation.

    Attributes:
        incarnation: its name, drawn after fork and never used again.
        lost: it was taken away; nothing that was claimed under it may be begun.
        valid_until: on `lease_now`; later than this nothing may be begun unless confirmed.
    """

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.lost = False
        self.valid_until = 0.0
        _leases.add(self)

    def __repr__(self) -> str:
        state = "lost" if self.lost else f"{self.valid_until - lease_now():.1f} s left"
        return f"Lease({self.incarnation}, {state})"

    def in_doubt(self) -> bool:
        """Whether a job must not be begun before `LeaseKeeper.confirm` agrees."""
        return self.lost or lease_now() > self.valid_until


_leases: "weakref.WeakSet[Lease]" = weakref.WeakSet()


def _lose_in_child() -> None:
    """A child that a job forks may begin nothing of what its parent has claimed."""
    for lease in list(_leases):
        lease.lost = True


job_forks.on_child(_lose_in_child)


class LeaseTimes:
    """The lease's durations in seconds, all derived from the bound promised for recovery."""

    def __init__(self, recover_after_s: float) -> None:
        # Also how long a lease is sure after a confirmed beat: no reaper acts before that beat has stood
        # unchanged for so long, which is written with it, and for the reaper's own watch on top.
        self.silent_after = recover_after_s / 3
        self.beat_every = min(recover_after_s * 0.15, LONGEST_BEAT_S)
        self.watch_every = min(recover_after_s / 10, LONGEST_WATCH_BEAT_S)
        self.watch_for = recover_after_s * 8 / 30
        self.look_again_after = recover_after_s / 30
        self.silent_after_ms = int(self.silent_after * 1000)
        # If both watchers die at once, a third takes a slot at its next beat after this, and sees
        # for the first time what it has to see for silent_after and watch_for.
        self.slot_ms = int(2 * self.watch_every * 1000)


def renew(connection: RedisConnection, keys: Keys, incarnation: str, silent_after_ms: int) -> bool:
    """Give a sign of life for the owner of a lease, who may be silent for so many milliseconds then.

    False: the lease is gone. A lease that was taken away is never given back here.

    Raises:
        RedisUnavailable: not said.
    """
    # No key with a TTL: a server whose memory is full may evict that, and then the living would reap
    # each other. Also not SET … XX, which such a server refuses: the whole fleet would fall silent.
    return bool(
        connection.script(_RENEW, [keys.inflight, keys.alive], [incarnation, silent_after_ms])
    )


class LeaseKeeper:
    """Holds the current lease of this process, in a thread of its own.

    `on_registered` is called with the incarnation when it is registered and with each beat, also while
    Redis is away: the call shows that this interpreter runs.

    Attributes:
        watches: whether it holds a watch slot, as of the last beat, and looks after the others.
    """

    def __init__(
        self,
        *,
        identity: str,
        keys: Keys,
        connect: Callable[[], RedisConnection],
        times: LeaseTimes,
        orphan_limit: int = ORPHAN_LIMIT,
        on_registered: Callable[[str], None] = lambda _incarnation: None,
    ) -> None:
        self._identity = identity
        self._on_registered = on_registered
        self._keys = keys
        self._times = times
        self._connection = connect()
        self._confirm_connection = connect()
        self._numbers = itertools.count(1)
        self._beats = itertools.count(2)  # the first sign of life comes with the registration
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pause_s = times.beat_every
        self._on_news: Callable[[News], object] = lambda _news: None
        self._groups: list[tuple[Collection[str], Callable[[bool], object]]] = []
        self.watches = False
        self._slots = Sight(), Sight()
        self._reaper = Reaper(
            self._connection,  # both are used by the thread of the lease alone
            keys,
            watch_for_s=times.watch_for,
            silent_after_s=times.silent_after,
            orphan_limit=orphan_limit,
        )
        self.thread = Role(
            "lease", self._beat_on, work="prolonging the lease", stopping=self._stopping
        )
        self.current = Lease("")
        self.current.lost = True

    def start(self) -> None:
        """Register, which needs Redis, and begin to beat.

        Raises:
            RedisUnavailable: not registered.
        """
        self._register(self._connection)
        self.thread.start()

    def report(self, on_news: Callable[[News], object]) -> None:
        """Call `on_news` with what each beat brings, on the thread of the lease; it must not wait."""
        self._on_news = on_news

    def watch(self, keys: Collection[str], note: Callable[[bool], object]) -> None:
        """Call `note` after each beat: whether one of these keys exists. It must not wait, as above."""
        self._groups.append((keys, note))

    @property
    def has_registered(self) -> bool:
        """Whether Redis has confirmed a lease of this process once."""
        return bool(self.current.incarnation)

    @property
    def last_reaped(self) -> Reaped | None:
        """The last process whose jobs this one gave back."""
        return self._reaper.last

    def confirm(self, lease: Lease) -> bool:
        """Ask Redis whether a lease in doubt still holds; waits while Redis is away.

        False: it was taken away, or the process stops; nothing may be begun under it.
        """
        while not lease.lost and lease.in_doubt():
            try:
                with self._lock:
                    self._renew(self._confirm_connection, lease)
            except KiqbridgeError:
                threads.beat()
                if self._stopping.wait(self._times.look_again_after):
                    return False
        return not lease.lost

    def renounce(self, lease: Lease, why: str) -> None:
        """Give a lease up after a claim was refused under it, and register anew.

        What its lists still hold is given back by a reaper once it has been silent long enough.
        """
        lease.lost = True
        with self._lock:
            if lease is not self.current or self._stopping.is_set():
                return
            self._register(self._confirm_connection)
        logger.warning(
            "lease %s is gone (%s): jobs not begun are dropped here, others run them; registered anew as %s",
            lease.incarnation,
            why,
            self.current.incarnation,
        )

    def stop(self, timeout_s: float | None = None) -> int:
        """End the lease; what is still in its lists goes back to the queues. Returns how many.

        Args:
            timeout_s: seconds to wait for the end of its thread; None: any time.

        Raises:
            KiqbridgeError: Redis or the thread does not answer; the reapers of other processes will do it.
        """
        self._stopping.set()
        if not self.has_registered:
            return 0
        self.thread.join(timeout_s)
        if self.thread.alive:  # the connections are the thread's until it ends
            raise KiqbridgeError("thread lease is stuck")
        self._give_up_slot()
        lease, self.current.lost = self.current, True
        give_up_at = time.monotonic() + SIGN_OFF_S
        while True:
            try:
                return max(self._reaper.reap(lease.incarnation, by_owner=True), 0)
            except RedisUnavailable:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(self._times.look_again_after / 10)  # some replies are lost

    def _give_up_slot(self) -> None:
        if not self.watches or self.current.lost:
            return
        try:
            self._send_beat(self.current, slot_ms=0)
        except KiqbridgeError as error:
            logger.debug("the watch slot expires: %s", error)
        self.watches = False

    def _register(self, connection: RedisConnection) -> None:
        lease = Lease(f"{LAYOUT}:{self._identity}:{next(self._numbers)}")
        asked_at = lease_now()
        connection.script(
            _REGISTER,
            [self._keys.inflight, self._keys.alive],
            [lease.incarnation, self._times.silent_after_ms],
        )
        lease.valid_until = asked_at + self._times.silent_after
        self.current = lease
        self._on_registered(lease.incarnation)

    def _renew(self, connection: RedisConnection, lease: Lease) -> None:
        asked_at = lease_now()
        held = renew(connection, self._keys, lease.incarnation, self._times.silent_after_ms)
        self._note(lease, asked_at, held=held)

    def _note(self, lease: Lease, asked_at: float, *, held: bool) -> None:
        if held:
            lease.valid_until = max(lease.valid_until, asked_at + self._times.silent_after)
        else:
            lease.lost = True

    def _beat_on(self) -> None:
        # Processes that are started together must not beat together for the rest of their lives.
        pause = self._times.beat_every * random.uniform(0.2, 1.0)  # noqa: S311 - spreads load
        while not self._stopping.wait(pause):
            threads.beat()
            self._on_registered(self.current.incarnation)
            pause = self._beat_safely()

    def _beat_safely(self) -> float:
        """One beat; the seconds until the next one. A beat that fails is also a look missing."""
        self._pause_s = self._times.look_again_after
        if not self.thread.tried(self._beat):
            self._reaper.forget_suspects()
        return self._pause_s

    def _beat(self) -> None:
        lease = self.current
        news, groups = None, list(self._groups)
        if not lease.lost:
            news = self._send_beat(
                lease, slot_ms=self._times.slot_ms, groups=[keys for keys, _ in groups]
            )
        if lease.lost and not self._stopping.is_set():
            self.renounce(lease, "taken away while this process was silent")
        self.watches = news is not None and news.watches
        if news is not None:
            self._on_news(news)
            for index, (_, note) in enumerate(groups):
                note(bool(news.found) and news.found[index])
        if not self.watches:
            self._pause_s = self._times.beat_every
        elif not self.thread.tried(self._look, "giving back the jobs of processes that died"):
            self._reaper.forget_suspects()

    def _look(self) -> None:
        times = self._times
        suspects = self._reaper.look(own=self.current.incarnation)
        # As often as that one of them asks for whose jobs are to be back the soonest.
        strictest = LeaseTimes(self._reaper.strictest_s * 3)
        if suspects:
            self._pause_s = min(strictest.look_again_after, times.look_again_after)
        else:
            self._pause_s = min(strictest.watch_every, times.watch_every)

    def _send_beat(
        self, lease: Lease, *, slot_ms: int, groups: Sequence[Collection[str]] = ()
    ) -> News | None:
        asked_at = lease_now()
        news = send_beat(
            self._connection,
            self._keys,
            lease.incarnation,
            self._identity,
            number=next(self._beats),
            silent_after_ms=self._times.silent_after_ms,
            slot_ms=slot_ms,
            over=[sight.over for sight in self._slots],
            groups=groups,
        )
        for sight, text in zip(self._slots, news.slots if news else (), strict=False):
            held_ms = text.partition(b" ")[0]  # as its holder has written it
            sight.see(text, (int(held_ms) if held_ms.isdigit() else slot_ms) / 1000)
        self._note(lease, asked_at, held=news is not None)
        return news
