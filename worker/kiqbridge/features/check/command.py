"""`kiqbridge check`: find what a template, its rules and mappings get wrong before they are deployed.

Reads template.yaml, the answers of samconfig.local.toml, the mappings of the enqueue function, kiqbridge.yml and the
jobs; asks neither AWS nor Redis. Exit code 1: something is wrong.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands import arguments
from kiqbridge.commands.output import answer
from kiqbridge.config.settings_file import queues_in, read_file
from kiqbridge.errors import ConfigError
from kiqbridge.features.check.events import event_problems
from kiqbridge.features.check.inputs import Application, input_problems
from kiqbridge.features.check.rights import right_problems
from kiqbridge.features.mappings import declared
from kiqbridge.features.mappings.check import check as check_mappings
from kiqbridge.features.mappings.document import find, load
from kiqbridge.schedule import ANSWERS, TEMPLATE
from kiqbridge.schedule.check import allow_list_problems, read_answers
from kiqbridge.schedule.template import ENQUEUE_CODE_URI, TemplateSchedule, read_schedules
from kiqbridge.schedule.template_view import View
from kiqbridge.schedule.yaml_nodes import TemplateError, TemplateFault

_JOBS: Final = ("jobs", "worker/jobs")
"""Where they are, if nothing is said: in an app of `kiqbridge init`, and in the repository."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is read."""
    arguments.add(parser, "[TEMPLATE]", f"the SAM template ({TEMPLATE})", type=Path)
    text = f"answers to its parameters ({ANSWERS} beside it)"
    arguments.add(parser, "--answers SAMCONFIG", text, type=Path)
    arguments.add_require(parser)
    arguments.add_json(parser)
    arguments.add_example(parser, "kiqbridge check", "kiqbridge check template.yaml -r jobs")


def run(options: argparse.Namespace) -> int:
    """Print a line for each finding."""
    template = options.template or TEMPLATE
    answers = read_answers(options.answers or template.parent / ANSWERS, template)
    application = _application(template, answers, options.require)
    found = check_template(template, answers, application)
    lines = [f"error: {each}" for each in found] or [f"{template}: no findings"]
    answer(options, found, lines)
    return 1 if found else 0


def _application(template: Path, answers: Mapping[str, str], required: list[str]) -> Application:
    """The application beside the template.

    Raises:
        ConfigError: its settings or jobs cannot be read.
    """
    folder = template.parent
    targets = required or [str(folder / each) for each in _JOBS if (folder / each).is_dir()][:1]
    if targets:
        load_all(tuple(targets))
    settings: Mapping[str, object] | None = None
    path = folder / "kiqbridge.yml"
    if path.is_file():
        settings = read_file(path, os.environ)
    queues: Mapping[str, str] | None
    if settings is None:
        parameter = View(template, answers).parameter("WorkerQueues")
        queues = (
            None if parameter is None else queues_in({"queues": parameter.split()}, "WorkerQueues")
        )
    else:
        queues = queues_in(settings, str(path))
    return Application(
        registry=default_registry if targets else None,
        queues=None if queues is None else frozenset(queues),
        namespace=None if settings is None else str(settings.get("namespace") or ""),
    )


_S3: Final = "s3"


def check_template(path: Path, answers: Mapping[str, str], application: Application) -> list[str]:
    """A line for each finding: file, resource, what happens, what to do.

    Args:
        path: the template; the mappings are looked for in the function's folder beside it.
        answers: parameters of `make deploy`; others have their defaults.
        application: what the rules are held against.
    """
    found: list[str] = []
    schedules: list[TemplateSchedule] = []
    try:
        schedules = read_schedules(path, answers)
        found += map(str, allow_list_problems(schedules))
    except TemplateError as error:
        found += map(str, error.problems)
    try:
        view = View(path, answers)
        mapped, faults = _mappings(path.parent / ENQUEUE_CODE_URI, schedules)
        found += faults
        found += map(str, event_problems(view, mapped))
        found += map(str, right_problems(view))
        found += map(str, input_problems(view, schedules, application))
    except TemplateFault as fault:
        found.append(f"{path}:{fault.line}: {fault.text}")
    except ConfigError as error:
        found += str(error).splitlines()
    return list(dict.fromkeys(found))


def _mappings(
    folder: Path, schedules: Sequence[TemplateSchedule]
) -> tuple[frozenset[str] | None, list[str]]:
    """Which sources the function's mappings take, and what is wrong with them."""
    path = find(folder)
    document = None if path is None else load(path)
    if document is None:
        return frozenset(), []
    faults = check_mappings(document, folder, schedules)[1]
    if faults:
        return None, faults
    mappings = declared.read(document).mappings
    globs = [glob for each in mappings for glob in each.match.get("source", ("*",))]
    return frozenset({_S3} if any(fnmatchcase(_S3, glob) for glob in globs) else ()), []
