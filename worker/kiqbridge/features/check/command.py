"""`kiqbridge check`: find what a template, its rules and mappings get wrong before they are deployed.

Reads template.yaml, the answers of samconfig.local.toml, the mappings of the enqueue function, kiqbridge.yml and the
jobs; asks neither AWS nor Redis. Exit code 1: something is wrong.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands import arguments
from kiqbridge.commands.output import answer
from kiqbridge.config.settings_file import queues_in, read_file
from kiqbridge.features.check.check import check_template
from kiqbridge.features.check.inputs import Application
from kiqbridge.features.check.view import View
from kiqbridge.schedule import ANSWERS, TEMPLATE
from kiqbridge.schedule.check import read_answers

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
