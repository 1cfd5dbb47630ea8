"""Serves the page with uvicorn, until a signal ends it."""

import contextlib
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kiqbridge.errors import ConfigError
from kiqbridge.web.app import create_app
from kiqbridge.web.middleware import LOOPBACK_HOSTS, below, is_loopback, parse_base_path
from kiqbridge.web.security import Security

END_WITHIN_S: Final = 3
"""What is being answered may end in this time."""
MOST_AT_ONCE: Final = 2000
"""Connections; others get 503."""
SILENT_S: Final = 10.0
"""A request must be whole within this time, and the reader of an answer take some of it."""


class Server(uvicorn.Server):
    """Uvicorn's, which says when it serves, and ends orderly at INT and TERM: as after an orderly end.

    Args:
        config: uvicorn's.
        on_ready: called once, when connections are accepted.
        on_end: called once, before it waits for what is being answered.
    """

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_end: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_end = on_end
        self._awaited: dict[H11Protocol, tuple[_State, float]] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, end the streams, wait for the other answers."""
        self._on_end()
        await super().shutdown(sockets=sockets)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; closes connections that wait for a silent client."""
        if counter % 10 == 0:
            self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        """Uvicorn bounds only the time between two requests: those that send nothing would use up all connections."""
        before, self._awaited = self._awaited, {}
        for each in list(self.server_state.connections):
            if not isinstance(each, H11Protocol) or (state := _awaited_state(each)) is None:
                continue
            known, since = before.get(each, (state, now))
            since = since if known == state else now
            if now - since < SILENT_S:
                self._awaited[each] = (state, since)
            else:
                each.transport.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Within, signals end the server; uvicorn itself would raise them again afterwards."""
        former = {
            each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for each, handler in former.items():
                signal.signal(each, handler)


_State = tuple[int, int]


def _awaited_state(connection: H11Protocol) -> _State | None:
    """What does not change while the server waits for the client: the request, the bytes of answers; None = it need not."""
    cycle, unread = connection.cycle, connection.transport.get_write_buffer_size()
    if unread or cycle is None or cycle.response_complete or cycle.more_body:
        return id(cycle), unread
    return None


def serve(
    host: str, port: int, security: Security, *, base_path: str, on_ready: Callable[[str], None]
) -> int:
    """Serve until INT or TERM; the exit code.

    Args:
        host: name or address of this machine.
        port: 0 = one that is free.
        security: what protects the page.
        base_path: under which a proxy shows it.
        on_ready: called with the page's address when it is served.

    Raises:
        ConfigError: it would be open to others without sign-in, or the port is in use.
    """
    require_sign_in(host, security)
    if security.hosts is None and is_loopback(host):
        security = replace(security, hosts=LOOPBACK_HOSTS)
    base = parse_base_path(base_path)
    page = create_app(security=security)
    app = below(base, page)
    with listen(host, port) as listener:
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        config = uvicorn.Config(
            app,
            http=H11Protocol,
            access_log=False,
            limit_concurrency=MOST_AT_ONCE,
            lifespan="off",
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=END_WITHIN_S,
            ws="none",
        )
        server = Server(
            config,
            lambda: on_ready(f"http://{shown}:{port}{base}/"),
            on_end=page.state.site.streams.end,
        )
        server.run(sockets=[listener])
    return 0 if server.started else 1


def require_sign_in(host: str, security: Security) -> None:
    """Refuse to be open to other machines.

    Raises:
        ConfigError: the host is not loopback, and no user would have to sign in; names what to set.
    """
    auth = security.auth
    if is_loopback(host) or auth.users or auth.tokens:
        return
    raise ConfigError(
        f"web_host: {host} is reached from other machines, and no user would have to sign in; set "
        "KIQBRIDGE_WEB_USERS_FILE (NAME:ROLE:HASH a line; `kiqbridge web --hash-password` makes a hash) or "
        "KIQBRIDGE_WEB_JWT_KEY, or listen on 127.0.0.1"
    )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        ConfigError: it cannot; says why.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        try:
            if sys.platform != "win32":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigError(
            f"web: nothing can listen on {host}, port {port}: {error.strerror or error}; choose "
            "another --port (0 = one that is free) or --host, or end what uses it"
        ) from error
    return listener
