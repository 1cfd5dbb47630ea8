"""The nodes of a cluster: which of them owns the slot of our keys, and connections to it.

Redis at several addresses, of which each connection finds the right one when it is opened.

Sentinels, `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…/SERVICE[/DB][?sentinel_username=…&…]`: they are
asked who the primary is. So after a failover it needs no more than what every failover does to a connection
(READONLY, refused, dropped): the next one goes to the new primary.

A cluster, `redis+cluster://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT]…[?…]`, HOST being any node, or a name that leads
to some of them: each connection goes to the primary that owns the slot of our keys. The hash tag of the namespace keeps
all keys in one slot; so a fleet needs one node at a time, and its scripts and transactions work as on a server without
cluster mode. What a node answers when it does not own the slot is handled in `calls.py`.

With `rediss+…://` all connections use TLS.
"""

import binascii
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlencode

from redis.backoff import NoBackoff
from redis.connection import AbstractConnection, Connection, SSLConnection, parse_url
from redis.retry import Retry

from kiqbridge.store import deadline
from kiqbridge.store.lean_redis import redis
from kiqbridge.store.scripts import Script, from_text
from kiqbridge.wire.keys import Keys, hash_tag
from kiqbridge.wire.names import bytes_of

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


SEARCH_WITHIN_S: Final = 5.0
"""For all nodes of a cluster together."""
TRUSTED_S: Final = 1.0
"""How long new connections go where the owner was found, before a node is asked again."""
SLOTS: Final = 16384

_UNKNOWN: Final = "?"
"""What a node gives as the host of one whose name it should give and does not know."""


def slot_of(prefix: str) -> int:
    """The slot of all keys with a prefix that has a hash tag.

    Raises:
        ValueError: it has none.
    """
    tag = hash_tag(prefix)
    if not tag:
        raise ValueError("no hash tag")
    return binascii.crc_hqx(bytes_of(tag), 0) % SLOTS


class ClusterNodes:
    """The nodes of a cluster, and which of them owns one slot; shared by the connections of a pool.

    Safe for several threads without a lock: at worst two of them ask at once.

    Args:
        address: where the first ones are.
        prefix: of all our keys; has a hash tag.
    """

    def __init__(self, address: SeveralNodes, prefix: str) -> None:
        self._address = address
        self._slot = slot_of(prefix)
        self._guard = Keys(prefix).nowhere
        self._known: tuple[Place, ...] = ()
        self._owner: tuple[Place, float] | None = None
        self._avoided: Place | None = None
        self._scripts: dict[str, Script] = {}

    def __repr__(self) -> str:
        return f"ClusterNodes(slot {self._slot}, {len(self._address.hosts)} listed)"

    @property
    def places(self) -> tuple[Place, ...]:
        """The nodes of the address."""
        return self._address.hosts

    def known_owner(self) -> Place | None:
        """Who was the owner a moment ago; None when that has to be asked."""
        owner = self._owner
        if owner is None or time.monotonic() - owner[1] > TRUSTED_S:
            return None
        return owner[0]

    def moved(self, place: Place | None) -> None:
        """A node has answered that this one owns the slot; None: another one, which it cannot name."""
        self._avoided = None
        self._owner = None if place is None else (place, time.monotonic())

    def forget(self, place: Place) -> None:
        """Note that this node cannot be used as the owner: the owner is asked for again, this node last."""
        self._owner = None
        self._avoided = place

    def find_owner(self, options: Mapping[str, Any]) -> Place:
        """Ask the nodes, the one first that answered last time.

        Args:
            options: of the connection that is to be made: what it logs in with.

        Raises:
            redis.exceptions.AuthenticationError: a node refuses the login.
            redis.exceptions.ConnectionError: none of them knows.
        """
        until = time.monotonic() + SEARCH_WITHIN_S
        failures = []
        for place in self._candidates():
            if time.monotonic() >= until:
                failures.append(f"not asked any more after {SEARCH_WITHIN_S:g} s")
                break
            try:
                owner, others = self._ask(place, options)
            except redis.exceptions.AuthenticationError:
                raise
            except (redis.exceptions.RedisError, OSError) as error:
                failures.append(f"{place[0]}:{place[1]}: {error}")
                continue
            self._known = tuple(dict.fromkeys((place, owner, *others)))
            self._owner = owner, time.monotonic()
            return owner
        raise redis.exceptions.ConnectionError(
            f"no node of the cluster says who owns slot {self._slot} ({'; '.join(failures)})"
        )

    def open(self, place: Place, options: Mapping[str, Any]) -> AbstractConnection:
        """An open connection to this node, whichever node owns the slot; the caller closes it.

        Raises:
            RedisError, OSError: it cannot be reached.
        """
        return opened(place, options, tls=self._address.tls)

    def guarded(self, script: Script, keys: Sequence[str]) -> tuple[Script, Sequence[str]]:
        """The script and its keys, so that no node begins it while the slot is on its way to another one.

        Then a node would run it until it needs a key that is not there, and stop half-way. A call with several
        keys, one of which is nowhere, is refused before it begins (TRYAGAIN).
        """
        known = self._scripts.get(script.sha)
        if known is None:
            # Behind the line with the flags; the script sees the keys that it knows, on its own lines.
            first, _, rest = script.text.partition("\n")
            known = self._scripts[script.sha] = from_text(f"{first}\ntable.remove(KEYS); {rest}")
        return known, (*keys, self._guard)

    def _candidates(self) -> Iterable[Place]:
        every = dict.fromkeys((*self._known, *self._address.hosts))
        if self._avoided in every:
            del every[self._avoided]
            every[self._avoided] = None
        return every

    def _ask(self, place: Place, options: Mapping[str, Any]) -> tuple[Place, list[Place]]:
        """The owner, and the nodes that this one knows.

        Raises:
            RedisError, OSError: it does not say.
        """
        made = self.open(place, options)
        try:
            try:
                ranges = list(_of_slots(answer(made, "CLUSTER", "SLOTS")))
            except redis.exceptions.ResponseError as error:
                if "cluster support disabled" in str(error):
                    raise
                ranges = list(_of_shards(answer(made, "CLUSTER", "SHARDS"), tls=self._address.tls))
        finally:
            made.disconnect()  # type: ignore[no-untyped-call]
        others = []
        owner: Place | None = None
        for first, last, nodes in ranges:
            named = [(place[0] if host == "" else host, port) for host, port in nodes]
            if first <= self._slot <= last and named[0][0] != _UNKNOWN:
                owner = named[0]
            others += [each for each in named if each[0] != _UNKNOWN]
        if owner is None:
            raise redis.exceptions.ConnectionError("does not know it")
        return owner, others


Range = tuple[int, int, list[Place]]
"""First slot, last slot, and their nodes: the primary, then its replicas. An empty host is the asked node's."""


def _of_slots(answer: Any) -> Iterator[Range]:
    for first, last, *nodes in answer:
        yield first, last, [(_named(node[0], node[3:]), int(node[1])) for node in nodes]


def _named(host: bytes | None, more: Sequence[Any]) -> str:
    """The host of a node in CLUSTER SLOTS; what it should be and is not known may be found beside it."""
    name = (host or b"").decode()
    if name == _UNKNOWN and more and isinstance(more[0], list):
        beside = dict(zip(more[0][::2], more[0][1::2], strict=False))
        return (beside.get(b"ip") or b"").decode() or _UNKNOWN
    return name


def _of_shards(answer: Any, *, tls: bool) -> Iterator[Range]:
    for shard in answer:
        fields = dict(zip(shard[::2], shard[1::2], strict=True))
        nodes = [dict(zip(node[::2], node[1::2], strict=True)) for node in fields[b"nodes"]]
        # A primary that is gone stands there beside the one that has followed it.
        nodes.sort(key=lambda node: (node[b"role"] != b"master", node.get(b"health") != b"online"))
        port = b"tls-port" if tls else b"port"
        places = [
            ((node.get(b"endpoint") or b"").decode(), int(node[port]))
            for node in nodes
            if port in node
        ]
        slots = fields[b"slots"]
        if places and nodes[0][b"role"] == b"master":
            for first, last in zip(slots[::2], slots[1::2], strict=True):
                yield int(first), int(last), places


class OfOwner(Connection):
    """A connection whose place is found when it is opened."""

    def __init__(self, *, nodes: ClusterNodes, **options: Any) -> None:
        self.nodes = nodes
        self.options = options
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        known = self.nodes.known_owner()
        if known is not None:
            self.host, self.port = known
            try:
                return super()._connect()  # type: ignore[no-untyped-call]
            except OSError:
                self.nodes.forget(known)
        self.host, self.port = found = self.nodes.find_owner(self.options)
        try:
            return super()._connect()  # type: ignore[no-untyped-call]
        except OSError:
            self.nodes.forget(found)
            raise


class OwnerConnection(OfOwner):
    """A connection to the owner."""


class OwnerSSLConnection(OfOwner, SSLConnection):
    """An encrypted one."""
