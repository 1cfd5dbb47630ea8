"""Redis behind sentinels: each connection asks them who the primary is, when it is opened.

`redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/SERVICE[/DB][?sentinel_username=…&…]`, or
`rediss+sentinel://…` for TLS to both. So after a failover it needs no more than what every failover does to a
connection (READONLY, refused, dropped): the next one goes to the new primary.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

import redis
from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, parse_url
from redis.retry import Retry

from kiqbridge.store import deadline

PORT: Final = 26379
ANSWER_WITHIN_S: Final = 1.0
"""For each sentinel; those that are gone must not use up the time in which a connection is to be made."""

_HOST = re.compile(r"(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]+))(?::(?P<port>\d{1,5}))?")
_OF_A_SOCKET: Final = ("ssl_", "socket_keepalive")
"""Options of the address that hold for the sentinels as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelAddress:
    """What such an address holds.

    Attributes:
        hosts: the sentinels, as (host, port).
        service: the name under which they watch the primary.
        tls: whether connections are encrypted.
        options: keyword arguments of a connection to the primary, but for host and port.
        sentinel_options: those of a connection to a sentinel.
    """

    hosts: tuple[tuple[str, int], ...]
    service: str
    tls: bool
    options: Mapping[str, Any]
    sentinel_options: Mapping[str, Any]


def parse(url: str) -> SentinelAddress:
    """Read an address; the caller reports what is wrong without the passwords in it.

    Raises:
        ValueError: it is none.
    """
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    location, _, path = rest.partition("/")
    credentials, at, listed = location.rpartition("@")
    service, _, database = path.partition("/")
    hosts = tuple(_host(text) for text in listed.split(","))
    if not service or (database and not database.isdigit()):
        raise ValueError("the path is not /SERVICE or /SERVICE/DB")
    given = dict(parse_qsl(query, keep_blank_values=True))
    own = {
        name.removeprefix("sentinel_"): given.pop(name)
        for name in ("sentinel_username", "sentinel_password")
        if name in given
    }
    plain = scheme.removesuffix("+sentinel")
    # What redis-py makes of users, databases and options of an ordinary address.
    parsed: dict[str, Any] = dict(
        parse_url(f"{plain}://{credentials}{at}primary/{database or 0}?{urlencode(given)}")  # type: ignore[no-untyped-call]
    )
    for name in ("host", "port", "connection_class"):
        parsed.pop(name, None)
    shared = {name: value for name, value in parsed.items() if name.startswith(_OF_A_SOCKET)}
    return SentinelAddress(
        hosts=hosts,
        service=unquote(service),
        tls=plain == "rediss",
        options=parsed,
        sentinel_options=shared | own,
    )


def _host(text: str) -> tuple[str, int]:
    found = _HOST.fullmatch(text)
    if found is None:
        raise ValueError("a sentinel is not HOST or HOST:PORT")
    return unquote(found["six"] or found["host"]), int(found["port"] or PORT)


class Sentinels:
    """Asks the sentinels of one service, the one first that answered last time."""

    def __init__(self, address: SentinelAddress) -> None:
        self._address = address
        self._hosts = address.hosts

    def __repr__(self) -> str:
        return f"Sentinels({self._address.service}, {len(self._hosts)})"

    def find_primary(self) -> tuple[str, int]:
        """Where the primary is now.

        Raises:
            redis.exceptions.ConnectionError: none of them knows.
        """
        failures = []
        for host in self._hosts:
            try:
                answer = self._ask(host)
            except (redis.exceptions.RedisError, OSError) as error:
                failures.append(f"{host[0]}:{host[1]}: {error}")
                continue
            if answer is None:
                failures.append(f"{host[0]}:{host[1]}: does not know it")
                continue
            self._hosts = (host, *(other for other in self._hosts if other != host))
            return answer[0].decode(), int(answer[1])
        raise redis.exceptions.ConnectionError(
            f"no sentinel says where the primary of {self._address.service} is ({'; '.join(failures)})"
        )

    def _ask(self, host: tuple[str, int]) -> list[bytes] | None:
        within_s = deadline.bounded(ANSWER_WITHIN_S)
        made = (SSLConnection if self._address.tls else Connection)(
            host=host[0],
            port=host[1],
            socket_timeout=within_s,
            socket_connect_timeout=within_s,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            **self._address.sentinel_options,
        )
        try:
            made.connect()  # type: ignore[no-untyped-call]
            made.send_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)  # type: ignore[no-untyped-call]
            answer: list[bytes] | None = made.read_response()
        finally:
            made.disconnect()  # type: ignore[no-untyped-call]
        return answer


class _OfPrimary(Connection):
    """A connection whose place is found when it is opened."""

    def __init__(self, *, find_primary: Callable[[], tuple[str, int]], **options: Any) -> None:
        self._find_primary = find_primary
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self.host, self.port = self._find_primary()
        return super()._connect()  # type: ignore[no-untyped-call]

    def on_connect_check_health(self, check_health: bool = True) -> None:  # noqa: FBT001, FBT002 - redis-py's
        """Besides the greeting: a sentinel may still name a primary that was demoted."""
        super().on_connect_check_health(check_health=check_health)
        self.send_command("ROLE", check_health=False)  # type: ignore[no-untyped-call]
        try:
            role = self.read_response()[0]
        except (
            redis.exceptions.ResponseError
        ):  # its user may not ask; writes are refused by a replica
            return
        if role != b"master":
            raise redis.exceptions.ConnectionError(
                f"{self.host}:{self.port} is a replica now, and its sentinels do not know it yet"
            )


class PrimaryConnection(_OfPrimary):
    """A connection to the primary."""


class PrimarySSLConnection(_OfPrimary, SSLConnection):
    """An encrypted one."""


def connection_pool(url: str, **options: Any) -> redis.ConnectionPool:
    """What makes connections to the primary; `options` of redis-py win over those of the address.

    Raises:
        ValueError: the address is none.
    """
    address = parse(url)
    return redis.ConnectionPool(
        connection_class=PrimarySSLConnection if address.tls else PrimaryConnection,
        find_primary=Sentinels(address).find_primary,
        **{**address.options, **options},
    )
