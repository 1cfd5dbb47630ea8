"""Addresses and options of connections: from a URL or a client of redis-py.

Nothing is opened here.
"""

import functools
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection
from redis.retry import Retry

from kiqbridge import seams
from kiqbridge.errors import ConfigError
from kiqbridge.store.lean_redis import redis

DEFAULT_URL: Final = "redis://localhost:6379/0"
_OF_SEVERAL: Final = re.compile(r"rediss?\+(sentinel|cluster)://")
CONNECT_TIMEOUT_S: Final = 3.0
READ_TIMEOUT_S: Final = 3.0

_QUERY_PASSWORD = re.compile(r"([?&](?:sentinel_)?password=)[^&]*")
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")
_DATABASE = re.compile(r"[^/]*(/\d*/?)?")
"""What follows the password in an address: host, port and number of the database."""
_OWN_METADATA = re.compile(r"redis-(.+)\.dist-info")
_NOT_TAKEN_OVER = ("maint_notifications", "oss_cluster_maint", "orig_")
"""Settings of a given client that are left out: a managed service's notices, which need RESP 3, and their state."""

_OF_POOLS: Final = ("max_connections", "cache_factory", "maint_notifications_config")
"""Options of an address that are for a pool of redis-py."""

_LIBRARY_OPTIONS: Final = frozenset({"driver_info", "lib_name", "lib_version"})
"""Options with which a user says what connections say of the library."""


class UntaggedNamespace(ConfigError):  # noqa: N818 - named by what is wrong
    """An address of a cluster, and a namespace that does not keep all keys in one slot."""


def without_password(url: str) -> str:
    """The address as it may be shown."""
    # Not urlsplit: a password with a slash or bracket in it, which should have been quoted, would
    # be taken for the path, or refused; just such an address ends up in an error message.
    url = _QUERY_PASSWORD.sub(r"\1***", url)
    scheme, separator, rest = url.partition("://")
    credentials, at, host = rest.rpartition("@")
    if not at:
        return url
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{separator}{user if colon else ''}:***@{host}"


class Factory(NamedTuple):
    """What makes connections: their class, and what it is called with.

    redis-py's own pool would do, but loads OpenSSL for a number that names it.
    """

    connection_class: type[AbstractConnection]
    connection_kwargs: dict[str, Any]

    def make_connection(self, **more: Any) -> AbstractConnection:
        """One that is not open yet."""
        return self.connection_class(**{**self.connection_kwargs, **more})


def connection_factory(
    url: str | None, client: "redis.Redis | None", read_timeout_s: float, namespace: str = ""
) -> Factory:
    """What makes connections without redis-py's own retries, opening none.

    Args:
        url: as of `RedisPool`.
        client: a client of redis-py whose address and credentials are used instead.
        read_timeout_s: seconds until a silent server counts as lost.
        namespace: of all keys; says where they lie in a cluster.

    Raises:
        ConfigError: the address cannot be read, or has options that such connections do not take; or it is one of
            a cluster, and the namespace has no hash tag.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_TIMEOUT_S,
        "socket_timeout": read_timeout_s,
        "socket_keepalive": True,
        "health_check_interval": 0,
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": False,
    }
    if client is not None:
        pool = client.connection_pool
        known = {
            name: value
            for name, value in pool.connection_kwargs.items()
            if not name.startswith(_NOT_TAKEN_OVER)
        }
        own = {} if _LIBRARY_OPTIONS & known.keys() else _library()
        return Factory(pool.connection_class, {**own, **known, **options, "protocol": 2})
    if url and "#" in url and not url.startswith("unix://"):
        # Nothing of it is shown: what stands before a `#` ends the address for a parser, and may be half a password.
        raise ConfigError(
            "REDIS_URL: it has a #, at which an address ends; write %23 for one in a name or a password"
        )
    if not any(f"{name}=" in (url or "") for name in _LIBRARY_OPTIONS):
        options.update(_library())
    try:
        if url and _OF_SEVERAL.match(url):
            made = _to_several(url, namespace, options)
            _check_options(made, url)
            return made
        if url and url.startswith("unix://"):
            del options["socket_keepalive"]  # which such a connection does not have
        made = _to_server(url or DEFAULT_URL, options)
        _check_options(made, url or "")
    except ValueError:
        raise ConfigError(
            f"REDIS_URL: {without_password(url or '')!r} is not an address; write redis://host:6379/0, "
            "rediss://… for TLS, unix:///path, redis+sentinel://host:26379,host:26379/SERVICE/0, or "
            "redis+cluster://host:6379,host:6379, and quote special characters of a password"
        ) from None  # the original quotes what it takes for the port: it may be the password
    return made


def _to_server(url: str, options: dict[str, Any]) -> Factory:
    rest = url.partition("://")[2].partition("?")[0].rpartition("@")[2]
    if not (url.startswith("unix://") or _DATABASE.fullmatch(rest)):
        raise ValueError("the path is no number of a database; redis-py would take database 0")
    given = {"protocol": 2, **options, **redis.connection.parse_url(url)}  # type: ignore[no-untyped-call]
    return Factory(
        given.pop("connection_class", redis.connection.Connection),
        {name: value for name, value in given.items() if name not in _OF_POOLS},
    )


@functools.cache
def _library() -> dict[str, Any]:
    """What connections say of the library, for `CLIENT LIST`; they would each read it from the package's metadata."""
    # By the name of the folder: `importlib.metadata` loads a parser of mails for it, in 8 ms.
    folder = Path(redis.__path__[0]).parent
    there = [each.name for each in folder.iterdir()] if folder.is_dir() else []  # not of a zip
    found = [each[1] for each in map(_OWN_METADATA.fullmatch, there) if each]
    version = found[0] if len(found) == 1 else redis.utils.get_lib_version()  # type: ignore[no-untyped-call]
    if hasattr(redis, "driver_info"):
        return {"driver_info": redis.driver_info.DriverInfo(lib_version=version)}
    return {"lib_version": version}  # redis-py before 7.1


def _to_several(url: str, namespace: str, options: dict[str, Any]) -> Factory:
    scheme = url.partition("://")[0]
    opens = seams.by_name("addresses").get(scheme.partition("+")[2])
    if opens is None:
        raise ConfigError(
            f"REDIS_URL: the feature that opens {scheme}:// is not here; reinstall kiqbridge"
        )
    made: Factory = opens(url, namespace, {"protocol": 2, **options})
    return made


def _check_options(pool: Factory, url: str) -> None:
    """Refuse options behind the address that its connections do not have; nothing is opened."""
    try:
        pool.make_connection()
    except (TypeError, redis.exceptions.RedisError) as error:
        unknown = _UNKNOWN_OPTION.search(str(error))
        what = f"{unknown[1]} is not an option of such an address" if unknown else str(error)
        tls = ", and those of TLS belong to rediss://" if unknown and "ssl" in unknown[1] else ""
        raise ConfigError(
            f"REDIS_URL: {without_password(url)!r}: {what}; docs/how_to/failover.md has the options{tls}"
        ) from None


def shown_address(url: str | None, factory: Factory) -> str:
    """Where connections go, without passwords, for messages."""
    if url:
        return without_password(url)
    known = factory.connection_kwargs
    if "connection_pool" in known:  # of redis-py's own Sentinel
        return f"sentinel service {getattr(known['connection_pool'], 'service_name', '?')}"
    if "path" in known:
        return f"unix://{known['path']}"
    return f"{known.get('host', 'localhost')}:{known.get('port', 6379)}/{known.get('db') or 0}"
