"""OpenTelemetry metrics over OTLP/HTTP; where to and how often is in the standard variables OTEL_…."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from kiqbridge import __version__
from kiqbridge.features.telemetry.catalogue import METRICS, Distribution, Family, Metric, load

logger = logging.getLogger(__name__)

Read = Callable[[], Iterable[Family]]


class OtelPush:
    """Gives the SDK an instrument for each metric; its own thread asks for the values and sends them.

    A histogram becomes two counters, `…_count` and `…_sum`: what is measured is in buckets already, and the SDK
    takes single values only.

    Args:
        families: called on the SDK's thread, at most once for each time that all is collected.
        identity: of the process, `service.instance.id`.
        reader: instead of the exporter over HTTP.

    Raises:
        ConfigError: the extra `opentelemetry` is not installed.
    """

    def __init__(self, families: Read, *, identity: str, reader: Any = None) -> None:
        load("opentelemetry.exporter.otlp.proto.http.metric_exporter", "opentelemetry")
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - only if asked for
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415

        self._round = _Round(families)
        resource = Resource.create({"service.instance.id": identity})
        if str(resource.attributes.get("service.name", "unknown")).startswith("unknown"):
            resource = resource.merge(Resource({"service.name": "kiqbridge"}))
        self._provider = MeterProvider(
            metric_readers=[reader or _exporting_reader()],
            resource=resource,
            shutdown_on_exit=False,  # the worker ends it
        )
        meter = self._provider.get_meter("kiqbridge", __version__)
        for metric in METRICS:
            self._add(meter, metric)

    def stop(self, timeout_s: float = 2.0) -> None:
        """Send what is there, and end."""
        try:
            self._provider.shutdown(timeout_millis=int(timeout_s * 1000))
        except Exception as error:  # noqa: BLE001 - whatever the exporter raises, the worker ends
            logger.warning("the last OpenTelemetry metrics were not sent: %s", error)

    def _add(self, meter: Any, metric: Metric) -> None:
        add = (
            meter.create_observable_gauge
            if metric.kind == "gauge"
            else meter.create_observable_counter
        )
        if metric.kind == "histogram":
            for suffix in ("count", "sum"):
                name = f"{metric.name}_{suffix}"
                add(name, [self._callback(metric, suffix)], description=metric.help)
            return
        name = metric.name.removesuffix("_total")
        add(name, [self._callback(metric, "")], description=metric.help)

    def _callback(self, metric: Metric, part: str) -> Callable[[Any], Iterable[Any]]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - see __init__

        def observe(_options: Any) -> Iterable[Any]:
            family = self._round.family(metric, part)
            if family is None:
                return
            for labels, value in family.values.items():
                if isinstance(value, Distribution):
                    value = sum(value.counts) if part == "count" else value.sum_s  # noqa: PLW2901
                # The exporter refuses True and False.
                yield Observation(+value, dict(zip(metric.labels, labels, strict=True)))

        return observe


class _Round:
    """The families of one collection: the SDK asks for each instrument by itself, and Redis is asked once.

    A new round begins when an instrument is asked for that this round has given already.
    """

    def __init__(self, families: Read) -> None:
        self._families = families
        self._given: set[tuple[str, str]] = set()
        self._found: dict[str, Family] | None = None

    def family(self, metric: Metric, part: str) -> Family | None:
        """The values of a metric in this round; None: it has none."""
        asked = (metric.name, part)
        if self._found is None or asked in self._given:
            self._found = {each.metric.name: each for each in self._families()}
            self._given.clear()
        self._given.add(asked)
        return self._found.get(metric.name)


def _exporting_reader() -> Any:
    """Sends every OTEL_METRIC_EXPORT_INTERVAL milliseconds to OTEL_EXPORTER_OTLP_ENDPOINT."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - see load
        OTLPMetricExporter,
    )
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415

    return PeriodicExportingMetricReader(OTLPMetricExporter())
