"""Who may do what, and the token without which no POST changes anything.

`gate` has verified before who makes the request, and that a POST comes from our own page.
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, Literal

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.errors import ConfigError
from kiqbridge.web.sessions import is_same

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")
"""The least first. A viewer looks; an operator acts on jobs; an admin also stops processes and clears queues."""
FIELD: Final = "csrf"
NEEDED_ROLE: Final = "needed_role"
"""Attribute of an endpoint: the role without which it does nothing."""

Handler = Callable[[Request, FormData], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def allows(role: Role, needed: Role) -> bool:
    """Whether a role may do what needs another."""
    return ROLES.index(role) >= ROLES.index(needed)


def least(one: Role, other: Role) -> Role:
    """The role of the two that may do less."""
    return min(one, other, key=ROLES.index)


def parse_role(value: object, source: str) -> Role:
    """A role by its name.

    Raises:
        ConfigError: there is none with this name; names the source.
    """
    for role in ROLES:
        if value == role:
            return role
    raise ConfigError(f"role: {value!r} is none of {', '.join(ROLES)} (from {source})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes a request, as far as that was verified.

    Attributes:
        name: as the audit log shows it.
        role: what they may do.
        way: how they were verified: `none`, `basic`, `session`, `token`, `iam`.
    """

    name: str
    role: Role
    way: str


@dataclass(frozen=True, slots=True)
class RoleRules:
    """Which role goes with a group, a claim's value or the ARN of an AWS identity.

    Attributes:
        globs: pairs of a role and a glob (`*` = any characters, `?` = one); a user who fits several has the highest role.
    """

    globs: tuple[tuple[Role, str], ...] = ()

    def role_of(self, values: Iterable[str]) -> Role | None:
        """The highest role that one of these values has; None = none of them has one."""
        given = list(values)
        fitting = [role for role, glob in self.globs for value in given if _fits(glob, value)]
        return max(fitting, key=ROLES.index, default=None)

    @classmethod
    def parse(cls, text: str, source: str) -> "RoleRules":
        """Rules out of `admin=GLOB viewer=GLOB`, with blanks or commas between them.

        Raises:
            ConfigError: a part is no such pair; names the source.
        """
        pairs = []
        for part in re.split(r"[\s,]+", text.strip()):
            if not part:
                continue
            name, equals, glob = part.partition("=")
            if not equals or not glob:
                raise ConfigError(
                    f"web_roles: {part!r} is not ROLE=GLOB (from {source}); write for example "
                    "admin=ops-leads,viewer=*"
                )
            pairs.append((parse_role(name, source), glob))
        return cls(tuple(pairs))


def values_of_claim(claims: Mapping[str, Any], name: str) -> list[str]:
    """The texts that a claim holds; `realm_access.roles` is a claim within a claim, unless one has that very name."""
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    if isinstance(found, str):
        return found.split() if " " in found else [found]
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _fits(glob: str, value: str) -> bool:
    """Letter by letter, but for the wildcards: fnmatch would also read `[` of an ARN's resource as one."""
    pattern = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in glob)
    return re.fullmatch(pattern, value, re.DOTALL) is not None


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
            if not is_same(form.get(FIELD), csrf_token(request)):
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
