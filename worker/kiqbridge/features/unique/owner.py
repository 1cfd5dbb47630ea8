"""Who has the lock of a unique job; public as `kiqbridge.flow.find_owner`."""

from typing import Any

from kiqbridge.client.client import Client
from kiqbridge.client.declaration import require_definition
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError
from kiqbridge.features.unique.mark import Unique
from kiqbridge.runtime.clock import client_now
from kiqbridge.wire.names import text_of


def find_owner(job: object, *args: Any, client: Client | None = None, **kwargs: Any) -> str | None:
    """The jid of the job that has the lock for a call with these arguments, None = it is free.

    Args:
        job: a declared job with `unique`.
        args: as for `perform_async`.
        client: default: that of `configure`.
        kwargs: as for `perform_async`.

    Raises:
        ConfigError: that is no unique job.
        PayloadError: it cannot be called like this.
        RedisUnavailable: nothing was read.
    """
    definition = require_definition(job)
    if not isinstance(definition.rule, Unique):
        raise ConfigError(f"job {definition.name!r}: it is not declared with unique=Unique(…)")
    payload = {"class": definition.name, "args": definition.positional(args, kwargs)}
    whose = client or default_client()
    name = definition.rule.name_of(payload, definition.signature)
    value = whose.pool.call("HGET", whose.keys.locks, name)
    until, _, jid = (value or b"").partition(b" ")
    return text_of(jid) if jid and float(until) > client_now() else None
