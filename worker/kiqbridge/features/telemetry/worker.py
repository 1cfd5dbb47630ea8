"""What a worker reports of itself, and as the leader of the fleet of all: to Prometheus, StatsD, OpenTelemetry.

Prometheus asks each worker for its own numbers, and the web page for those of the fleet. StatsD and OpenTelemetry
get both from the workers: each sends its own, and the leader of the fleet those of Redis, so that they come once.

The numbers of one worker process, out of its memory: no Redis, no lock.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kiqbridge import __version__
from kiqbridge.api.operator import Operator
from kiqbridge.client.client import Client
from kiqbridge.config.config import Config
from kiqbridge.engine.numbers import ProcessNumbers
from kiqbridge.engine.settle.metrics import Measured
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.telemetry import catalogue
from kiqbridge.features.telemetry.catalogue import Family, load
from kiqbridge.features.telemetry.fleet import fleet_families
from kiqbridge.features.telemetry.otel import OtelPush
from kiqbridge.features.telemetry.prometheus import PrometheusPort
from kiqbridge.features.telemetry.statsd_push import StatsdPush
from kiqbridge.runtime.kinds import kind_of
from kiqbridge.runtime.role import Role
from kiqbridge.runtime.threads import BoundedCall
from kiqbridge.wire.measures import BUCKETS

if TYPE_CHECKING:
    from kiqbridge.engine.parts import EngineParts


def process_families(identity: str, numbers: ProcessNumbers) -> list[Family]:
    """All metrics of a process; of many classes those that ran first, the rest together as `others`."""
    return catalogue.families(
        "worker",
        {
            "info": {(identity, __version__): 1},
            "jobs_processed": numbers.processed,
            "jobs_failed": numbers.failed,
            "busy": numbers.busy,
            "concurrency": numbers.concurrency,
            "quiet": numbers.is_quiet,
            "redis_round_trip_seconds": numbers.round_trip_s,
            "lost_threads": numbers.lost_threads,
            **_classes(numbers.classes),
        },
    )


_named: Final[dict[str, None]] = {}


def label_of(name: str) -> str:
    """The label of a class: its name for the first `MOST_CLASSES` that come, and for ever; of further ones `OTHERS`."""
    if name not in _named and len(_named) < catalogue.MOST_CLASSES:
        _named[name] = None
    return name if name in _named else catalogue.OTHERS


def _classes(classes: Mapping[str, Measured]) -> dict[str, Mapping[str, Any]]:
    durations: dict[str, catalogue.Distribution] = {}
    failures: dict[str, int] = {}
    for name, measured in classes.items():
        label = label_of(name)
        counts, sum_s = durations.get(label, ([0] * BUCKETS, 0.0))
        added = [count + measured.histogram.get(at, 0) for at, count in enumerate(counts)]
        durations[label] = catalogue.Distribution(added, sum_s + measured.ms / 1000)
        failures[label] = failures.get(label, 0) + measured.failed
    return {"job_duration_seconds": durations, "class_failed": failures}


logger = logging.getLogger(__name__)

PUSH_S: Final = 10.0
"""Between two packets to StatsD: the interval in which it adds up, if it was not changed."""

KEPT_S: Final = 86_400
"""So long the next leader may be absent and still know which gauges were sent."""

STOP_S: Final = 2.0
"""So long the end of the process waits at most until the last numbers are sent."""


def roles(parts: "EngineParts") -> list[Role]:
    """The thread of a worker that sends; what is served begins here, so that it is there while Redis is awaited."""
    return [
        Telemetry(parts.config, identity=parts.identity, numbers=parts.numbers, client=parts.client)
    ]


class Telemetry(Role):
    """All that the settings ask for, served and sent.

    Args:
        config: the settings.
        identity: of the process.
        numbers: reads its own, from any thread.
        client: reaches Redis for those of the fleet.

    Raises:
        ConfigError: an extra is not installed; names it.
    """

    def __init__(
        self,
        config: Config,
        *,
        identity: str,
        numbers: Callable[[], ProcessNumbers],
        client: Client,
    ) -> None:
        self._identity = identity
        self._numbers = numbers
        self._operator = Operator(client=client, by=identity)
        self._statsd = StatsdPush(config.statsd) if config.statsd else None
        self._port: PrometheusPort | None = None
        if config.prometheus_port:
            count = config.processes if isinstance(config.processes, int) else os.cpu_count() or 1
            self._port = PrometheusPort(
                self._own, host=config.prometheus_host, port=config.prometheus_port, count=count
            )
        self._failure = ""
        super().__init__("telemetry", self._push_on)
        self._otel = OtelPush(self._all, identity=identity) if config.opentelemetry else None
        if self._port is not None:
            self._port.start()

    def stop(self, timeout_s: float | None = None) -> None:
        """Send the last numbers, and end, within `timeout_s` or `STOP_S` seconds, also if a receiver does not answer.

        The port is left to the end of the process.
        """
        self._stopping.set()
        calls: list[Callable[[], object]] = []
        if self._otel is not None:
            calls.append(self._otel.stop)
        if self._statsd is not None:
            calls.append(self.join)
        until = time.monotonic() + (STOP_S if timeout_s is None else timeout_s)
        for call in [BoundedCall("kiqbridge-telemetry-end", each) for each in calls]:
            call.wait(max(0.0, until - time.monotonic()))

    def _own(self) -> list[Family]:
        return process_families(self._identity, self._numbers())

    def _all(self) -> Iterator[Family]:
        numbers = self._numbers()
        yield from process_families(self._identity, numbers)
        if (
            numbers.leads and not self._stopping.is_set()
        ):  # Redis may be away: the end must not wait
            with contextlib.suppress(KiqbridgeError):  # Redis is away, which others report
                yield from fleet_families(self._operator)

    def _push_on(self) -> None:
        while True:
            is_last = self._stopping.wait(PUSH_S)
            self._push()
            if is_last:
                if self._statsd is not None:
                    self._statsd.close()
                return

    def _push(self) -> None:
        if self._statsd is None:
            return
        try:
            sent = self._statsd.send(self._all())
            if sent:
                with contextlib.suppress(KiqbridgeError):  # as in `_all`
                    send_zeros_for_gone(self._statsd, self._operator, sent)
        except Exception as error:  # noqa: BLE001 - whatever it is, jobs run and the next turn tries again
            kind = kind_of(error)
            if kind != self._failure:  # once, not every ten seconds
                self._failure = kind
                logger.warning(
                    "no numbers for %s: %s; jobs run all the same, and it is tried again every %g s",
                    self._statsd,
                    error,
                    PUSH_S,
                )


def send_zeros_for_gone(push: StatsdPush, operator: Operator, sent: Sequence[str]) -> None:
    """Send 0 once for each gauge of a queue or class that this leader or the one before has sent, and that is gone.

    Args:
        push: where to.
        operator: reaches Redis, where the names are kept for the next leader.
        sent: what was sent now.

    Raises:
        RedisUnavailable, RedisRefused: the names were not read or kept; what is gone is sent with the next turn.
    """
    key = operator.keys.gauges
    (before,) = operator.pool.run(("GET", key))
    try:
        names = json.loads(before or b"[]")
    except ValueError:
        names = []
    if isinstance(names, list):
        push.send_zeros(sorted({name for name in names if isinstance(name, str)} - set(sent)))
    operator.pool.run(("SET", key, json.dumps(sent), "EX", KEPT_S))


def require_extras(config: Config) -> None:
    """Load the libraries that the settings ask for, before anything begins.

    Raises:
        ConfigError: one is not installed; names the extra.
    """
    for is_asked, module, extra in (
        (config.prometheus_port, "prometheus_client", "prometheus"),
        (config.statsd, "statsd", "statsd"),
        (config.opentelemetry, "opentelemetry.sdk.metrics.export", "opentelemetry"),
    ):
        if is_asked:
            load(module, extra)
