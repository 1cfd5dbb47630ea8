"""Where an operator looks and acts: a Redis, a namespace, and in whose name."""

import getpass
import os
import socket
import threading
from dataclasses import dataclass
from typing import Final

from kiqbridge.client.client import Client
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import ConfigError
from kiqbridge.store.pauses import Pause, list_pauses
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

API: Final = "api"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What all classes of `kiqbridge.api` take as `operator=`; without it they use `default_operator`.

    Attributes:
        client: pushes what is retried or edited, through its middleware; its pool is used for all else.
        by: who acts, as the audit log shows it, such as `ann@example.com`.
        via: through what: `api`, `web`, `cli`.
    """

    client: Client
    by: str
    via: str = API

    @property
    def pool(self) -> RedisPool:
        """Its connections."""
        return self.client.pool

    @property
    def keys(self) -> Keys:
        """The names of keys under the namespace."""
        return self.client.keys

    def pauses(self) -> list[Pause]:
        """What is paused now: queues, those that Ruby paused included, then classes, by name.

        Raises:
            RedisUnavailable: not everything was read.
        """
        return list_pauses(self.pool, self.keys)


def open_operator(
    url: str | None = None,
    *,
    namespace: str | None = None,
    by: str | None = None,
    via: str = API,
    client: Client | None = None,
) -> Operator:
    """An operator of a Redis; without arguments of the one that the settings name.

    Args:
        url: address of Redis; default from REDIS_PROVIDER or REDIS_URL, REDIS_SECRET_ARN and their like.
        namespace: key prefix, `myapp` or `myapp:`; default from KIQBRIDGE_NAMESPACE.
        by: who acts; default `USER@HOST` of this process.
        via: through what.
        client: an existing client instead of url and namespace.

    Raises:
        ConfigError: a wrong value; names the argument or the environment variable. There are fleets, and none is
            chosen.
    """
    client = client or Client(url, namespace=namespace)
    if client.fleets is not None and not client.fleets.own:
        raise ConfigError(
            f"fleets: choose the one to look at with --fleet or KIQBRIDGE_FLEET: {', '.join(client.fleets.writers)}"
        )
    return Operator(client=client, by=by or user_at_host(), via=via)


_default: Operator | None = None
_default_lock = threading.Lock()


def default_operator() -> Operator:
    """The operator that is used without `operator=`: of the client that `configure` made, else of the settings.

    Raises:
        ConfigError: a wrong environment variable.
    """
    global _default  # noqa: PLW0603 - one for the process, as its default client is
    client = default_client()
    with _default_lock:
        if _default is None or _default.client is not client:
            _default = Operator(client=client, by=user_at_host())
        return _default


def user_at_host() -> str:
    """`USER@HOST`, for what others read."""
    return f"{user_name()}@{socket.gethostname()}"


def user_name() -> str:
    """Who runs this process; a number if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
