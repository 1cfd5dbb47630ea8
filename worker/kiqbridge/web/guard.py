"""Who may do what: roles, and the token without which no POST changes anything."""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final, Literal

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")
COOKIE: Final = "kiqbridge_csrf"
FIELD: Final = "csrf"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Handler = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


class Guard:
    """ASGI middleware: gives each request its role, its user and a seed of tokens, each response its headers.

    Args:
        app: what it guards.
        role: of everybody.
        by: who acts, as the audit log shows it.
    """

    def __init__(self, app: ASGIApp, *, role: Role, by: str) -> None:
        self._app = app
        self._role = role
        self._by = by
        self._key = secrets.token_bytes(32)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        known = HTTPConnection(scope).cookies.get(COOKIE)
        seed = known or secrets.token_urlsafe(24)
        token = hmac.new(self._key, seed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()
        scope.setdefault("state", {}).update(role=self._role, by=self._by, csrf=token)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if known is None:
                    path = scope.get("root_path") or "/"
                    headers.append(
                        "Set-Cookie", f"{COOKIE}={seed}; HttpOnly; SameSite=Strict; Path={path}"
                    )
            await send(message)

        await self._app(scope, receive, send_with_headers)


def allows(role: Role, needed: Role) -> bool:
    """Whether a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(needed)


def csrf_token(request: Request) -> str:
    """The token that each form carries in the field `csrf`."""
    return str(request.state.csrf)


def requires(role: Role) -> Callable[[Handler], Endpoint]:
    """Make an endpoint of what handles a POST: it is called with the form, on a thread, if role and token fit."""

    def decorate(handler: Handler) -> Endpoint:
        @wraps(handler)
        async def endpoint(request: Request) -> Response:
            require_role(request, role)
            form = await request.form()
            given = form.get(FIELD)
            if not isinstance(given, str) or not hmac.compare_digest(
                given.encode("utf-8", "replace"), csrf_token(request).encode()
            ):
                raise HTTPException(
                    403, "The form has expired: go back, load the page again, and repeat it."
                )
            return await run_in_threadpool(handler, request, form)

        return endpoint

    return decorate


def require_role(request: Request, role: Role) -> None:
    """Refuse who may not.

    Raises:
        HTTPException: 403, with the role that is needed.
    """
    if not allows(request.state.role, role):
        raise HTTPException(
            403, f"This needs the role {role}; you have the role {request.state.role}."
        )
