"""Why Redis cannot be used: causes that waiting does not change, each with its remedy.

What fails at the start for such a reason ends it; what may become right by itself (a refused
connection, silence, a name that is not resolved, a server that is loading) is tried again.
"""

import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.runtime.records import dataclass
from kiqbridge.store.refusals import NO_LOGIN, code_of, without_arguments

if TYPE_CHECKING:
    import ssl

PROBE_S: Final = 2.0
PROBE_NODES_S: Final = 5.0

_CODE: Final = re.compile(r"^\[[^\]]*\] | \(_ssl\.c:\d+\)$")
"""What OpenSSL and Python put around a sentence."""

_ACCESS: Final = (
    "give the user and the password that this server knows: redis://USER:PASSWORD@HOST, with special "
    "characters quoted (%40 for @); as the user's name leave default out"
)
_AUTHORITY: Final = (
    "give the certificate of the authority that signed it: ?ssl_ca_certs=/path/ca.pem at the end of the "
    "address (docs/how_to/failover.md, Addresses)"
)
_OWN_CERTIFICATE: Final = (
    "add ssl_certfile=/path/client.pem and ssl_keyfile=/path/client.key to the address, or set "
    "tls-auth-clients no on the server"
)
_CLUSTER: Final = (
    "write redis+cluster://HOST:PORT in place of redis://HOST:PORT (rediss+cluster:// for rediss://), and set "
    "KIQBRIDGE_NAMESPACE to a name in braces, such as {jobs}"
)
_READABLE: Final = (
    "check the files that ssl_ca_certs, ssl_certfile and ssl_keyfile of the address name"
)

_BY_TEXT: Final[tuple[tuple[str, str, str], ...]] = (
    (
        "WRONGPASS|invalid username-password",
        "the user or the password is wrong, or the user is disabled",
        _ACCESS,
    ),
    ("invalid password", "the password is wrong", _ACCESS),
    (
        "without any password configured",
        "the address has a password, and the server wants none",
        "leave the password out of the address, or set one on the server",
    ),
    (NO_LOGIN, "the server wants a password, and the address has none", _ACCESS),
    (
        "DB index is out of range",
        "the server has no database of the number at the end of the address",
        "write a smaller number, such as /0; servers have databases 0 to 15 unless configured otherwise",
    ),
    (
        "SELECT is not allowed in cluster mode",
        "a server in cluster mode has database 0 only",
        "write /0 at the end of the address",
    ),
    ("MOVED ", "it is a node of a cluster, and our keys lie on another one", _CLUSTER),
    (
        "cluster support disabled",
        "the server is not in cluster mode",
        "write redis:// in place of redis+cluster://, or rediss:// in place of rediss+cluster://",
    ),
    (
        r"no permissions to run the 'cluster\|shards' command",
        "this user may not ask the nodes of the cluster who owns the slot of our keys",
        "allow it +cluster|slots on all nodes, and what else docs/reference/security.md lists under In cluster mode",
    ),
    ("CERTIFICATE_REQUIRED", "the server wants a certificate of ours", _OWN_CERTIFICATE),
    (
        "Hostname mismatch|IP address mismatch",
        "the server's certificate is for another host name or address",
        "write the name in the address for which it was made, or ssl_check_hostname=false behind it",
    ),
    ("certificate has expired", "the server's certificate has expired", "renew it on the server"),
    ("CERTIFICATE_VERIFY_FAILED", "the server's certificate is not trusted", _AUTHORITY),
    (
        "WRONG_VERSION_NUMBER",
        "the server does not speak TLS at this port",
        "write redis:// instead of rediss://, or the server's TLS port",
    ),
    ("NO_CERTIFICATE_OR_CRL_FOUND", "a certificate file holds no certificate", _READABLE),
    ("KEY_VALUES_MISMATCH", "ssl_certfile and ssl_keyfile do not belong together", _READABLE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A cause that stays, and what to do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


PLAIN_TO_TLS: Final = Fault(
    what="the server speaks TLS at this port, and the address does not ask for it",
    remedy="write rediss:// instead of redis://",
)
TLS_TO_PLAIN: Final = Fault(
    what="the server does not speak TLS at this port",
    remedy="write redis:// instead of rediss://, or the server's TLS port",
)


def fault_of(error: BaseException, *, uses_tls: bool = False) -> Fault | None:
    """The lasting cause of an error; None where it may become right by itself, or is not known."""
    chain = list(_chain(error))[::-1]  # the innermost has the plainest text
    for cause in chain:
        text = f"{code_of(cause)} {cause}"
        for words, what, remedy in _BY_TEXT:
            if re.search(words, text):
                return Fault(what=f"{what} ({_detail(cause)})", remedy=remedy)
    for cause in chain:
        if isinstance(cause, FileNotFoundError | PermissionError) and uses_tls:
            return Fault(
                what=f"a certificate file cannot be read ({_detail(cause)})", remedy=_READABLE
            )
    return None


def probe(options: Mapping[str, Any], *, uses_tls: bool) -> Fault | None:
    """Look whether a server that did not answer uses the other one of TLS and plain text.

    Args:
        options: of the connection; without host and port nothing is known.
        uses_tls: whether the connection did.
    """
    host, port = options.get("host"), options.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    if not uses_tls:
        return PLAIN_TO_TLS if _asked(host, port, _speaks_tls) else None
    if _asked(host, port, _speaks_plain):
        return TLS_TO_PLAIN
    if not options.get("ssl_certfile") and _asked(host, port, _wants_certificate):
        return Fault(what="the server wants a certificate of ours", remedy=_OWN_CERTIFICATE)
    return None


def probe_nodes(
    places: Iterable[tuple[str, int]], options: Mapping[str, Any], *, uses_tls: bool
) -> Fault | None:
    """Look whether the nodes of a cluster use the other one of TLS and plain text; the first answer counts.

    Args:
        places: host and port of each; no further one is asked once `PROBE_NODES_S` seconds are over.
        options: of the connections.
        uses_tls: whether they are encrypted.
    """
    until = time.monotonic() + PROBE_NODES_S
    for host, port in places:
        fault = probe({**options, "host": host, "port": port}, uses_tls=uses_tls)
        if fault is not None:
            return Fault(what=fault.what, remedy=fault.remedy.replace("://", "+cluster://"))
        if time.monotonic() >= until:
            break
    return None


def _asked(host: str, port: int, ask: Callable[[socket.socket], bool]) -> bool:
    with suppress(OSError), socket.create_connection((host, port), PROBE_S) as connection:
        return ask(connection)
    return False


def _speaks_plain(connection: socket.socket) -> bool:
    connection.sendall(b"PING\r\n")
    return connection.recv(1) in (b"+", b"-")


def _speaks_tls(connection: socket.socket) -> bool:
    import ssl  # noqa: PLC0415 - OpenSSL is 5 MB

    try:
        with _wrapped(connection):
            return True
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):  # it hung up; which of both, OpenSSL decides
        return False
    except ssl.SSLError as error:
        return error.reason != "WRONG_VERSION_NUMBER"


def _wants_certificate(connection: socket.socket) -> bool:
    import ssl  # noqa: PLC0415 - OpenSSL is 5 MB

    try:
        with _wrapped(connection) as wrapped:
            wrapped.recv(1)  # the refusal comes after the handshake
    except ssl.SSLError as error:
        return "CERTIFICATE_REQUIRED" in str(error.reason)
    return False


def _wrapped(connection: socket.socket) -> "ssl.SSLSocket":
    import ssl  # noqa: PLC0415 - OpenSSL is 5 MB

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent over it
    return context.wrap_socket(connection)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _detail(error: BaseException) -> str:
    text = without_arguments(str(error)).rstrip(".")
    return _CODE.sub("", text)
