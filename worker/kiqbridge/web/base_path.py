"""The path under which a proxy or a gateway shows the page, where nothing else says it to the application."""

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from kiqbridge.errors import ConfigError

_BASE: Final = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.~@:-]+)*")


class BasePath:
    """ASGI wrapper: the application is mounted under a path, whether the proxy takes it off or not.

    Args:
        app: what it serves.
        base: such as `/jobs`; empty = the root.

    Raises:
        ConfigError: it is no path that `parse_base_path` accepts.
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
        ConfigError: it is none. `..`, `.` and an empty part are none: browsers resolve them, so no link would fit.
    """
    base = text.removesuffix("/")
    if not _BASE.fullmatch(base):
        raise ConfigError(
            f"web_base_path: {text!r} is no path; write one such as /ops/jobs, of letters, digits and -_.~@:"
        )
    return base
