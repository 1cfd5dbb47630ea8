"""What a screen asks of the guard: who may do what, and the token without which no POST changes anything.

`gate` has verified before who makes the request, and that a POST comes from our own page.
"""

import hmac
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.web.roles import ROLES, Role, allows

__all__ = ["ROLES", "Role", "allows", "csrf_token", "require_role", "requires"]

FIELD: Final = "csrf"
NEEDED_ROLE: Final = "needed_role"
"""Attribute of an endpoint: the role without which it does nothing."""

Handler = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


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

        setattr(endpoint, NEEDED_ROLE, role)
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
