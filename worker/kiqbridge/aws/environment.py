"""How a function reaches Redis: a client from its environment variables, and the time that it has for calls."""

from collections.abc import Mapping
from typing import Any, Final

from kiqbridge.client.client import Client
from kiqbridge.config.client_settings import (
    MAX_PAYLOAD_BYTES,
    PROFILE,
    WAIT_REPLICAS,
)
from kiqbridge.config.redis_access import read_access
from kiqbridge.config.setting import read
from kiqbridge.store.redis_pool import RedisPool

RESERVE_S: Final = 1.0
"""For what follows the last call: the answer, log lines, keeping what Redis did not take."""
_SHARE: Final = 0.25


def open_client(environ: Mapping[str, str]) -> Client:
    """A client; it connects at the first call.

    Raises:
        ConfigError: the address or a setting is wrong.
    """
    access = read_access(environ)
    client = Client(
        pool=RedisPool(access),
        namespace=access.namespace,
        profile=read(PROFILE, environ),
        wait_replicas=read(WAIT_REPLICAS, environ),
        max_payload_bytes=read(MAX_PAYLOAD_BYTES, environ),
    )
    if environ.get("KIQBRIDGE_FLEETS"):
        from kiqbridge.config.fleets import read_fleets  # noqa: PLC0415 - few have fleets

        client.use_fleets(read_fleets(environ))
    return client


def seconds_for_redis(context: Any) -> float:
    """Seconds of an invocation in which calls to Redis must have ended, so that its answer, or its error, is its own.

    Args:
        context: as Lambda gives it.
    """
    left_s = max(float(context.get_remaining_time_in_millis()) / 1000, 0.0)
    return left_s - min(RESERVE_S, left_s * _SHARE)
