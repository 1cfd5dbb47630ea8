"""All commands, a line each: what they are called, what the list of them says, which module has them.

A module is imported only when its command is given: a worker's start, and its memory, carry no other command. Those of
features are looked for only where none of these is meant.
"""

import argparse
import importlib
from collections.abc import Mapping, Sequence
from typing import Final

from kiqbridge.feature import Verb
from kiqbridge.seams import verbs

_JOBS: Final = "commands.jobs_command"
_PAUSES: Final = "commands.pause_command"
_PROCESSES: Final = "commands.processes_command"

GROUPS: Final[Mapping[str, Sequence[Verb]]] = {
    "run": (
        Verb("worker", "perform jobs"),
        Verb("dev", "run server, schedules and worker on this machine", has_fleet=False),
        Verb("web", "serve the Web UI"),
        Verb("health", "check whether the workers on this machine are alive", has_fleet=False),
        Verb("shell", "open a Python shell with the jobs and the API"),
        Verb("enqueue", "enqueue a job, or the jobs of an AWS event", has_fleet=False),
    ),
    "look at what goes on": (
        Verb("stats", "count jobs, queues and processes"),
        Verb("ps", "list the processes of Python and Ruby and their jobs", _PROCESSES),
        Verb("metrics", "show how often classes ran and failed, and how long they took"),
        Verb("audit", "list the actions of operators"),
    ),
    "act on jobs, queues and processes": (
        Verb("job", "show one job; retry, move, kill or delete it"),
        Verb(
            "jobs",
            "delete, kill, move or retry jobs of all queues and sets",
            "commands.all_jobs_command",
        ),
        Verb("queue", "list and pause queues; show, move, kill and delete their jobs", _PAUSES),
        Verb("retries", "list, retry and delete jobs that failed and are due again", _JOBS),
        Verb("dead", "list, retry and delete jobs that have used up their retries", _JOBS),
        Verb("scheduled", "list, push, reschedule and delete jobs that are due later", _JOBS),
        Verb("class", "pause and resume classes of jobs", _PAUSES),
        Verb("quiet", "stop processes from taking new jobs", _PROCESSES),
        Verb("stop", "end processes", _PROCESSES),
        Verb("recover", "give back the jobs that dead workers hold"),
    ),
    "schedules": (Verb("schedule", "list, check, simulate, pause, run and import schedules"),),
    "set up": (
        Verb("init", "write a new application: jobs, tests, image, template", has_fleet=False),
        Verb("completion", "print the script that completes commands", has_fleet=False),
    ),
}
"""Heading in the list of all commands → the commands under it."""


def groups(named: str) -> Mapping[str, Sequence[Verb]]:
    """The commands by their headings; those of features too, unless `named` is one of the commands above."""
    if any(verb.name == named for group in GROUPS.values() for verb in group):
        return GROUPS
    brought = list(verbs())
    return {
        title: [*own, *(verb for verb in brought if verb.group == title)]
        for title, own in GROUPS.items()
    }


def load(verb: Verb, parser: argparse.ArgumentParser, *, is_shared: bool) -> None:
    """Import the module of a command, and give the parser its description and arguments.

    Args:
        verb: the command.
        parser: of it.
        is_shared: its module serves other commands, too.
    """
    own = f"commands.{verb.name.replace('-', '_')}_command"
    module = importlib.import_module(f"kiqbridge.{verb.module or own}")
    parser.description = described(module.__doc__ or "")
    module.add_arguments(parser, *([verb.name] if is_shared else []))
    if (run := getattr(module, "run", None)) is not None:
        parser.set_defaults(command=run)
    elif (run := parser.get_default("command")) is not None:
        parser.description = described(run.__doc__ or "")


def described(docstring: str) -> str:
    """Its first line, without the command's name before the colon, and its first paragraph."""
    text = docstring.partition(": ")[2] if docstring.startswith("`") else docstring
    summary, *paragraphs = text.split("\n\n")
    return " ".join([f"{summary[:1].upper()}{summary[1:]}", *paragraphs[:1]])
