"""Jobs that must not run here, or not now: asked after a job is parsed and before its class is found.

- It is older than it may be (`expires_in`): it leaves Redis.
- Its class is paused: it is put off by a minute, untouched (pauses of queues are the claim's matter).
- It uses a feature of Sidekiq Pro or Enterprise that only Ruby can honour, `bid` or `encrypt` (§21):
  refused to the dead set, or by setting run all the same or put off until a Ruby worker takes it.
- Ruby holds a lock for it (`unique_for`, `lock_digest`): it runs, and that is said once for each class.
- It has an attribute of a feature that this worker lacks: refused to the dead set.
- Its class is not declared here, and the setting routes such jobs to another queue.
- A feature that watches one of its attributes has a reason (`Feature.gates`), or one that holds jobs back for as long as
  something is in Redis, such as cancelled batches (`Feature.barrier`).

What only Redis knows is asked once there is room for the job, in one call (`begin`, begin.lua): whether another job has the
lock of a unique one, and what of its schedule runs. Jobs without a lock and without such a policy cost nothing there.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from kiqbridge import seams
from kiqbridge.config.config import ForeignJobs, routed_queue
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.settle.ending import Barrier, Refusal
from kiqbridge.errors import ConfigError, JobRefused, RedisRefused
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.runtime.role import Troubles
from kiqbridge.store.begin import Answer, Ask, begin
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.active_job import performed_class
from kiqbridge.wire.expiry import expiry_of
from kiqbridge.wire.flow_mark import flow_of
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

PUT_OFF_S = 60.0
JITTER_S = 10.0
"""Jobs put off together shall not all come back at once."""

MOST_NAMES = 1000
"""Classes that are remembered as warned about: their names come from payloads, anybody's."""

_LOCKS: Mapping[str, str] = {
    "unique_for": "Sidekiq Enterprise",
    "lock_digest": "sidekiq-unique-jobs",
    "unique_digest": "sidekiq-unique-jobs",
}
"""Members of payloads that say that Ruby holds a lock for the job, and whose it is."""

_FEATURES = (
    ("bid", "belongs to a batch of Sidekiq Pro, which would never learn that it ran here"),
    ("encrypt", "has encrypted arguments, which only Sidekiq Enterprise can read"),
)


AskOf = Callable[[RedisConnection, Execution, str], Ask | None]
"""What is to be asked about a job, of the connection, the job and its owner: an incarnation, or ""."""


class PausedClasses(Protocol):
    """Who knows the paused classes."""

    classes: frozenset[str]


class Barriers(Protocol):
    """Who knows the barriers that hold any jobs back now."""

    up: Sequence[Barrier]


@dataclass(eq=False, repr=False, kw_only=True)
class Gate:
    """Decides about each job before it runs; one for all threads of a process.

    Args:
        paused: the classes that are paused now.
        declared: the classes that are declared here.
        foreign_jobs, unknown_class: the settings.
        rng: spreads what is put off.
        wall_now: epoch seconds.
        barriers: what holds some jobs back now.
        asks: what is to be asked of Redis before a job begins.

    Attributes:
        troubles: what Redis refuses for good.
    """

    paused: PausedClasses
    declared: Container[str]
    foreign_jobs: ForeignJobs
    unknown_class: str
    rng: random.Random
    wall_now: Callable[[], float] = time.time
    barriers: Barriers | None = None
    asks: Sequence[AskOf] = ()

    def __post_init__(self) -> None:
        self.troubles = Troubles()
        self._barriers: Any = self.barriers or SimpleNamespace(up=())
        self._route = routed_queue(self.unknown_class)
        self._is_lacking = bool(seams.missing())
        self._rules = seams.claims("gates")
        self._looks_always = bool(self._route or self._is_lacking or self._rules)
        self._warned: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def check(self, payload: Mapping[str, Any]) -> Refusal | None:
        """None: it may run."""
        # On the way of every job, and nearly always in vain: nothing but look-ups here.
        if (
            "bid" in payload
            or "encrypt" in payload
            or "expires_in" in payload
            or "unique_for" in payload
            or "lock_digest" in payload
            or "unique_digest" in payload
            or self.paused.classes
            or self._looks_always
        ):
            return self._look_closer(payload)
        return self._held_back(payload) if self._barriers.up else None

    def begin(
        self, connection: RedisConnection, execution: Execution, owner: str
    ) -> Refusal | None:
        """What only Redis knows of a job whose end somebody watches for; None: it begins now.

        Args:
            connection: where to ask.
            execution: the job.
            owner: the incarnation that holds it, if one does.

        Raises:
            RedisUnavailable: not known; repeat it.
        """
        found = [ask_of(connection, execution, owner) for ask_of in self.asks]
        asks = [ask for ask in found if ask is not None]
        if not asks:
            return None
        try:
            answers: Sequence[Answer | RedisRefused] = begin(connection, [ask.part for ask in asks])
        except RedisRefused as error:
            answers = [error] * len(asks)
        for ask, answer in zip(asks, answers, strict=False):  # none is asked after one that says no
            if isinstance(answer, RedisRefused):
                self.troubles.failed(ask.work, answer)
                continue
            self.troubles.worked(ask.work)
            if answer.outcome != "run":
                why = ask.why(answer)
                return Refusal(expired=why) if answer.outcome == "expired" else Refusal(skipped=why)
            ask.begun(answer)
        return None

    def _look_closer(self, payload: Mapping[str, Any]) -> Refusal | None:
        expiry = expiry_of(payload)
        if expiry is not None and (late_s := self.wall_now() - expiry) > 0:
            return Refusal(expired=f"expired {late_s:.0f} s ago (expires_in)")
        job_class = payload.get("class")
        wrapped = payload.get("wrapped")
        shown = wrapped if isinstance(wrapped, str) and wrapped else str(job_class)
        if refusal := self._of_features(payload, shown):
            return refusal
        if shown in self.paused.classes:
            logger.debug("class %s is paused: put off", shown)
            return self._put_off()
        if self._route and isinstance(job_class, str) and not self._is_declared(job_class, payload):
            self._warn_once(
                "route",
                shown,
                f"class {performed_class(payload)} is not declared here: its jobs are routed to queue {self._route} "
                "(unknown_class)",
            )
            return Refusal(queue=self._route)
        for lock, owner in _LOCKS.items():
            if payload.get(lock):
                self._warn_once(
                    lock,
                    shown,
                    f"class {shown} has jobs with a lock of {owner} ({lock}), which only Ruby releases: they run here, and "
                    "Ruby takes further ones for duplicates until the lock expires; let only Ruby workers serve their "
                    "queue, or enqueue them without it and with unique of kiqbridge.flow",
                )
        for name, reason in _FEATURES:
            if payload.get(name):
                return self._foreign(payload, shown, name, reason)
        return self._held_back(payload)

    def _of_features(self, payload: Mapping[str, Any], shown: str) -> Refusal | None:
        if self._is_lacking and (lack := seams.lacking(payload)):
            name, feature = lack
            return self._refuse(
                payload,
                shown,
                f"this job has {name}, and this worker lacks the feature {feature}; let workers that have it serve its queue",
            )
        asked = (
            self._asked(name, rule, payload)
            for name, rule in self._rules.items()
            if name in payload
        )
        return next(filter(None, asked), None)

    def _asked(
        self, attribute: str, rule: seams.Claim, payload: Mapping[str, Any]
    ) -> Refusal | None:
        try:
            refusal = rule(payload, self.wall_now())
            if refusal is None or isinstance(refusal, Refusal):
                return refusal
            raise TypeError(f"it returned {shorten(refusal)}, which is no Refusal")  # noqa: TRY301 - logged as any other
        except Exception as error:  # noqa: BLE001 - a feature of others, whose failure is not the job's
            said = f"feature {rule} failed at a job with {attribute}: such jobs run as without it"
            self._warn_once(attribute, repr(rule), said, error)
            return None

    def _held_back(self, payload: Mapping[str, Any]) -> Refusal | None:
        return next(filter(None, (each.check(payload) for each in self._barriers.up)), None)

    def _is_declared(self, job_class: str, payload: Mapping[str, Any]) -> bool:
        return job_class in self.declared or performed_class(payload) in self.declared

    def _foreign(
        self, payload: Mapping[str, Any], shown: str, name: str, reason: str
    ) -> Refusal | None:
        if self.foreign_jobs == "run":
            self._warn_once(
                name,
                shown,
                f"a job of class {shown} {reason}; it and all others of this class run all the same "
                "(foreign_jobs: run)",
            )
            return None
        if self.foreign_jobs == "requeue":
            self._warn_once(
                name,
                shown,
                f"a job of class {shown} {reason}; it and all others of this class are put off by "
                f"{PUT_OFF_S:.0f} s until a Ruby worker takes them (foreign_jobs: requeue)",
            )
            return self._put_off()
        return self._refuse(
            payload,
            shown,
            f"this job {reason} ({name}); let Ruby workers serve its queue, or set foreign_jobs to run or requeue",
        )

    def _refuse(self, payload: Mapping[str, Any], shown: str, why: str) -> Refusal:
        error, jid = JobRefused(why), shorten(payload.get("jid"))
        logger.warning("job %s of class %s is refused to the dead set: %s", jid, shown, error)
        return Refusal(error=error)

    def _put_off(self) -> Refusal:
        return Refusal(at=self.wall_now() + PUT_OFF_S + self.rng.uniform(-JITTER_S, JITTER_S))

    def _warn_once(
        self, what: str, shown: str, warning: str, error: Exception | None = None
    ) -> None:
        with self._lock:
            if (what, shown) in self._warned or len(self._warned) >= MOST_NAMES:
                return
            self._warned.add((what, shown))
        logger.warning("%s", warning, exc_info=error)


def asks_of(keys: Keys) -> list[AskOf]:
    """What features ask of Redis before a job begins (`Feature.begins`)."""

    def given(member: str, ask: Callable[[Keys, Mapping[str, Any]], Ask | None]) -> AskOf:
        return lambda _connection, execution, _owner: (
            ask(keys, execution.payload) if member in (flow_of(execution.payload) or ()) else None
        )

    return [given(member, ask) for member, ask in seams.claims("begins").items()]


def check_route(unknown_class: str, queues: Collection[str], *, source: str) -> None:
    """Refuse to route jobs to a queue that this process serves itself: they would go in circles.

    Raises:
        ConfigError: names the queue.
    """
    target = routed_queue(unknown_class)
    if target in queues:
        raise ConfigError(
            f"unknown_class: {unknown_class!r} routes to queue {target}, which this worker serves itself "
            f"(from {source}), so that jobs would go in circles; name a queue that only other workers serve"
        )
