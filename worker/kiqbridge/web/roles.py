"""What callers may do, and which role an identity from elsewhere has."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kiqbridge.errors import ConfigError

Role = Literal["viewer", "operator", "admin"]
ROLES: Final[tuple[Role, ...]] = ("viewer", "operator", "admin")
"""The least first. A viewer looks; an operator acts on jobs; an admin also stops processes and clears queues."""


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
        globs: pairs of a role and a glob (`*` = any characters, `?` = one); whoever fits several has the highest.
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
