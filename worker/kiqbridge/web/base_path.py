"""The path under which a proxy or a gateway shows the page, where nothing else says it to the application."""

import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from kiqbridge.errors import ConfigError

_BASE: Final = re.compile(r"(/(?!\.{1,2}(/|$))[A-Za-z0-9_.~@:-]+)*")


class BasePath:
    """ASGI wrapper: the application is mounted under a path, whether the proxy takes it off or not.

    Args:
        app: what it serves.
        base: such as `/jobs`; empty = the root, or the stage of the gateway whose event it answers.

    Raises:
        ConfigError: it is no path that `parse_base_path` accepts.
    """

    def __init__(self, app: ASGIApp, base: str) -> None:
        self._app = app
        self._base = parse_base_path(base)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        base = self._base or base_of_event(scope.get("aws.event", {}))
        if scope["type"] in ("http", "websocket") and base:
            path = str(scope["path"])
            is_below = path == base or path.startswith(f"{base}/")
            scope = {**scope, "root_path": base, "path": path if is_below else base + path}
        await self._app(scope, receive, send)


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
