"""All commands, a line each: what they are called, what the list of them says, which module has them.

A module is imported only when its command is given: a worker's start, and its memory, carry no other command.
"""

import argparse
import importlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command.

    Attributes:
        name: the word for it.
        help: for the list of all commands.
        shared: the module of several commands, in `commands`; its `add_arguments` gets the name as well.
        module: that of one command, if it is not `commands.NAME_command`. A module has `add_arguments(parser)`, and
            `run(options)` unless its verbs have functions of their own.
        description: for its own help, in place of the first line and paragraph of the module's docstring.
        has_fleet: whether --fleet chooses where it looks, or what it serves.
    """

    name: str
    help: str
    shared: str = ""
    module: str = ""
    description: str = ""
    has_fleet: bool = True

    def load(self, parser: argparse.ArgumentParser) -> None:
        """Import its module, and give the parser its description and arguments."""
        own = f"{self.name.replace('-', '_')}_command"
        path = self.module or f"commands.{self.shared or own}"
        module = importlib.import_module(f"kiqbridge.{path}")
        parser.description = self.description or described(module.__doc__ or "")
        module.add_arguments(parser, *([self.name] if self.shared else []))
        run = getattr(module, "run", None)
        if run is not None:
            parser.set_defaults(command=run)


def described(docstring: str) -> str:
    """Its first line, without the command's name before the colon, and its first paragraph."""
    summary, *paragraphs = docstring.partition(": ")[2].split("\n\n")
    return " ".join([f"{summary[:1].upper()}{summary[1:]}", *paragraphs[:1]])


_JOBS: Final = "jobs_command"
_PAUSES: Final = "pause_command"
_PROCESSES: Final = "processes_command"
_TRANSFER: Final = "transfer_command"

GROUPS: Final[Mapping[str, Sequence[Entry]]] = {
    "run": (
        Entry("worker", "perform jobs"),
        Entry(
            "dev",
            "run server, schedules and worker on this machine",
            module="dev.command",
            has_fleet=False,
        ),
        Entry("web", "serve the Web UI"),
        Entry("health", "check whether the workers on this machine live", has_fleet=False),
        Entry("shell", "open a Python shell with the jobs and the API at hand"),
        Entry("enqueue", "enqueue a job, or what an AWS event asks for", has_fleet=False),
        Entry("check", "find what template, rules and mappings get wrong", has_fleet=False),
    ),
    "look at what goes on": (
        Entry("stats", "count jobs, queues and processes"),
        Entry("ps", "list the processes of Python and Ruby, and what runs in them", _PROCESSES),
        Entry("doctor", "find what is wrong with Redis, jobs and workers"),
        Entry("metrics", "show how often classes ran and failed, and how long they took"),
        Entry("alerts", "list and mute the alerts of the fleet"),
        Entry("audit", "list who did what"),
    ),
    "act on jobs, queues and processes": (
        Entry("job", "show one job; retry, move, kill or delete it"),
        Entry(
            "queue",
            "list and pause queues; show, move, kill and delete their jobs",
            _PAUSES,
            description="List and pause queues; show, move, kill and delete their jobs. A paused queue is served by "
            "none of our workers, nor by Ruby's with Sidekiq Pro; jobs can be pushed to it.",
        ),
        Entry("retries", "list, retry and delete jobs that failed and are due again", _JOBS),
        Entry("dead", "list, retry and delete jobs that have used up their retries", _JOBS),
        Entry("scheduled", "list, push, reschedule and delete jobs that are due later", _JOBS),
        Entry(
            "class",
            "pause and resume classes of jobs",
            _PAUSES,
            description="Pause classes of jobs, resume them, list the paused ones. Our workers put their jobs off, a "
            "minute each time; Ruby's workers run them.",
        ),
        Entry("limiter", "list limiters, and reset one"),
        Entry(
            "quiet",
            "let processes take no new jobs",
            _PROCESSES,
            description="Let processes of Python or Ruby take no new jobs, through Redis: each reads it at its next "
            "heartbeat. It cannot be undone.",
        ),
        Entry(
            "stop",
            "end processes",
            _PROCESSES,
            description="End processes of Python or Ruby, through Redis: each reads it at its next heartbeat, "
            "finishes its jobs as after TERM, and gives back what does not end in time.",
        ),
        Entry("recover", "give back the jobs that dead workers hold"),
        Entry("spill", "show, drain and replay what could not be enqueued", has_fleet=False),
        Entry(
            "export",
            "write queues and sets into a file",
            _TRANSFER,
            description="Write the jobs of queues and sets into a file, or through a pipe into kiqbridge restore. With "
            "--take they are removed once they are safely written, so that they move. After a kill the same command "
            "continues: nothing is lost, and nothing is there twice.",
        ),
        Entry(
            "restore",
            "put an export into queues and sets",
            _TRANSFER,
            description="Put what kiqbridge export wrote into the queues and sets of this Redis, behind what is there. "
            "How far it is, is kept there for 30 days: repeated, it puts in what is missing, nothing twice.",
        ),
    ),
    "schedules": (Entry("schedule", "list, check, simulate, pause, run and import schedules"),),
    "set up": (
        Entry("init", "write a new application: jobs, tests, image, template", has_fleet=False),
        Entry("contract", "compare and type the jobs that applications share", has_fleet=False),
        Entry("deploy-mark", "mark a deployment in the charts of the Web UI"),
        Entry("completion", "print the script that completes commands", has_fleet=False),
    ),
}
"""Heading in the list of all commands → the commands under it."""

COMMANDS: Final = tuple(entry for entries in GROUPS.values() for entry in entries)
