"""The check of a template's schedules: `python -m kiqbridge.schedule.check template.yaml`.

It prints the schedules with their next firing, or every problem, and compares the jobs of the Inputs with
the allow-lists of the enqueue function. With `--answers` it does so with the parameters that `make deploy`
remembers, which may be older than the rules.
"""

import argparse
import shlex
import sys
import tomllib
import zoneinfo
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from kiqbridge.schedule import TEMPLATE
from kiqbridge.schedule.cloudformation import DEFAULT_STACK_NAME, Template
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.template import TemplateSchedule, read_schedules
from kiqbridge.schedule.yaml_nodes import Problem, TemplateError


def main(arguments: Sequence[str] | None = None, *, now: datetime | None = None) -> int:
    """Print a template's schedules, or its problems; the exit code is 0 or 1."""
    parser = argparse.ArgumentParser(
        prog="python -m kiqbridge.schedule.check", description=main.__doc__
    )
    parser.add_argument("template", type=Path, nargs="?", default=TEMPLATE)
    parser.add_argument("--stack-name", default=DEFAULT_STACK_NAME)
    parser.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument(
        "--answers", type=Path, metavar="SAMCONFIG", help="parameters of `make deploy`"
    )
    options = parser.parse_args(arguments)
    parameters = dict(item.partition("=")[::2] for item in options.parameter)
    try:
        if options.answers is not None:
            parameters = read_answers(options.answers, options.template) | parameters
        schedules = read_schedules(options.template, parameters, options.stack_name)
        problems: Sequence[Problem] = allow_list_problems(schedules)
    except TemplateError as error:
        problems = error.problems
    if problems:
        sys.stdout.writelines(f"error: {problem}\n" for problem in problems)
        return 1
    sys.stdout.writelines(_line(schedule, now or datetime.now(UTC)) for schedule in schedules)
    return 0


def read_answers(path: Path, template: Path) -> dict[str, str]:
    """The template's parameters in a configuration file of SAM, as `sam deploy` takes them.

    None if there is no such file yet. Answers to parameters that the template has no longer are left out,
    as SAM does.

    Raises:
        TemplateError: the file cannot be read.
    """
    if not path.exists():
        return {}
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8"))
        deploy = written.get("default", {}).get("deploy", {}).get("parameters", {})
        given = deploy.get("parameter_overrides", [])
        words = shlex.split(given) if isinstance(given, str) else list(given)
    except (ValueError, OSError) as error:
        fault = Problem(path, 1, "", f"it cannot be read: {error}; run make deploy ARGS=--guided")
        raise TemplateError([fault]) from error
    answers = dict(word.partition("=")[::2] for word in words)
    declared = Template(template).section("Parameters")
    return {name: value for name, value in answers.items() if name in declared}


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


_PARAMETERS: Final = {
    "KIQBRIDGE_ALLOWED_CLASSES": "AllowedClasses",
    "KIQBRIDGE_ALLOWED_QUEUES": "AllowedQueues",
}


def allow_list_problems(schedules: Sequence[TemplateSchedule]) -> list[Problem]:
    """The jobs that the enqueue function would refuse with the allow-lists of the template."""
    problems = []
    for schedule in schedules:
        for job in schedule.jobs:
            for variable, value in (
                ("KIQBRIDGE_ALLOWED_CLASSES", job.get("class", job.get("active_job"))),
                ("KIQBRIDGE_ALLOWED_QUEUES", job.get("queue", "default")),
            ):
                globs = schedule.function.environment.get(variable)
                if globs is None or _allowed(value, globs):
                    continue
                text = (
                    f"{value!r} is not allowed by {variable}={globs!r}, so every tick would be refused: add it "
                    f"to that list in the function's Environment, or to the parameter {_PARAMETERS[variable]}"
                )
                problems.append(Problem(schedule.path, schedule.line, schedule.where, text))
    return problems


def _allowed(value: Any, globs: str) -> bool:
    return any(fnmatchcase(str(value), glob.strip()) for glob in globs.split(",") if glob.strip())


if __name__ == "__main__":
    sys.exit(main())
