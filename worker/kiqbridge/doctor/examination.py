"""All rules that look at a running system, applied."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kiqbridge.api import Operator
from kiqbridge.doctor import (
    redis_data,
    redis_rights,
    redis_server,
    redis_speed,
    redis_state,
    wire_jobs,
    wire_places,
    worker_fleet,
    worker_settings,
)
from kiqbridge.doctor.finding import Area, Finding, Rule
from kiqbridge.doctor.redis_rights import Role
from kiqbridge.doctor.system import System
from kiqbridge.errors import RedisRefused

Check = Callable[[System], Iterable[Finding]]

CHECKS: Final[Sequence[tuple[Sequence[Rule], Check]]] = (
    *redis_server.CHECKS,
    *redis_rights.CHECKS,
    *redis_state.CHECKS,
    *redis_speed.CHECKS,
    *redis_data.CHECKS,
    *wire_jobs.CHECKS,
    *wire_places.CHECKS,
    *worker_fleet.CHECKS,
    *worker_settings.CHECKS,
)
"""Which rules a function applies, in the order in which findings are shown."""

CATALOGUE: Final[Mapping[str, Rule]] = {rule.id: rule for rules, _ in CHECKS for rule in rules}
"""All rules by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rules are applied.

    Attributes:
        areas: those of these areas; empty = of all.
        rules: those with these ids; empty = all.
        ignored: none of these.
    """

    areas: Sequence[Area] = ()
    rules: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def has(self, rule: Rule) -> bool:
        """Whether a rule is applied."""
        return (
            (not self.areas or rule.area in self.areas)
            and (not self.rules or rule.id in self.rules)
            and rule.id not in self.ignored
        )


ALL: Final = Selection()


def examine(
    operator: Operator,
    *,
    environ: Mapping[str, str] | None = None,
    selection: Selection = ALL,
    needs: Sequence[Role] = ("worker",),
    stop_timeout_s: float | None = None,
) -> list[Finding]:
    """All findings about a server, the jobs in it and the workers at it, also of rules that find nothing.

    Args:
        operator: which Redis and namespace.
        environ: the environment of a worker, for rules about its settings; default none.
        selection: which rules.
        needs: whose rights the user of this connection must have.
        stop_timeout_s: seconds after which the orchestrator kills a worker that is to stop; None = not known.

    Raises:
        RedisUnavailable: it cannot be reached, or refuses us.
    """
    with System(operator, environ or {}, needs, stop_timeout_s) as system:
        with contextlib.suppress(RedisRefused):  # which its own rule reports
            system.connection.call("PING")
        return [
            finding
            for rules, check in CHECKS
            if any(selection.has(rule) for rule in rules)
            for finding in _checked(rules, check, system)
            if selection.has(CATALOGUE[finding.rule])
        ]


def _checked(rules: Sequence[Rule], check: Check, system: System) -> Iterator[Finding]:
    try:
        yield from list(check(system))
    except RedisRefused as error:
        yield rules[0].unknown(
            f"the server does not answer: {error}",
            why="what is not known may be wrong",
            action="give this command a user who may read it (docs/security.md)",
        )
