"""Redis at several addresses, of which each connection finds the right one when it is opened.

Sentinels, `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/SERVICE[/DB][?sentinel_username=…&…]`: they are
asked who the primary is. So after a failover it needs no more than what every failover does to a connection
(READONLY, refused, dropped): the next one goes to the new primary.

A cluster, `redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…[?…]`, HOST being any node, or a name that leads
to some of them: each connection goes to the primary that owns the slot of our keys. The hash tag of the namespace keeps
all keys in one slot; so a fleet needs one node at a time, and its scripts and transactions work as on a server without
cluster mode. What a node answers when it does not own the slot is handled in `calls.py`.

With `rediss+…://` all connections use TLS.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.retry import Retry

from kiqbridge.store import deadline

PORT: Final = 6379
SENTINEL_PORT: Final = 26379
ANSWER_WITHIN_S: Final = 1.0
"""For each node; those that are gone must not use up the time in which a connection is to be made."""

_HOST: Final = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_OF_A_SOCKET: Final = ("ssl_", "socket_keepalive")
"""Options of the address that hold for the sentinels as well."""

Place = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralNodes:
    """What such an address holds.

    Attributes:
        hosts: sentinels, or nodes of a cluster.
        tls: whether connections are encrypted.
        options: keyword arguments of a connection to the primary, but for host and port.
        service: the name under which sentinels watch the primary.
        sentinel_options: those of a connection to a sentinel.
    """

    hosts: tuple[Place, ...]
    tls: bool
    options: Mapping[str, Any]
    service: str = ""
    sentinel_options: Mapping[str, Any]


def parse(url: str) -> SeveralNodes:
    """Read an address; the caller reports what is wrong without the passwords in it.

    Raises:
        ValueError: it is none.
    """
    scheme, _, rest = url.partition("://")
    plain, _, kind = scheme.partition("+")
    rest, _, query = rest.partition("?")
    location, _, path = rest.partition("/")
    credentials, at, listed = location.rpartition("@")
    is_cluster = kind == "cluster"
    service, _, database = ("", "", path) if is_cluster else path.partition("/")
    if not is_cluster and (not service or (database and not database.isdigit())):
        raise ValueError("the path is not /SERVICE or /SERVICE/DB")
    given = dict(parse_qsl(query, keep_blank_values=True))
    own = {
        name.removeprefix("sentinel_"): given.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if name in given and not is_cluster
    }
    # What redis-py makes of users, databases and options of an ordinary address.
    address = f"{plain}://{credentials}{at}primary/{database or ('' if is_cluster else 0)}?{urlencode(given)}"
    parsed: dict[str, Any] = dict(parse_url(address))  # type: ignore[no-untyped-call]
    if is_cluster and (database not in ("", "0") or parsed.pop("db", 0)):
        raise ValueError("a cluster has database 0 only")
    for name in ("host", "port", "connection_class"):
        parsed.pop(name, None)
    shared = {name: value for name, value in parsed.items() if name.startswith(_OF_A_SOCKET)}
    port = PORT if is_cluster else SENTINEL_PORT
    return SeveralNodes(
        hosts=tuple(_host(text, port) for text in listed.split(",")),
        tls=plain == "rediss",
        options=parsed,
        service=unquote(service),
        sentinel_options=shared | own,
    )


def _host(text: str, port: int) -> Place:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError("a node is not HOST or HOST:PORT")
    return unquote(found["six"] or found["host"]), int(found["port"] or port)


def opened(place: Place, options: Mapping[str, Any], *, tls: bool) -> AbstractConnection:
    """An open connection to this node, whatever it is; the caller closes it.

    Raises:
        RedisError, OSError: it cannot be reached.
    """
    within_s = deadline.bounded(ANSWER_WITHIN_S)
    ours = {
        "host": place[0],
        "port": place[1],
        "protocol": 2,
        "socket_timeout": within_s,
        "socket_connect_timeout": within_s,
        "retry": Retry(NoBackoff(), 0),
    }
    made: AbstractConnection = (SSLConnection if tls else Connection)(**{**options, **ours})
    try:
        made.connect()  # type: ignore[no-untyped-call]
    except BaseException:
        made.disconnect()  # type: ignore[no-untyped-call]
        raise
    return made


def answer(connection: AbstractConnection, *command: str) -> Any:
    """What it answers; raises as redis-py."""
    connection.send_command(*command)  # type: ignore[no-untyped-call]
    return connection.read_response()
