"""Headers that each answer carries, so that a browser refuses what this page never does."""

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kiqbridge.web.plain_page import inner_path

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
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


class SecurityHeaders:
    """ASGI middleware: adds the headers to each answer, errors included.

    Pages are kept by no cache. Style sheets and scripts hold no data, so browsers keep them for five minutes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                is_asset = inner_path(scope).startswith(ASSETS) and message["status"] < 400  # noqa: PLR2004 - errors begin there
                headers["Cache-Control"] = "max-age=300" if is_asset else "no-store"
                if scope.get("scheme") == "https":
                    headers["Strict-Transport-Security"] = TRANSPORT_SECURITY
            await send(message)

        await self._app(scope, receive, send_with_headers)
