"""Applying the ends of jobs under flow control: a thread of each worker.

1. The script that settles a job adds its end to `kb:flow:ends`; its worker then calls `wake`.
2. The thread here takes ends, for `TAKE_S` seconds: no other worker tries the same ones meanwhile.
3. The effects of each end are made (the seam `consequences`), then one script applies those of all ends and removes the ends. So
   each effect is made once, also when this process is killed meanwhile, or a reply is lost.

What a worker leaves behind that was killed is applied by another one: each hears from the beat of its lease
(engine/inflight/beat.py) whether there is anything, and looks each 5 s while there is.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kiqbridge import seams
from kiqbridge.client.client import Client
from kiqbridge.client.current import log_context
from kiqbridge.errors import ConfigError, KiqbridgeError, RedisRefused, RedisUnavailable
from kiqbridge.runtime import threads, user_code
from kiqbridge.runtime.hints import Hint
from kiqbridge.runtime.role import Role, Until
from kiqbridge.store.effects import Effect
from kiqbridge.store.outbox import apply_ends, drop_end, take_ends
from kiqbridge.store.redis_pool import RedisLike
from kiqbridge.wire.batches import BATCH_BYTES, count_by_bytes
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.payload import FLOW

if TYPE_CHECKING:
    from kiqbridge.engine.settle.ending import Barrier

logger = logging.getLogger(__name__)

EffectMaker = Callable[[FlowEnd, Client], Sequence[Effect]]
"""From the end of a job to the effects that apply_ends.lua shall have: the name of one is that of a part `effect_NAME.lua`.
It may raise: the end stays, and is tried again later. It may prepare jobs by the client, and must not push them."""

LOOK_S: Final = 5.0
"""Seconds between two looks for ends that others have left, while there are any."""

REREAD_S: Final = 60.0
"""Seconds after which barriers, such as cancelled batches, are read again, though they seem to be the same."""

BATCH: Final = 100
_SOME: Final = "applying the ends of some jobs, which are kept in kb:flow:ends,"

TAKE_S: Final = 5.0
"""For so long others leave alone what was taken; should it lapse, two workers try it, and one of them applies it."""

LAST_S: Final = 1.0
"""Seconds for which a process that ends applies what is left; other workers apply the rest."""


class _End(NamedTuple):
    """An end as it was read, and what is to be done about it."""

    text: bytes
    end: FlowEnd
    effects: list[Effect]

    @property
    def size(self) -> int:
        """Bytes that it takes in a script, about."""
        return len(self.text) + sum(effect.size for effect in self.effects)


def _about(end: FlowEnd) -> AbstractContextManager[None]:
    return log_context(**{"class": end.job_class, "jid": end.jid})


class Outbox(Role):
    """The thread that applies ends.

    Args:
        client: makers prepare jobs by it.
        connection: its own.
        makers: of effects; those of features come after them.
        look_s: seconds between two looks.

    Attributes:
        applied: how many ends this process has applied.
        on_write: key → what is called when an effect on that key was applied.
        up: barriers of features that hold jobs back, as of the last look; replaced, never changed.
    """

    def __init__(
        self,
        client: Client,
        connection: RedisLike,
        *,
        makers: Sequence[EffectMaker] = (),
        look_s: float = LOOK_S,
    ) -> None:
        super().__init__(
            "outbox",
            self._look_on,
            work="applying the ends of jobs (locks, batches, chains, results)",
            until=Until.ENDS,
            join_s=LAST_S,
        )
        self.applied = 0
        self.up: Sequence[Barrier] = ()
        self._client = client
        self._keys = client.keys
        self._connection = connection
        self.on_write: dict[str, Callable[[], object]] = {}
        self._makers = makers
        self._barriers: Sequence[Barrier] = ()
        self._look_s = look_s
        self._looked_at = 0.0
        self._hint = Hint()
        self._cancelled = b""
        self._read_at = -REREAD_S
        self._has_refused = False

    def note(self, *, ends: bool, cancelled: bytes) -> None:
        """What the beat of the lease has found out. From any thread, at once.

        Args:
            ends: whether there are ends.
            cancelled: changes when a batch is cancelled; empty if none is.
        """
        self._hint.give(is_some=ends)
        is_new, self._cancelled = cancelled != self._cancelled, cancelled
        if is_new:
            self._read_at = -REREAD_S
        if is_new or (ends and time.monotonic() >= self._looked_at + self._look_s):
            self._some.set()

    def look(self) -> bool:
        """Take and apply what is due, up to `BATCH`; whether there may be more: others, or what these have added.

        Raises:
            KiqbridgeError: Redis is away; nothing is lost.
        """
        self._has_refused = False
        taken = take_ends(self._connection, self._keys, most=BATCH, for_s=TAKE_S)
        ends = [end for text in taken if (end := self._read(text)) is not None]
        has_added = False
        while ends:
            count = count_by_bytes([end.size for end in ends], BATCH_BYTES)
            has_added |= self._apply(ends[:count])
            del ends[:count]
        if taken and not self._has_refused:
            self.troubles.worked(_SOME)
        return has_added or len(taken) == BATCH

    def look_at_barriers(self) -> None:
        """Read what holds jobs back.

        Raises:
            KiqbridgeError: Redis is away; it stays as it was.
        """
        if not self._barriers:
            self._barriers = [make(self._keys) for make in seams.functions("barrier")]
        now = time.time()
        self.up = [each for each in self._barriers if each.look(self._connection, now)]

    def _read(self, text: bytes) -> _End | None:
        """The end with its effects; None: it cannot be applied, now or ever."""
        threads.beat()
        try:
            end = FlowEnd.from_text(text)
        except ValueError:  # its message could quote a token
            keys = self._keys
            logger.warning("an end in %s cannot be read: dropped", keys.flow_ends)
            drop_end(self._connection, keys, text)
            return None
        with _about(end):
            if lack := seams.lacking({FLOW: end.flow}):
                name, feature = lack
                self._refused(
                    ConfigError(
                        f"it has {name}, and this worker lacks the feature {feature}; start a worker that has it"
                    )
                )
                return None
            try:
                return _End(text, end, self._effects(end))
            except (RedisRefused, RedisUnavailable):
                raise
            except Exception as error:  # noqa: BLE001 - client middleware may raise anything
                user_code.log_error(
                    logger, error, "the end of a job could not be applied; it is tried again"
                )
                return None

    def _apply(self, ends: Sequence[_End]) -> bool:
        """Apply ends together, or each by itself if Redis refuses one of them; whether that has added others."""
        keys = self._keys
        try:
            answers = apply_ends(
                self._connection, keys, [(each.text, each.effects) for each in ends]
            )
        except RedisRefused as error:
            if len(ends) > 1:
                added = [self._apply([each]) for each in ends]
                return any(added)
            with _about(ends[0].end):
                self._refused(error)
            return False
        has_added = False
        for each, its_answers in zip(ends, answers, strict=True):
            if its_answers is None:
                continue
            self.applied += 1
            for key in {
                key for effect in each.effects for key in effect.keys
            } & self.on_write.keys():
                self.on_write[key]()
            has_added |= any(
                answer and keys.flow_ends in effect.keys
                for effect, answer in zip(each.effects, its_answers, strict=True)
            )
        return has_added

    def _refused(self, error: KiqbridgeError) -> None:
        self._has_refused = True
        self.troubles.failed(_SOME, error)

    def _effects(self, end: FlowEnd) -> list[Effect]:
        makers = (*self._makers, *seams.functions("consequences"))
        return [effect for make in makers for effect in make(end, self._client)]

    def _look_on(self) -> None:
        while True:
            is_last, is_woken = self._stopping.is_set(), self._some.is_set()
            self._some.clear()
            threads.beat()
            self.tried(partial(self._turn, must_look=is_last or is_woken))
            if is_last:
                return
            threads.rest()
            if not self._stopping.is_set():
                self._some.wait(self._look_s)

    def _turn(self, *, must_look: bool) -> None:
        now = time.monotonic()
        is_known = self._hint.is_fresh
        if is_known and not self._cancelled and not self.is_refused:
            self.up = ()
        elif now >= self._read_at + (REREAD_S if is_known else self._look_s):
            self.look_at_barriers()
            self._read_at = now
        if must_look or self.is_refused or not self._hint.says_nothing:
            self._looked_at = now
            while self.look():
                pass
        else:
            self.troubles.worked(_SOME)  # somebody has removed them
