"""All commands, a line each: what they are called, what their help says, which module has them.

A module is imported only when its command is given: a worker's start, and its memory, carry no other command.
"""

import argparse
import importlib
from collections.abc import Mapping, Sequence
from typing import Final

from kiqbridge.commands.arguments import add_example
from kiqbridge.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A command.

    Attributes:
        name: the word for it.
        module: has `add_arguments(parser)`, and `run(options)` unless its verbs have functions of their own.
        help: for the list of all commands.
        description: for its own help.
        kind: what `add_arguments` gets besides, where a module has several commands.
        example: a command line for the end of its help, of commands that do not add their own.
        has_fleet: whether --fleet chooses where it looks, or what it serves.
    """

    name: str
    module: str
    help: str
    description: str
    kind: str = ""
    example: str = ""
    has_fleet: bool = True

    def load(self, parser: argparse.ArgumentParser) -> None:
        """Import its module, and give the parser its arguments."""
        module = importlib.import_module(f"kiqbridge.{self.module}")
        module.add_arguments(parser, *([self.kind] if self.kind else []))
        if self.example:
            add_example(parser, self.example)
        run = getattr(module, "run", None)
        if run is not None:
            parser.set_defaults(command=run)


GROUPS: Final[Mapping[str, Sequence[Entry]]] = {
    "run": (
        Entry(
            name="worker",
            module="commands.worker_command",
            help="perform jobs",
            description="Perform jobs: fetch, retry, poll and beat as Sidekiq does, losing none.",
            example="kiqbridge worker -r worker/jobs -c 10 -q critical,3 -q default",
        ),
        Entry(
            name="dev",
            has_fleet=False,
            module="dev.command",
            help="run server, schedules and worker on this machine",
            description="Run an embedded Valkey, fire the rules of the template at their true times "
            "through the real function, and perform the jobs; REDIS_URL uses another "
            "server. For each tick a line shows its entry in the ledger once its jobs have "
            "ended, at most one a second for a rule. Enter (or the signal USR1) shows next "
            "firings, dynamic schedules and the ledger. Dynamic schedules are fired by the "
            "worker and follow the real clock, whatever --speed and --at say; lateness and "
            "durations are in real seconds.",
            example="kiqbridge dev --fire HealthPulse",
        ),
        Entry(
            name="web",
            module="commands.web_command",
            help="serve the Web UI",
            description="Serve the page that shows queues, jobs and workers, and acts on them, until INT or TERM; "
            "prints its address when it serves. Everybody may look unless --role says more; on other addresses than "
            "loopback sign-in is needed (docs/web.md). Example: kiqbridge web --port 8080 --role operator",
            example="kiqbridge web --port 8080 --role operator",
        ),
        Entry(
            name="health",
            has_fleet=False,
            module="commands.health_command",
            help="check whether the workers on this machine live",
            description="Check whether the workers on this machine live, or make progress: exit 0 if "
            "all do, 1 if one does not or there is none.",
            example="kiqbridge health --live",
        ),
        Entry(
            name="shell",
            module="commands.shell_command",
            help="open a Python shell with the jobs and the API at hand",
            description="An interactive Python (IPython if it is installed) with the client, the declared jobs by name, "
            "and Queue, RetrySet, Stats and the others of kiqbridge.api. With -c, or with code on standard input, it "
            "runs that and ends: exit 1 if it raised an error.",
        ),
        Entry(
            name="enqueue",
            has_fleet=False,
            module="commands.enqueue_command",
            help="enqueue a job, or what an AWS event asks for",
            description="Push one job and print its id; or give an AWS event to the code of the enqueue "
            "function, and print its jobs and the answer. Exit 0 if all was enqueued (a "
            "duplicate counts), 2 if something is refused, 3 if Redis cannot be reached.",
        ),
    ),
    "look at what goes on": (
        Entry(
            name="stats",
            module="commands.stats_command",
            help="count jobs, queues and processes",
            description="Counts of jobs and processes, and each queue with the time that its oldest job has waited.",
        ),
        Entry(
            name="ps",
            module="commands.processes_command",
            help="list the processes of Python and Ruby, and what runs in them",
            description="The living processes, Ruby's as well, as their last heartbeats showed them; with --jobs what runs in them.",
        ),
        Entry(
            name="doctor",
            module="commands.doctor_command",
            help="find what is wrong with Redis, jobs and workers",
            description="Examine what goes on now (what waits, fails, dies, does not come), the Redis server, the jobs in "
            "it and the workers at it; each finding says what is so, why it matters and what to do (docs/doctor.md). "
            "Exit 0 if there is no problem, 1 if there is one, 3 if Redis cannot be reached. Nothing is changed.",
        ),
        Entry(
            name="metrics",
            module="commands.metrics_command",
            help="show how often classes ran and failed, and how long they took",
            description="What workers of Python and Ruby measured of each class; of one class also percentiles, by minute.",
        ),
        Entry(
            name="audit",
            module="commands.audit_command",
            help="list who did what",
            description="The last 10,000 actions on jobs, queues and processes: who, when, through what, to which, to how many.",
        ),
    ),
    "act on jobs, queues and processes": (
        Entry(
            name="job",
            module="commands.job_command",
            help="show one job; retry, move, kill or delete it",
            description="Find a job by its jid in all queues, sets and processes; show it, push it, move it, kill it or delete it.",
        ),
        Entry(
            name="queue",
            module="commands.pause_command",
            help="list and pause queues; show, move, kill and delete their jobs",
            description="List and pause queues; show, move, kill and delete their jobs. A paused queue is served by none of our "
            "workers, nor by Ruby's with Sidekiq Pro; jobs can be pushed to it.",
            kind="queue",
        ),
        Entry(
            name="retries",
            module="commands.jobs_command",
            help="list, retry and delete jobs that failed and are due again",
            description="Jobs that failed and are due again.",
            kind="retries",
        ),
        Entry(
            name="dead",
            module="commands.jobs_command",
            help="list, retry and delete jobs that have used up their retries",
            description="Jobs that have used up their retries.",
            kind="dead",
        ),
        Entry(
            name="scheduled",
            module="commands.jobs_command",
            help="list, push, reschedule and delete jobs that are due later",
            description="Jobs that are due later.",
            kind="scheduled",
        ),
        Entry(
            name="class",
            module="commands.pause_command",
            help="pause and resume classes of jobs",
            description="Pause classes of jobs, resume them, list the paused ones. Our workers put "
            "their jobs off, a minute each time; Ruby's workers run them.",
            kind="class",
        ),
        Entry(
            name="limiter",
            module="commands.limiter_command",
            help="list limiters, and reset one",
            description="What is taken of each limiter of kiqbridge.flow, and forgetting it. Limiters of which nothing is taken have "
            "no state in Redis, and are not listed.",
        ),
        Entry(
            name="quiet",
            module="commands.processes_command",
            help="let processes take no new jobs",
            description="Let processes of Python or Ruby take no new jobs, through Redis: each reads it at its next heartbeat. "
            "It cannot be undone.",
            kind="quiet",
        ),
        Entry(
            name="stop",
            module="commands.processes_command",
            help="end processes",
            description="End processes of Python or Ruby, through Redis: each reads it at its next heartbeat, finishes its jobs as "
            "after TERM, and gives back what does not end in time.",
            kind="stop",
        ),
        Entry(
            name="recover",
            module="commands.recover_command",
            help="give back the jobs that dead workers hold",
            description="List the registered workers with what they hold, watch the silent ones for 8 s "
            "as a worker would, and give their jobs back: exit 0 if none is left to rescue, "
            "1 if one is.",
        ),
        Entry(
            name="spill",
            has_fleet=False,
            module="commands.spill_command",
            help="show, drain and replay what could not be enqueued",
            description="Show what waits in the spill queues of the enqueue function, enqueue it by "
            "hand, or replay a dead-letter queue: each message is read as the function "
            "would, and deleted when its jobs are in Redis. Exit 0 if nothing that was "
            "looked at is left, 1 if something is.",
        ),
        Entry(
            name="export",
            module="commands.export_command",
            help="write queues and sets into a file",
            description="Write the jobs of queues and sets into a file, or through a pipe into kiqbridge restore. With "
            "--take they are removed once they are safely written, so that they move. After a kill the same command "
            "continues: nothing is lost, and nothing is there twice.",
        ),
        Entry(
            name="restore",
            module="commands.restore_command",
            help="put an export into queues and sets",
            description="Put what kiqbridge export wrote into the queues and sets of this Redis, behind what is "
            "there. How far it is, is kept there for 30 days: repeated, it puts in what is missing, nothing twice.",
        ),
    ),
    "schedules": (
        Entry(
            name="schedule",
            module="commands.schedule_command",
            help="list, check, simulate, pause, run and import schedules",
            description="See when EventBridge's schedule expressions and crontab lines are due.",
        ),
    ),
    "set up": (
        Entry(
            name="init",
            has_fleet=False,
            module="commands.init_command",
            help="write a new application: jobs, tests, image, template",
            description="Write an app: jobs, tests, a Makefile, an image, and with --lambda a template with a cron rule, its "
            "functions and the build for AWS. A file that is there stays as it is, unless --force is given. Each file is "
            "printed, and what to do next.",
        ),
        Entry(
            name="contract",
            has_fleet=False,
            module="commands.contract_command",
            help="compare and type the jobs that applications share",
            description="Export which jobs this application performs and enqueues, compare it with those of others, such as a "
            "Rails application, and write typed Python classes for theirs.",
        ),
        Entry(
            name="deploy-mark",
            module="commands.deploy_command",
            help="mark a deployment in the charts of the Web UI",
            description="Mark a deployment on the Web UI's Metrics page: a line in its charts at this "
            "minute, kept for 90 days. A label is marked once within a minute, however many "
            "machines mark it.",
        ),
        Entry(
            name="completion",
            has_fleet=False,
            module="commands.completion_command",
            help="print the script that completes commands in a shell",
            description="Print the script by which bash, zsh or fish completes commands and options; load it in the shell's start file.",
        ),
    ),
}
"""Heading in the list of all commands → the commands under it."""

COMMANDS: Final = tuple(entry for entries in GROUPS.values() for entry in entries)
