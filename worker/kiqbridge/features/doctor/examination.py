"""All rules, applied: to a running system, and to a template, for which nothing of AWS is asked."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from kiqbridge import seams
from kiqbridge.api import Operator
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.api.wording import listed
from kiqbridge.errors import ConfigError, RedisRefused
from kiqbridge.features.doctor import (
    now,
    redis_data,
    redis_rights,
    redis_server,
    redis_state,
    template_rules,
    wire,
    worker,
)
from kiqbridge.features.doctor.finding import ALL, Selection
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.features.doctor.template_model import read_model
from kiqbridge.features.lint.rules import lint
from kiqbridge.schedule.cloudformation import DEFAULT_STACK_NAME
from kiqbridge.schedule.sourced import sourced_schedules
from kiqbridge.schedule.template import read_schedules
from kiqbridge.store.rights import Role


def _judged_by(feature: Any) -> tuple[tuple[Rule, ...], Callable[[System], Iterator[Finding]]]:
    """The rules of a feature, and what applies them (the seam `examines`)."""

    def check(system: System) -> Iterator[Finding]:
        facts = list(feature.examine(system.operator))
        for rule in feature.RULES:
            found = [rule.judged(fact) for fact in facts if fact.kind == rule.id]
            yield from found or [rule.ok(rule.well)]

    return tuple(feature.RULES), check


CHECKS: Final[Checks] = (
    *now.CHECKS,
    *redis_server.CHECKS,
    *redis_rights.CHECKS,
    *redis_state.CHECKS,
    *redis_data.CHECKS,
    *wire.CHECKS,
    *worker.CHECKS,
    *map(_judged_by, seams.functions("examines")),
)
"""Which rules a function applies to a running system, in the order in which findings are shown."""

_rule: Final = partial(Rule, area="template")

TEMPLATE: Final = _rule(
    id="template",
    reports="a template, or a schedule in it, that cannot be read; other rules look at what can be",
    why="it cannot be deployed, or a schedule never fires",
    do="correct the line; python -m kiqbridge.schedule.check names all of them",
    command="python -m kiqbridge.schedule.check template.yaml",
)
LOCAL_TIME: Final = _rule(
    id="local-time",
    reports="hours of the day in UTC because no zone is written; rules of the event bus (lint: KB104, KB105)",
    why="a job of a local time of day runs an hour too late or too early for half of the year",
    do="use Type: ScheduleV2 and write ScheduleExpressionTimezone, UTC if that is meant",
    command="kiqbridge schedule lint --template template.yaml",
)
NEVER: Final = _rule(
    id="never-fires",
    reports="schedules that never fire, or not any more (KB101, KB102 of kiqbridge schedule lint)",
    why="the job is not enqueued, and nothing fails",
    do="correct the expression or its end, or remove the schedule",
    command="kiqbridge schedule lint --template template.yaml",
)
_OF_CODES: Final = {"KB101": NEVER, "KB102": NEVER, "KB104": LOCAL_TIME, "KB105": LOCAL_TIME}

_RULES: Final = (
    *(rule for rules, _ in CHECKS for rule in rules),
    *(TEMPLATE, LOCAL_TIME, NEVER),
    *(rule for rules, _ in template_rules.CHECKS for rule in rules),
)
CATALOGUE: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _RULES}
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
            system.answers()
        found = _found(system, selection)
        return [each for each in found if selection.has(CATALOGUE[each.rule])]


def examine_template(
    path: Path, *, parameters: Mapping[str, str] | None = None, selection: Selection = ALL
) -> list[Finding]:
    """All findings about a template and those that it nests, also of rules that find nothing.

    Args:
        path: of the template.
        parameters: in place of their defaults.
        selection: which rules.
    """
    given = parameters or {}
    found = list(_schedules(path, given))
    try:
        model = read_model(path, given)
    except ConfigError as error:
        found = [TEMPLATE.problem(f"{path}: {error}")]
    else:
        found += [finding for _, check in template_rules.CHECKS for finding in check(model)]
    return [each for each in found if selection.has(CATALOGUE[each.rule])]


def _found(system: System, selection: Selection) -> Iterator[Finding]:
    for rules, check in CHECKS:
        if not any(map(selection.has, rules)):
            continue
        try:
            yield from list(check(system))
        except RedisRefused as error:
            yield rules[0].unknown(
                f"the server does not answer: {error}",
                why="what is not known may be wrong",
                do="give this command a user who may read it (docs/reference/security.md)",
            )


def _schedules(path: Path, parameters: Mapping[str, str]) -> Iterator[Finding]:
    try:
        text = path.read_text(encoding="utf-8")
        schedules = sourced_schedules(
            read_schedules(path, parameters, DEFAULT_STACK_NAME),
            text,
            source=path.name,
            stack_name=DEFAULT_STACK_NAME,
        )
    except (ConfigError, OSError, UnicodeDecodeError) as error:
        yield TEMPLATE.problem(listed(str(error).splitlines()))
        return
    yield TEMPLATE.ok(f"{path.name} can be read; it has {len(schedules)} schedules")
    findings = [each for each in lint(schedules, now=datetime.now(UTC)) if each.code in _OF_CODES]
    for each in findings:
        what = f"{each.place} {each.schedule}: {each.what}"
        yield _OF_CODES[each.code].warning(what, why=each.why, do=each.advice)
    for rule in (LOCAL_TIME, NEVER):
        if not any(_OF_CODES[each.code] is rule for each in findings):
            yield rule.ok(f"{len(schedules)} schedules")
