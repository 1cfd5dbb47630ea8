"""The rule about what a user may do, tried without doing it (store/rights.py)."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from kiqbridge.api.rulebook import REDIS_CLI
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.store.rights import missing_of, needed

MOST_NAMED: Final = 12

_rule: Final = partial(Rule, area="redis")

RIGHTS: Final = _rule(
    id="rights",
    reports="commands and keys that the ACL of this user refuses and a worker (or who `--needs` names) needs",
    why="what needs them fails when it gets there, such as at the first retry",
    do="allow them in the ACL of this user (docs/reference/security.md)",
    command=REDIS_CLI + "ACL SETUSER USER +COMMAND",
)


def check_rights(system: System) -> Iterator[Finding]:
    """All commands of the roles that are asked for, queued and not run."""
    commands = dict.fromkeys(words for role in system.needs for words in needed(role, system.keys))
    connection = system.pool.raw_connection(protocol=2)
    try:
        connection.connect()  # type: ignore[no-untyped-call]
        missing = missing_of(connection, list(commands))
    finally:
        connection.disconnect()  # type: ignore[no-untyped-call]
    who = " and ".join(system.needs)
    lacks = [
        f"{what} {', '.join(names[:MOST_NAMED])}"
        + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
        for what, names in (
            ("may not run", missing.commands),
            ("may not use", missing.keys),
            ("finds no command", missing.unknown),
        )
        if names
    ]
    if lacks:
        yield RIGHTS.problem(
            f"this user {', and '.join(lacks)}, needed for: {who}",
            do=f"{missing.advice(system.pool.user)} (docs/reference/security.md)",
        )
    else:
        names = {words[0] for words in commands}
        yield RIGHTS.ok(f"this user may run the {len(names)} commands needed for: {who}")


CHECKS: Final[Checks] = (((RIGHTS,), check_rights),)
"""Rules, and the function that applies them."""
