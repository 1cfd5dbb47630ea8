"""Pages that need no template and no Redis: refusals before a request reaches a screen, and the sign-in form."""

import json
import logging
import secrets
from collections.abc import Mapping
from html import escape
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger: Final = logging.getLogger(__name__)

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>{title} · Kiqbridge</title>
<link rel="stylesheet" href="{base}/static/kiqbridge.css">
<link rel="icon" type="image/svg+xml" href="{base}/static/kiqbridge.svg">
</head>
<body class="plain">
<main id="main" tabindex="-1">
<h1>{title}</h1>
{content}
</main>
</body>
</html>
"""


class Refusal:
    """The answer to a request that goes no further: a page for browsers, JSON for programs.

    Args:
        status: of HTTP.
        title: two or three words.
        detail: what is wrong and what to do, in sentences.
        headers: further ones.
    """

    def __init__(
        self, status: int, title: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._status = status
        self._title = title
        self._detail = detail
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        if wants_html(scope):
            text = plain_page(scope, self._title, f"<p>{escape(self._detail)}</p>")
            kind = "text/html"
        else:
            text = json.dumps({"error": self._title, "detail": self._detail})
            kind = "application/json"
        answer = Response(text, self._status, self._headers, media_type=kind)
        await answer(scope, receive, send)


class Faults:
    """ASGI middleware: logs what the application raises, with an id, and answers 500 with the same id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception:  # whatever it is: the log has it, and the server goes on
            fault = secrets.token_hex(6)
            logger.exception(
                "web: fault %s at %s %r", fault, scope["method"], inner_path(scope)[:200]
            )
            if has_begun:
                raise
            detail = f"This is a fault of the page, not of your request. The log of its server has the reason, at fault {fault}."
            await Refusal(500, "An error of this page", detail)(scope, receive, send)


def plain_page(scope: Scope, title: str, content: str) -> str:
    """A page; the title is escaped here, the content is HTML."""
    return _PAGE.format(
        title=escape(title), content=content, base=escape(base_of(scope), quote=True)
    )


def wants_html(scope: Scope) -> bool:
    """Whether a browser asks for a page."""
    return "text/html" in Headers(scope=scope).get("accept", "")


def base_of(scope: Scope) -> str:
    """The path under which the application is mounted, without a slash at its end."""
    return str(scope.get("root_path", "")).rstrip("/")


def inner_path(scope: Scope) -> str:
    """The path from the application's own root."""
    path, base = str(scope["path"]), base_of(scope)
    if path != base and not path.startswith(f"{base}/"):
        return path  # a server that takes the base off itself
    return path[len(base) :] or "/"
