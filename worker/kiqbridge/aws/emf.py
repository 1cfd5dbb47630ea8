"""Metrics of one invocation as a line in CloudWatch's embedded metric format (EMF).

CloudWatch Logs reads the line from the function's log and makes metrics of it, so no call of an API is
needed. Each count is a metric of the whole function (dimension `service`), and of one source of events
(dimensions `service` and `source`) if it is not 0.
Format: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.wire import json_text

PUSH_MS: Final = "PushMs"
"""Milliseconds from the first command of an invocation's pushes to the last reply."""

QUEUE_LATENCY: Final = "QueueLatency"
"""Seconds for which the oldest job of a queue has been waiting."""

_UNITS: Final = {PUSH_MS: "Milliseconds", QUEUE_LATENCY: "Seconds"}
"""Of the metrics that are no count."""


def line(
    *,
    namespace: str,
    service: str,
    source: str,
    counts: Mapping[str, int],
    push_ms: float | None,
    now: float,
) -> bytes:
    """The metrics of an invocation as one line.

    Args:
        namespace: CloudWatch's.
        service: dimension of all metrics.
        source: dimension of those by source; "" = there are none.
        counts: metric name → count.
        push_ms: how long pushing took; None = nothing was pushed.
        now: epoch seconds.
    """
    values: dict[str, Any] = {name: [float(count)] for name, count in counts.items()}
    of_source = [name for name, count in counts.items() if count]
    if push_ms is not None:
        values[PUSH_MS] = [push_ms]
        of_source.append(PUSH_MS)
    directives = [_directive(namespace, ["service"], list(values))]
    about = {"service": service}
    if source and of_source:
        directives.append(_directive(namespace, ["service", "source"], of_source))
        about["source"] = source
    head = {"_aws": {"Timestamp": int(now * 1000), "CloudWatchMetrics": directives}}
    return json_text.dumps({**head, **about, **values})


def measures(
    *, namespace: str, dimensions: Mapping[str, str], values: Mapping[str, float], now: float
) -> bytes:
    """What was measured, under one set of dimensions, as one line.

    Args:
        namespace: CloudWatch's.
        dimensions: name → value; CloudWatch takes no empty value.
        values: metric name → number.
        now: epoch seconds.
    """
    directive = _directive(namespace, list(dimensions), list(values))
    head = {"_aws": {"Timestamp": int(now * 1000), "CloudWatchMetrics": [directive]}}
    numbers = {name: float(value) for name, value in values.items()}
    return json_text.dumps({**head, **dimensions, **numbers})


def _directive(namespace: str, dimensions: list[str], names: list[str]) -> dict[str, Any]:
    return {
        "Namespace": namespace,
        "Dimensions": [dimensions],
        "Metrics": [{"Name": name, "Unit": _UNITS.get(name, "Count")} for name in names],
    }
