"""The check of a template's schedules: `python -m kiqbridge.schedule.check template.yaml`.

It prints the schedules with their next firing, or every problem, and compares the jobs of the Inputs with
the allow-lists of the enqueue function.
"""

import argparse
import sys
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.template import (
    DEFAULT_STACK_NAME,
    Problem,
    TemplateError,
    TemplateSchedule,
    read_schedules,
)


def main(arguments: Sequence[str] | None = None, *, now: datetime | None = None) -> int:
    """Print a template's schedules, or its problems; the exit code is 0 or 1."""
    parser = argparse.ArgumentParser(
        prog="python -m kiqbridge.schedule.check", description=main.__doc__
    )
    parser.add_argument("template", type=Path, nargs="?", default=Path("template.yaml"))
    parser.add_argument("--stack-name", default=DEFAULT_STACK_NAME)
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    parameters = dict(item.partition("=")[::2] for item in options.parameter)
    try:
        schedules = read_schedules(options.template, parameters, options.stack_name)
        problems: Sequence[Problem] = allow_list_problems(schedules)
    except TemplateError as error:
        problems = error.problems
    if problems:
        sys.stdout.writelines(f"error: {problem}\n" for problem in problems)
        return 1
    sys.stdout.writelines(_line(schedule, now or datetime.now(UTC)) for schedule in schedules)
    return 0


def _line(schedule: TemplateSchedule, now: datetime) -> str:
    following = _following(schedule, now) if schedule.enabled else "disabled"
    return f"{schedule.where}  {schedule.expression_text}  {schedule.timezone}  {following}\n"


def _following(schedule: TemplateSchedule, now: datetime) -> str:
    try:
        firing = schedule.expression.next_after(now)
    except ExpressionError:
        return "counts from its deployment"  # a rate without a StartDate
    if firing is None:
        return "never fires again"
    local = firing.astimezone(zoneinfo.ZoneInfo(schedule.timezone))
    return f"next {local:%a %Y-%m-%d %H:%M %Z} = {firing:%Y-%m-%d %H:%M} UTC"


def allow_list_problems(schedules: Sequence[TemplateSchedule]) -> list[Problem]:
    """The jobs that the enqueue function would refuse with the allow-lists of the template."""
    problems = []
    for schedule in schedules:
        for job in schedule.jobs:
            for variable, value in (
                ("KIQBRIDGE_ALLOWED_CLASSES", job.get("class", job.get("active_job"))),
                ("KIQBRIDGE_ALLOWED_QUEUES", job.get("queue", "default")),
            ):
                globs = schedule.environment.get(variable)
                if globs is None or _allowed(value, globs):
                    continue
                text = f"{value!r} is not allowed by {variable}={globs!r}: add it there"
                problems.append(Problem(schedule.path, schedule.line, schedule.where, text))
    return problems


def _allowed(value: Any, globs: str) -> bool:
    return any(fnmatchcase(str(value), glob.strip()) for glob in globs.split(",") if glob.strip())


if __name__ == "__main__":
    sys.exit(main())
