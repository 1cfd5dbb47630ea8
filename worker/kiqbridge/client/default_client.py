"""The client that declared jobs push through: one for the process.

`configure` chooses it, a worker adopts its own, and else one is made from the environment at the first push.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from kiqbridge.client.client import Client
from kiqbridge.client.middleware import Chain, ClientMiddleware

if TYPE_CHECKING:
    import redis

_default: Client | None = None
_default_lock = threading.Lock()
_default_middleware: Chain[ClientMiddleware] = Chain()
"""What each client that declared jobs push through begins with, however often it is configured."""
_chosen_here: ContextVar[Client | None] = ContextVar("kiqbridge_client", default=None)
_choose: Callable[[Client], Client] | None = None


def configure(
    url: str | None = None,
    *,
    redis: "redis.Redis | None" = None,
    namespace: str | None = None,
    profile: str | None = None,
    wait_replicas: int | None = None,
) -> Client:
    """Set the client that `perform_async` and its like use, and return it; arguments as `Client`.

    Raises:
        ConfigError: a wrong argument, or environment variable.
    """
    global _default  # noqa: PLW0603 - the one process-wide client that declared jobs push through
    client = Client(
        url, redis=redis, namespace=namespace, profile=profile, wait_replicas=wait_replicas
    )
    with _default_lock:
        client.middleware = _default_middleware.copy()
        _default = client
    return client


def default_client() -> Client:
    """The configured client, or one made from the environment at first use.

    Within `pushing_through` that one, else the choice of `choose_client_by`, if there is one.

    Raises:
        ConfigError: a wrong environment variable.
    """
    global _default  # noqa: PLW0603 - as in configure
    chosen = _chosen_here.get()
    if chosen is not None:
        return chosen
    client = _default
    if client is None:
        with _default_lock:
            if _default is None:
                client = Client()
                client.middleware = _default_middleware.copy()
                _default = client
            client = _default
    return client if _choose is None else _choose(client)


@contextmanager
def pushing_through(client: Client) -> Iterator[None]:
    """Within, in this thread or task, declared jobs push through this client."""
    token = _chosen_here.set(client)
    try:
        yield
    finally:
        _chosen_here.reset(token)


def choose_client_by(choose: Callable[[Client], Client] | None) -> None:
    """Let each push of a declared job ask `choose` for its client, given the default one; None ends that."""
    global _choose  # noqa: PLW0603 - one choice for the process
    _choose = choose


def adopt_default_client(client: Client) -> Client:
    """Let declared jobs push through this one, unless `configure` has chosen another; returns the one that counts."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is None:
            _default = client
        return _default


def replace_default_client(client: Client | None) -> Client | None:
    """Let declared jobs push through this one; None: as if nothing was configured. Returns what counted before."""
    global _default
    with _default_lock:
        if client is not None:
            client.middleware = _default_middleware.copy()
        former, _default = _default, client
    return former


def release_default_client(client: Client) -> None:
    """Undo `adopt_default_client`."""
    global _default  # noqa: PLW0603 - as in configure
    with _default_lock:
        if _default is client:
            _default = None


def add_default_middleware(
    entry: ClientMiddleware, *, instead_of: ClientMiddleware | None = None
) -> None:
    """Add middleware to the client that declared jobs push through, and to those configured later."""
    with _default_lock:
        chains = [_default_middleware]
        if _default is not None:
            chains.append(_default.middleware)
        for chain in chains:
            if instead_of is not None:
                chain.remove(instead_of)
            if entry not in list(chain):
                chain.add(entry)


def remove_default_middleware(entry: ClientMiddleware) -> None:
    """Undo `add_default_middleware`, where it was added."""
    with _default_lock:
        _default_middleware.remove(entry)
        if _default is not None:
            _default.middleware.remove(entry)


@contextmanager
def own_default_client() -> Iterator[None]:
    """Within, nothing is configured yet; at the end client and middleware are what they were before.

    For tests, and for code that configures a client of its own for a while. The process has one default
    client: other threads see the change, too.
    """
    global _default, _default_middleware, _choose
    with _default_lock:
        former = _default, _default_middleware, _choose
        _default, _default_middleware = None, _default_middleware.copy()
    try:
        yield
    finally:
        with _default_lock:
            _default, _default_middleware, _choose = former
