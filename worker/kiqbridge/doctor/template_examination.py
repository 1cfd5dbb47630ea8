"""All rules that look at a template, applied; nothing of AWS is asked."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from kiqbridge.doctor.finding import ALL, Finding, Rule, Selection, listed
from kiqbridge.doctor.template_model import read_model
from kiqbridge.doctor.template_rules import CHECKS
from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definitions_of_template import sourced_schedules
from kiqbridge.schedule.lint.rules import lint
from kiqbridge.schedule.template import DEFAULT_STACK_NAME, read_schedules

_rule: Final = partial(Rule, area="template")

TEMPLATE: Final = _rule(
    id="template",
    reports="a template, or a schedule in it, that cannot be read; other rules look at what can be",
    why="it cannot be deployed, or a schedule never fires",
    action="correct the line; python -m kiqbridge.schedule.check names all of them",
)
LOCAL_TIME: Final = _rule(
    id="local-time",
    reports="schedules at hours of the day in UTC because no zone is written, while others have one; rules of the "
    "event bus, which know UTC only (KB104, KB105 of kiqbridge schedule lint)",
    why="a job of a local time of day runs an hour too late or too early for half of the year",
    action="use Type: ScheduleV2 and write ScheduleExpressionTimezone, UTC if that is meant",
)
NEVER: Final = _rule(
    id="never-fires",
    reports="schedules that never fire, or not any more (KB101, KB102 of kiqbridge schedule lint)",
    why="the job is not enqueued, and nothing fails",
    action="correct the expression or its end, or remove the schedule",
)
RULES: Final[Sequence[Rule]] = (
    TEMPLATE,
    LOCAL_TIME,
    NEVER,
    *(rule for rules, _ in CHECKS for rule in rules),
)
_OF_CODES: Final[Mapping[str, Rule]] = {
    "KB101": NEVER,
    "KB102": NEVER,
    "KB104": LOCAL_TIME,
    "KB105": LOCAL_TIME,
}


def examine_template(
    path: Path,
    *,
    parameters: Mapping[str, str] | None = None,
    selection: Selection = ALL,
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
        found += [finding for _, check in CHECKS for finding in check(model)]
    ids = {rule.id for rule in RULES if selection.has(rule)}
    return [finding for finding in found if finding.rule in ids]


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
        rule = _OF_CODES[each.code]
        yield rule.warning(
            f"{each.place} {each.schedule}: {each.what}", why=each.why, action=each.advice
        )
    for rule in (LOCAL_TIME, NEVER):
        if not any(_OF_CODES[each.code] is rule for each in findings):
            yield rule.ok(f"{len(schedules)} schedules")
