"""StatsD: numbers in UDP packets. Sending never waits, and a lost packet is not noticed."""

import logging
import re
from collections.abc import Iterable
from typing import Any, Final

from kiqbridge.features.telemetry.catalogue import Distribution, Family, load

logger = logging.getLogger(__name__)

PREFIX: Final = "kiqbridge"
PACKET_BYTES: Final = 1400
"""Of one packet: what an Ethernet frame holds."""

_NO_NAME: Final = re.compile(r"[^\w-]+")


class StatsdPush:
    """Sends families: gauges as they are, counters as what was added since the last time.

    Plain StatsD knows no labels, so their values are parts of the name: `kiqbridge.queue_size.default`. A
    histogram is sent as two counters, `…_count` and `…_ms`.

    Args:
        address: HOST:PORT.

    Raises:
        ConfigError: the extra `statsd` is not installed.
    """

    def __init__(self, address: str) -> None:
        self._library = load("statsd", "statsd")
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._client: Any = None
        self._sent: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"StatsD at {self._host}:{self._port}"

    def send(self, families: Iterable[Family]) -> list[str]:
        """Send them; the names of those gauges that are gone when their queue or class is.

        Raises:
            OSError: the host cannot be found; the next call tries again.
        """
        passing = []
        with self._open().pipeline() as packets:
            for family in families:
                for name, value in _values(family):
                    if family.metric.kind == "gauge":
                        packets.gauge(name, _number(value))
                        if family.metric.scope == "fleet" and family.metric.labels:
                            passing.append(name)
                        continue
                    new = value - self._sent.get(name, 0.0)
                    self._sent[name] = value
                    if new > 0:
                        packets.incr(name, _number(new))
        return passing

    def send_zeros(self, names: Iterable[str]) -> None:
        """Send 0 for gauges that nothing is sent for any more: StatsD repeats the last value for ever."""
        with self._open().pipeline() as packets:
            for name in names:
                packets.gauge(name, 0)

    def _open(self) -> Any:
        if self._client is None:
            self._client = self._library.StatsClient(
                self._host.strip("[]"), self._port, prefix=PREFIX, maxudpsize=PACKET_BYTES
            )
        return self._client

    def close(self) -> None:
        """Close its socket; the next `send` opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _values(family: Family) -> Iterable[tuple[str, float]]:
    name = family.metric.name.removeprefix(f"{PREFIX}_").removesuffix("_total")
    for labels, value in family.values.items():
        parts = tuple(map(_part, labels))
        if isinstance(value, Distribution):
            yield ".".join((f"{name}_count", *parts)), sum(value.counts)
            yield ".".join((f"{name}_ms", *parts)), round(value.sum_s * 1000)
        else:
            yield ".".join((name, *parts)), value


def _part(value: str) -> str:
    """A value of a label as part of a name: dots and colons have a meaning there."""
    return _NO_NAME.sub("_", value)


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else round(value, 6)
