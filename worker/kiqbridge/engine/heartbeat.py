"""How the fleet, and Ruby's Web UI and API, see this process (protocol §10), and its counters (§11).

Each beat: flush the counters; publish the running jobs under both names that readers look for;
prolong the process hash, which measures a round trip; write what has changed in it; take one signal that was sent to
us; flush the metrics. The whole hash is written where it is not there, and each tenth time.
"""

import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiqbridge.client.registry import Registry
from kiqbridge.client.server import Events
from kiqbridge.engine.capsule_runtime import Capsule
from kiqbridge.engine.perform.running_job import RunningJob, shown_text
from kiqbridge.engine.settle.metrics import Counting, Metrics, Stats
from kiqbridge.errors import KiqbridgeError, RedisRefused
from kiqbridge.runtime import threads
from kiqbridge.runtime.clock import lease_now
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.role import Role
from kiqbridge.store.process_set import BEAT_TTL_S, sign_off
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.replies import translate
from kiqbridge.store.round_trip import Command
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

TTL_S = BEAT_TTL_S
"""Seconds after which a process that does not beat is gone for every reader."""

WHOLE_EVERY = 10
"""Each so many beats all fields are written, and the process enters the list again, whatever was done to them."""

_SHOWING = "listing this process for Sidekiq's pages"
_COUNTING = "counting jobs (stat:processed, stat:failed)"
_SLOW_RTT_US = 50_000
_SLOW_READINGS = 5

_MOST_CLASSES_BYTES = 20_000
"""Each beat carries the names of classes; what is longer is not published, and then nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """What does not change while a process lives (§10.2).

    Attributes:
        concurrency: how many threads perform jobs; with jobs on event loops more may be busy.
        started_at: epoch seconds.
        beat_s: seconds between two heartbeats; not published.
    """

    identity: str
    hostname: str
    pid: int
    tag: str
    labels: Sequence[str]
    concurrency: int
    capsules: Sequence[Capsule]
    version: str
    started_at: float
    beat_s: float

    def text(self) -> str:
        """The `info` field, in the forms that readers from 5 to 8.1 look for."""
        weights = [dict(capsule.weights) for capsule in self.capsules]
        capsules = {
            capsule.name: {
                "concurrency": capsule.concurrency,
                "mode": capsule.mode.value,
                "weights": dict(capsule.weights),
            }
            for capsule in self.capsules
        }
        return json.dumps(
            {
                "hostname": self.hostname,
                "started_at": self.started_at,
                "pid": self.pid,
                "tag": self.tag,
                "concurrency": self.concurrency,
                "capsules": capsules,
                "queues": list(dict.fromkeys(name for each in weights for name in each)),
                "weights": weights,
                "labels": list(self.labels),
                "identity": self.identity,
                "version": self.version,
                "embedded": False,
            },
            separators=(",", ":"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """What each beat reads from the process.

    Attributes:
        work: the running jobs by the id of their thread or task.
        is_quiet: whether it takes no new jobs.
        taken: how many jobs it has taken from each queue.
        fields: further fields of the process' hash, for our own readers.
    """

    work: Callable[[], Mapping[str, RunningJob]]
    is_quiet: Callable[[], bool]
    taken: Callable[[], Mapping[str, int]] = dict
    fields: Callable[[], Mapping[str, str | float]] = dict


class DeclaredClasses:
    """The names of a registry as the field `kb_classes`, made anew when there are more.

    The doctor finds by it jobs that no process can perform.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._count = -1
        self._text = ""

    def text(self) -> str:
        """A JSON list of names; empty if they are too many."""
        count = len(self._registry)  # code may be loaded while it runs
        if count != self._count:
            text = json.dumps(
                sorted(each.name for each in list(self._registry)), separators=(",", ":")
            )
            self._count, self._text = count, text if len(text) <= _MOST_CLASSES_BYTES else ""
        return self._text

    def fields(self) -> dict[str, str]:
        """For the process' hash."""
        return {"kb_classes": self.text()}


class Heartbeat(Role):
    """The thread that beats.

    Args:
        info: what each beat publishes unchanged.
        keys: the namespace.
        connection: its own.
        view: what each beat reads from the process.
        counters: what counts jobs; more may be appended later.
        events: `heartbeat` and `beat` are fired.
        on_signal: called with the name of a signal that was sent through Redis (§10.5).
        metrics: flushed with each beat, if given.

    Attributes:
        taken_at: when Redis last took a beat, on `lease_now`; None = never.
    """

    def __init__(
        self,
        *,
        info: ProcessInfo,
        keys: Keys,
        connection: RedisConnection,
        view: ProcessView,
        counters: Sequence[Counting],
        events: Events,
        on_signal: Callable[[str], None],
        metrics: Metrics | None = None,
    ) -> None:
        super().__init__("heartbeat", self._beat_on, work="beating (Sidekiq's heartbeat)")
        self._info = info
        self._info_text = info.text()
        self._keys = keys
        self._process_key = keys.process(info.identity)
        self._connection = connection
        self._view = view
        self._events = events
        self._on_signal = on_signal
        self._stats = Stats(counters, keys, info.identity, view.taken)
        self._metrics = metrics
        self._shows_work = True  # for all that is known
        self._shown: dict[str, tuple[bytes, str]] = {}  # tid → text of its job, and as it is shown
        self._published: Mapping[str, Any] = {}  # none where the last beat was refused or lost
        self._beats = 0
        self._rtt_us = 0
        self._slow_readings = 0
        self.taken_at: float | None = None

    @property
    def round_trip_s(self) -> float:
        """Seconds of the last one measured; 0 before the first."""
        return self._rtt_us / 1_000_000

    def stop(self, timeout_s: float | None = None) -> None:
        """End the beats, flush the counters and take this process off the lists (§10.6).

        A thread that does not end in time keeps its connection; then the process disappears by itself.
        """
        super().stop(timeout_s)
        if self.alive:
            logger.warning("the heartbeat is stuck; this process disappears in %d s", TTL_S)
            return
        identity = self._info.identity
        try:
            self._stats.flush(self._connection, time.time())
            sign_off(self._connection, self._keys, identity)
            self._flush_metrics(time.time())
            guards = (self._keys.stats_flush(identity), self._keys.metrics_flush(identity))
            self._connection.call("UNLINK", *guards)
        except KiqbridgeError as error:
            logger.warning("could not sign off; this process disappears in %d s: %s", TTL_S, error)

    def beat(self) -> None:
        """One beat.

        Raises:
            KiqbridgeError: Redis did not take it; the next beat makes up for it.
        """
        now = time.time()
        self._flush_stats(now)
        work = self._view.work()
        if work or self._shows_work:
            self._shows_work = True  # also when the reply is lost
            self._connection.run(*self._work_commands(work))
            self._shows_work = bool(work)
        signal, was_there, refused = self._publish(now, busy=len(work))
        self.taken_at = lease_now()
        if refused:
            self.troubles.failed(_SHOWING, translate(refused[0], self._connection.address))
        else:
            self.troubles.worked(_SHOWING)
        if not was_there:  # the first beat, or the first after an outage
            self._events.fire("heartbeat")
        self._events.fire("beat")
        self._flush_metrics(now)
        if isinstance(signal, bytes):
            self._on_signal(signal.decode(errors="replace"))

    def _beat_on(self) -> None:
        while True:
            threads.beat()
            self.tried(self.beat)
            threads.rest()
            if self._stopping.wait(self._info.beat_s):
                return

    def _flush_stats(self, now: float) -> None:
        """Write the counters; one of another type must not stop the beat."""
        try:
            self._stats.flush(self._connection, now)
        except RedisRefused as error:
            self.troubles.failed(_COUNTING, error)
        else:
            self.troubles.worked(_COUNTING)

    def _flush_metrics(self, now: float) -> None:
        """Write what was measured; a beat has been taken all the same if that fails."""
        metrics = self._metrics
        if metrics is not None:
            self.tried(lambda: metrics.flush(self._connection, now), "writing metrics")

    def _work_commands(self, running: Mapping[str, RunningJob]) -> list[Command]:
        fields: list[str] = []
        shown_before, self._shown = self._shown, {}
        for tid, job in running.items():
            text, shown = shown_before.get(tid, (None, ""))
            if text is not job.text:  # a job that runs for long is read once, not at each beat
                shown = shown_text(job).decode("utf-8", "replace")
            self._shown[tid] = job.text, shown
            work = {"queue": job.queue, "payload": shown, "run_at": int(job.run_at)}
            fields += [tid, json.dumps(work, ensure_ascii=False, separators=(",", ":"))]
        commands: list[Command] = [("MULTI",)]
        identity = self._info.identity
        for key in (self._keys.work(identity), self._keys.workers(identity)):
            commands.append(("UNLINK", key))
            if fields:
                commands += [("HSET", key, *fields), ("EXPIRE", key, TTL_S)]
        return [*commands, ("EXEC",)]

    def _publish(self, now: float, *, busy: int) -> tuple[object, bool, list[Exception]]:
        """Measure a round trip, write the process hash and take one signal.

        Returns:
            the signal's name, if there is one; whether the hash was there before; what was refused.
        """
        published, self._published = self._published, {}
        self._beats += 1
        is_short = bool(published) and self._beats % WHOLE_EVERY != 0
        prolong: Command = ("EXPIRE", self._process_key, TTL_S)
        sent = time.perf_counter()
        prolonged = self._connection.call(*(prolong if is_short else ("PING",)))
        self.note_round_trip(int((time.perf_counter() - sent) * 1_000_000))
        fields: dict[str, Any] = {
            "info": self._info_text,
            "concurrency": self._info.concurrency,
            "busy": busy,
            "beat": now,
            "rtt_us": self._rtt_us,
            "quiet": "true" if self._view.is_quiet() else "false",
            "rss": _rss_kb(),
            **self._view.fields(),
        }
        pop: Command = ("RPOP", self._keys.signals(self._info.identity))
        if is_short and prolonged:
            changed = dict(fields.items() - published.items())
            _, signal = self._connection.run(self._write(changed), pop)
            self._published = fields
            return signal, True, []
        # Together: a hash that has just come into being must not stay without an end.
        *_, replies = self._connection.run(
            ("MULTI",),
            ("SADD", self._keys.processes, self._info.identity),
            ("EXISTS", self._process_key),
            self._write(fields),
            prolong,
            pop,
            ("EXEC",),
        )
        refused = [reply for reply in replies if isinstance(reply, Exception)]
        if not refused:
            self._published = fields
        return replies[-1], bool(replies[1]), refused

    def _write(self, fields: Mapping[str, Any]) -> Command:
        return ("HSET", self._process_key, *(part for pair in fields.items() for part in pair))

    def note_round_trip(self, rtt_us: int) -> None:
        """Publish a measured round trip (µs) with this beat; log if several in a row were slow."""
        self._rtt_us = rtt_us
        self._slow_readings = self._slow_readings + 1 if rtt_us > _SLOW_RTT_US else 0
        if self._slow_readings == _SLOW_READINGS:
            self._slow_readings = 0
            logger.warning(
                "Redis answers slowly: %d µs for a round trip five times in a row; is it far away, or busy, "
                "or this process starved of CPU?",
                rtt_us,
            )


def _rss_kb() -> int:
    """Resident memory in kilobytes, 0 where /proc is missing."""
    try:
        with open("/proc/self/statm", "rb") as statm:  # noqa: PTH123 - read at each beat
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except OSError:
        return 0
