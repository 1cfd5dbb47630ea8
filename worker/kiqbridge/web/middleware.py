"""ASGI middlewares, each a function that serves one HTTP request: paths, hosts, headers, sizes, faults.

A page on loopback without sign-in is within reach of every web site that the developer's browser shows: a name
of that site can be pointed to 127.0.0.1 (DNS rebinding). So the `Host` header must be a name of this machine.
"""

import ipaddress
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.errors import ConfigError
from kiqbridge.web.plain_page import Refusal, inner_path

logger: Final = logging.getLogger(__name__)

Serve = Callable[[ASGIApp, Scope, Receive, Send], Awaitable[None]]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")
CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
FEATURES: Final = (
    "accelerometer camera display-capture geolocation gyroscope microphone midi payment usb"
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": ", ".join(f"{each}=()" for each in FEATURES.split()),
    # With `no-referrer` browsers send `Origin: null` with a form, also to its own server.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
TRANSPORT_SECURITY: Final = "max-age=31536000"
"""A year. Not for subdomains: they are not ours."""
ASSETS: Final = "/static/"
_HOST: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_BASE: Final = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.~@:-]+)*")


class Layer:
    """A middleware: it serves HTTP requests, and lets all else pass.

    Args:
        app: what it guards.
        serve: serves one request, by `app` or by itself.
    """

    def __init__(self, app: ASGIApp, serve: Serve) -> None:
        self._app = app
        self._serve = serve

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            await self._serve(self._app, scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def security_headers(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Add the headers to each answer, errors included, so that a browser refuses what this page never does.

    Pages are kept by no cache. Style sheets and scripts hold no data, so browsers keep them for five minutes.
    """

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            is_asset = inner_path(scope).startswith(ASSETS) and message["status"] < 400  # noqa: PLR2004 - errors begin there
            headers["Cache-Control"] = "max-age=300" if is_asset else "no-store"
            if scope.get("scheme") == "https":
                headers["Strict-Transport-Security"] = TRANSPORT_SECURITY
        await send(message)

    await app(scope, receive, send_with_headers)


async def faults(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Log what the application raises, with an id, and answer 500 with the same id; 413 where `body_limit` ended it."""
    has_begun = False

    async def watch(message: Message) -> None:
        nonlocal has_begun
        has_begun = True
        await send(message)

    try:
        await app(scope, receive, watch)
    except Exception as error:  # whatever it is: the log has it, and the server goes on
        if isinstance(error, TooLargeError) and not has_begun:
            await Refusal(413, "Too large", str(error))(scope, receive, send)
            return
        fault = secrets.token_hex(6)
        logger.exception("web: fault %s at %s %r", fault, scope["method"], inner_path(scope)[:200])
        if has_begun:
            raise
        detail = f"This is a fault of the page, not of your request. The log of its server has the reason, at fault {fault}."
        await Refusal(500, "An error of this page", detail)(scope, receive, send)


class TooLargeError(Exception):
    """The body is larger than it may be; says how large that is."""


def body_limit(most: int) -> Serve:
    """End a request whose body has more bytes, by its length or as it comes; `faults` answers it."""
    too_large = f"A request may have {most:,} bytes (KIQBRIDGE_WEB_MAX_BODY_BYTES)."

    async def serve(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        declared = Headers(scope=scope).get("content-length", "0")
        if not declared.isascii() or not declared.isdigit() or int(declared[:20]) > most:
            raise TooLargeError(too_large)
        size = 0

        async def count() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise TooLargeError(too_large)
            return message

        await app(scope, count, send)

    return serve


def known_hosts(hosts: Sequence[str] | None) -> Serve:
    """Answer 421 for a `Host` that is not one of ours.

    Args:
        hosts: names without a port; `*.example.com` stands for its subdomains. None = all.
    """
    ours = {host.lower() for host in hosts or ()}

    async def serve(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        names = Headers(scope=scope).getlist("host")
        found = _HOST.fullmatch(names[0]) if len(names) == 1 else None
        host = found[1].lower().rstrip(".") if found else ""
        if hosts is not None and not {host, f"*.{host.partition('.')[2]}"} & ours:
            detail = "This page is not served under that name; add it to KIQBRIDGE_WEB_HOSTS if it is yours."
            app = Refusal(421, "Unknown host", detail)
        await app(scope, receive, send)

    return serve


def trusted_proxies(networks: Sequence[Network]) -> Serve:
    """Take the caller's address, scheme and host from a proxy, if its own address is trusted.

    Args:
        networks: addresses or networks of proxies; without any no such header is read.
    """

    def trusts(address: str) -> bool:
        found = _address_of(address)
        return found is not None and any(found in network for network in networks)

    def seen_by_proxy(scope: Scope) -> Scope:
        headers = Headers(scope=scope)
        changed = dict(scope)
        # From the right: what is further left was written by a host that is not trusted.
        chain = _from_the_right(headers, "x-forwarded-for")
        hop = next((at for at, each in enumerate(chain) if each and not trusts(each)), None)
        if hop is not None and _address_of(chain[hop]):
            changed["client"] = (chain[hop], 0)

        def at_same_hop(name: str) -> str:
            """What the proxy wrote that the caller reached; a proxy that writes no list leaves one value."""
            values = _from_the_right(headers, name)
            return values[min(hop or 0, len(values) - 1)]

        scheme = at_same_hop("x-forwarded-proto")
        if scheme in ("http", "https"):
            changed["scheme"] = scheme
        host = at_same_hop("x-forwarded-host")
        if _HOST.fullmatch(host):
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            changed["headers"] = [*others, (b"host", host.encode())]
        return changed

    async def serve(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        await app(seen_by_proxy(scope) if client and trusts(client[0]) else scope, receive, send)

    return serve


def _from_the_right(headers: Headers, name: str) -> list[str]:
    """The values of a header that each proxy adds to, the nearest one's first; at least one, which may be empty."""
    values = ",".join(headers.getlist(name)).split(",")
    return [each.strip() for each in reversed(values)]


def below(base: str, app: ASGIApp) -> Layer:
    """The application under the path at which a proxy or a gateway shows it, whether that takes the path off or not.

    Args:
        base: such as `/jobs`; empty = the root, or the stage of the gateway whose event it answers.
        app: what it serves.

    Raises:
        ConfigError: it is no path that `parse_base_path` accepts.
    """
    own = parse_base_path(base)

    async def serve(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        root = own or base_of_event(scope.get("aws.event", {}))
        if root:
            path = str(scope["path"])
            is_below = path == root or path.startswith(f"{root}/")
            scope = {**scope, "root_path": root, "path": path if is_below else root + path}
        await app(scope, receive, send)

    return Layer(app, serve)


def base_of_event(event: Mapping[str, Any]) -> str:
    """The path of the gateway's stage, which its callers see and the function need not; empty = none."""
    context = event.get("requestContext") or {}
    if event.get("version") == "2.0":
        stage = f"/{context.get('stage', '')}"
        path = str(event.get("rawPath", ""))
        return stage if stage != "/" and (path == stage or path.startswith(f"{stage}/")) else ""
    outer, inner = str(context.get("path", "")), str(event.get("path", ""))
    return outer.removesuffix(inner).rstrip("/") if outer.endswith(inner) else ""


def parse_base_path(text: str) -> str:
    """A base path without a slash at its end.

    Raises:
        ConfigError: it is none. `..`, `.` and an empty part are none: browsers resolve them, so no link would fit.
    """
    base = text.removesuffix("/")
    if not _BASE.fullmatch(base):
        raise ConfigError(
            f"web_base_path: {text!r} is no path; write one such as /ops/jobs, of letters, digits and -_.~@:"
        )
    return base


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens on a host."""
    address = _address_of(host.strip("[]"))
    return host == "localhost" or (address is not None and address.is_loopback)


def _address_of(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


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
