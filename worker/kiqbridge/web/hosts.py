"""Which hosts the page answers for, and which proxies are believed.

A page on loopback without sign-in is within reach of every web site that the developer's browser shows: a name
of that site can be pointed to 127.0.0.1 (DNS rebinding). So the `Host` header must be a name of this machine.
"""

import ipaddress
import re
from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from kiqbridge.errors import ConfigError
from kiqbridge.web.plain_page import Refusal

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    address = _address_of(host.strip("[]"))
    return host == "localhost" or (address is not None and address.is_loopback)


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


class KnownHosts:
    """ASGI middleware: answers 421 for a `Host` that is not one of ours.

    Args:
        app: what it guards.
        hosts: names without a port; `*.example.com` stands for its subdomains. None = all.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str] | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or self._hosts is None or self._knows(scope):
            await self._app(scope, receive, send)
            return
        detail = (
            "This page is not served under that name; add it to KIQBRIDGE_WEB_HOSTS if it is yours."
        )
        await Refusal(421, "Unknown host", detail)(scope, receive, send)

    def _knows(self, scope: Scope) -> bool:
        names = Headers(scope=scope).getlist("host")
        found = _HOST.fullmatch(names[0]) if len(names) == 1 else None
        if found is None or self._hosts is None:
            return False
        host = found[1].lower().rstrip(".")
        above = host.partition(".")[2]
        return host in self._hosts or f"*.{above}" in self._hosts


class TrustedProxies:
    """ASGI middleware: takes the caller's address, scheme and host from a proxy, if its own address is trusted.

    Args:
        app: what it serves.
        networks: addresses or networks of proxies; without any no such header is read.
    """

    def __init__(self, app: ASGIApp, *, networks: Sequence[Network]) -> None:
        self._app = app
        self._networks = networks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        client = scope.get("client")
        if scope["type"] == "http" and client and self._trusts(client[0]):
            scope = self._seen_by_proxy(scope)
        await self._app(scope, receive, send)

    def _seen_by_proxy(self, scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        changed = dict(scope)
        chain = [each.strip() for each in headers.get("x-forwarded-for", "").split(",")]
        # From the right: what is further left was written by whoever is not trusted.
        caller = next((each for each in reversed(chain) if each and not self._trusts(each)), "")
        if _address_of(caller):
            changed["client"] = (caller, 0)
        scheme = headers.get("x-forwarded-proto", "").rpartition(",")[2].strip()
        if scheme in ("http", "https"):
            changed["scheme"] = scheme
        host = headers.get("x-forwarded-host", "").rpartition(",")[2].strip()
        if _HOST.fullmatch(host):
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            changed["headers"] = [*others, (b"host", host.encode())]
        return changed

    def _trusts(self, address: str) -> bool:
        found = _address_of(address)
        return found is not None and any(found in network for network in self._networks)


def parse_networks(names: Sequence[str], source: str) -> tuple[Network, ...]:
    """Networks out of addresses and networks such as 10.0.0.0/8.

    Raises:
        ConfigError: a text is neither; names the source.
    """
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name))
        except ValueError as error:
            raise ConfigError(
                f"web_proxies: {name!r} is no address and no network (from {source}); write for example 10.0.0.0/8"
            ) from error
    return tuple(found)
