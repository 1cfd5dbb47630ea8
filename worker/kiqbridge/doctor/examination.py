"""All rules that look at a running system, applied."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kiqbridge.api import Operator
from kiqbridge.doctor import (
    now,
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
from kiqbridge.doctor.finding import ALL, Finding, Rule, Selection
from kiqbridge.doctor.redis_rights import Role
from kiqbridge.doctor.system import System
from kiqbridge.doctor.template_examination import RULES
from kiqbridge.errors import RedisRefused

Check = Callable[[System], Iterable[Finding]]

CHECKS: Final[Sequence[tuple[Sequence[Rule], Check]]] = (
    *now.CHECKS,
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

CATALOGUE: Final[Mapping[str, Rule]] = {
    rule.id: rule for rule in (*(rule for rules, _ in CHECKS for rule in rules), *RULES)
}
"""All rules by id."""


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
        operator: which Redis, and namespace.
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
