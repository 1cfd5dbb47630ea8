"""The path under which a proxy or a gateway shows the page, where nothing else says it to the application."""

from starlette.types import ASGIApp, Receive, Scope, Send

from kiqbridge.errors import ConfigError


class BasePath:
    """ASGI wrapper: the application is mounted under a path, whether the proxy takes it off or not.

    Args:
        app: what it serves.
        base: such as `/jobs`; empty = the root.

    Raises:
        ConfigError: it does not begin with a slash, or has characters that no path has.
    """

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = parse_base_path(base)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] in ("http", "websocket") and self._base:
            scope = at_base(scope, self._base)
        await self._app(scope, receive, send)


def at_base(scope: Scope, base: str) -> Scope:
    """The same request, below a base path."""
    path = str(scope["path"])
    if path != base and not path.startswith(f"{base}/"):
        path = base + path
    return {**scope, "root_path": base, "path": path}


def parse_base_path(text: str) -> str:
    """A base path without a slash at its end.

    Raises:
        ConfigError: it is none.
    """
    base = text.rstrip("/")
    if base and (not base.startswith("/") or base.startswith("//") or set(base) & set(' "<>?#\\%')):
        raise ConfigError(f"web_base_path: {text!r} is no path; write one such as /jobs")
    return base
