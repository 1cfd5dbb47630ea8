"""Forgetting the spans whose time is over, which no push touches any more."""

from collections.abc import Callable

from kiqbridge.client.host import Host
from kiqbridge.store.forgetting import forget_over
from kiqbridge.store.redis_connection import RedisConnection


def forget_spans(host: Host) -> Callable[[RedisConnection], object]:
    """A bounded number of them."""
    spans, until = host.client.keys.flow_spans, host.client.keys.flow_spans_until
    return lambda connection: forget_over(connection, spans, until)
