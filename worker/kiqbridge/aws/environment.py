"""What a function makes of its environment variables to reach Redis."""

from collections.abc import Mapping

from kiqbridge.client.client import Client
from kiqbridge.config.client_settings import (
    MAX_PAYLOAD_BYTES,
    PROFILE,
    WAIT_REPLICAS,
)
from kiqbridge.config.redis_access import read_access
from kiqbridge.config.setting import read
from kiqbridge.store.redis_pool import RedisPool


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
