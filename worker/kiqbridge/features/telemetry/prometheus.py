"""Prometheus' text, and the port at which a worker serves it."""

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.api.operator import Operator
from kiqbridge.errors import KiqbridgeError
from kiqbridge.features.telemetry.catalogue import Distribution, Family, families, load
from kiqbridge.features.telemetry.fleet import fleet_families
from kiqbridge.runtime import job_forks
from kiqbridge.runtime.role import Role
from kiqbridge.wire.measures import BOUNDS_MS

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

logger = logging.getLogger(__name__)

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

AGAIN_S: Final = 5.0
"""Between two tries to take a port that another process has."""


def prometheus_text(operator: Operator) -> bytes:
    """The numbers of the fleet, as Prometheus reads them (`CONTENT_TYPE`).

    If Redis does not answer, `kiqbridge_redis_up` is 0 and stands alone, so that an alarm can follow from it.

    Raises:
        ConfigError: the extra `prometheus` is not installed.
    """
    return as_text(lambda: _fleet(operator))


def _fleet(operator: Operator) -> list[Family]:
    try:
        return fleet_families(operator)
    except KiqbridgeError as error:
        logger.warning("no numbers for Prometheus: %s", error)
        return families("fleet", {"redis_up": 0})


def as_text(families: Callable[[], Iterable[Family]]) -> bytes:
    """Families as Prometheus reads them; raises as `prometheus_text`."""
    text: bytes = load("prometheus_client", "prometheus").generate_latest(_registry(families))
    return text


class PrometheusPort(Role):
    """Serves families at `/metrics` of a port.

    A port that another process has is no reason not to perform jobs: at a rolling restart the old process keeps
    it until its last job has ended. So that is logged once, and tried again until the port is free.

    Args:
        families: called for each scrape, on a thread of the server.
        host: address to listen on.
        port: the first one to try.
        count: how many from it on.

    Raises:
        ConfigError: the extra `prometheus` is not installed.
    """

    def __init__(
        self, families: Callable[[], Iterable[Family]], *, host: str, port: int, count: int = 1
    ) -> None:
        super().__init__("prometheus", self._listen)
        self._client = load("prometheus_client", "prometheus")
        self._registry = _registry(families, of_process=True)
        self._host = host
        self._ports = range(port, port + count)
        self._server: Any = None
        job_forks.on_child(self._close)  # else a child would keep the port when this process ends

    @property
    def port(self) -> int | None:
        """The port on which it listens; None: on none yet."""
        return None if self._server is None else int(self._server.server_port)

    def _close(self) -> None:
        if self._server is not None:
            self._server.server_close()

    def _listen(self) -> None:
        is_reported = False
        while not self._stopping.is_set():
            error = self._try_ports()
            if error is None:
                return
            if not is_reported:
                is_reported = True
                logger.warning(
                    "no numbers for Prometheus: port %s of %s cannot be taken (%s); jobs run all the same, and it is "
                    "tried again every %g s. Find the program that uses it: ss -ltnp",
                    _shown(self._ports),
                    self._host,
                    error,
                    AGAIN_S,
                )
            self._stopping.wait(AGAIN_S)

    def _try_ports(self) -> OSError | None:
        failure: OSError | None = None
        for port in self._ports:
            try:
                self._server, _ = self._client.start_http_server(
                    port, self._host, registry=self._registry
                )
            except OSError as error:
                failure = error
                continue
            logger.info("Prometheus' numbers are at http://%s:%d/metrics", self._host, self.port)
            return None
        return failure


def _shown(ports: range) -> str:
    return str(ports[0]) if len(ports) == 1 else f"{ports[0]} to {ports[-1]}"


def _registry(
    families: Callable[[], Iterable[Family]], *, of_process: bool = False
) -> "CollectorRegistry":
    """A registry of its own: what other code of the process registers is not ours to serve."""
    from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415 - loaded by load

    registry = CollectorRegistry()
    registry.register(_Collector(families))
    if of_process:
        ProcessCollector(registry=registry)
    return registry


class _Collector:
    """What prometheus-client asks for the values at each scrape."""

    def __init__(self, families: Callable[[], Iterable[Family]]) -> None:
        self._families = families

    def describe(self) -> Iterable["Metric"]:
        """Nothing: else a scrape would be made to learn the names."""
        return []

    def collect(self) -> Iterator["Metric"]:
        """The families in the library's form."""
        for family in self._families():
            yield _converted(family)


def _converted(family: Family) -> "Metric":
    from prometheus_client.core import (  # noqa: PLC0415 - loaded by load
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    metric = family.metric
    kinds = {
        "gauge": GaugeMetricFamily,
        "counter": CounterMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    made: Any = kinds[metric.kind](metric.name, metric.help, labels=metric.labels)
    for labels, value in family.values.items():
        if isinstance(value, Distribution):
            sums = accumulate(value.counts)
            bounds = (*(f"{bound / 1000:g}" for bound in BOUNDS_MS), "+Inf")
            made.add_metric(labels, list(zip(bounds, sums, strict=True)), sum_value=value.sum_s)
        else:
            made.add_metric(labels, float(value))
    converted: Metric = made
    return converted
