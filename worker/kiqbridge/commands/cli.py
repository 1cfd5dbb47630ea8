"""The `kiqbridge` command. Exit codes: 0 orderly, 1 boot or settings, 2 usage, 3 no Redis."""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kiqbridge import __version__
from kiqbridge.errors import (
    ConfigError,
    EventError,
    KiqbridgeError,
    PayloadError,
    RedisUnavailable,
)

if TYPE_CHECKING:
    _Commands = argparse._SubParsersAction["Parser"]  # noqa: SLF001 - has no other name

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    options = build_parser(words).parse_args(words)
    command: Command = options.command
    try:
        return command(options)
    except ConfigError as error:
        return _fail(error, 1)
    except (PayloadError, EventError) as error:
        return _fail(error, 2)
    except RedisUnavailable as error:
        return _fail(error, 3)
    except KiqbridgeError as error:  # such as a Redis that answers, but refuses: no traceback
        return _fail(error, 1)


class Parser(argparse.ArgumentParser):
    """Refuses what it does not know with its own usage, not with that of the command above it."""

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As the original, but nothing is left over."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}{self._near(unknown)}")
        return found, unknown

    def _near(self, unknown: Sequence[str]) -> str:
        import difflib  # noqa: PLC0415 - only to help with an error

        near = [
            match
            for word in unknown
            if word.startswith("-")
            for match in difflib.get_close_matches(
                word.partition("=")[0], self._option_string_actions, n=1
            )
        ]
        return f"; did you mean {' or '.join(near)}?" if near else ""


def build_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for a command line.

    It knows all commands, but the arguments only of the one that is named: the modules of the others,
    which would make each worker start later and grow larger, are not imported.
    """
    parser = Parser(
        prog="kiqbridge", description="Sidekiq-compatible background jobs for Python and AWS."
    )
    parser.add_argument("-V", "--version", action="version", version=f"kiqbridge {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = next((word for word in words if not word.startswith("-")), "")
    _add_worker(commands, named)
    _add_health(commands, named)
    _add_dev(commands, named)
    _add_deploy_mark(commands, named)
    _add_pauses(commands, named)
    _add_recover(commands, named)
    _add_doctor(commands, named)
    _add_schedule(commands, named)
    _add_enqueue(commands, named)
    _add_spill(commands, named)
    return parser


def _add_worker(commands: "_Commands", named: str) -> None:
    worker = commands.add_parser(
        "worker",
        help="perform jobs",
        description="Perform jobs: fetch, retry, poll and beat as Sidekiq does, losing none.",
    )
    if named == "worker":
        from kiqbridge.commands.worker_command import add_arguments, run  # noqa: PLC0415

        add_arguments(worker)
        worker.set_defaults(command=run)


def _add_health(commands: "_Commands", named: str) -> None:
    health = commands.add_parser(
        "health",
        help="check whether the worker on this machine lives",
        description="Check whether the workers on this machine live, or make progress: exit 0 if all "
        "do, 1 if one does not or there is none.",
    )
    if named == "health":
        from kiqbridge.commands.health_command import add_arguments, run  # noqa: PLC0415

        add_arguments(health)
        health.set_defaults(command=run)


def _add_dev(commands: "_Commands", named: str) -> None:
    dev = commands.add_parser(
        "dev",
        help="run server, cron rules and worker on this machine",
        description="Run an embedded Valkey, fire the rules of the template at their true times "
        "through the real function, and perform the jobs; REDIS_URL uses another server. For each tick "
        "a line shows its entry in the ledger once its jobs have ended, at most one a second for a rule. "
        "Enter (or the signal USR1) shows next firings, dynamic schedules and the ledger. Dynamic "
        "schedules are fired by the worker and follow the real clock, whatever --speed and --at say; "
        "lateness and durations are in real seconds.",
    )
    if named == "dev":
        from kiqbridge.dev.command import add_arguments, run  # noqa: PLC0415

        add_arguments(dev)
        dev.set_defaults(command=run)


def _add_deploy_mark(commands: "_Commands", named: str) -> None:
    mark = commands.add_parser(
        "deploy-mark",
        help="draw a deployment into the charts of the Web UI",
        description="Mark a deployment on the Web UI's Metrics page: a line in its charts at this minute, "
        "kept for 90 days. A label is marked once within a minute, however many machines mark it.",
    )
    if named == "deploy-mark":
        from kiqbridge.commands.deploy_command import add_arguments, run  # noqa: PLC0415

        add_arguments(mark)
        mark.set_defaults(command=run)


def _add_pauses(commands: "_Commands", named: str) -> None:
    queue = commands.add_parser(
        "queue",
        help="pause and resume queues, list them",
        description="Pause queues, resume them, list them. A paused queue is served by none of our "
        "workers, nor by Ruby's with Sidekiq Pro; jobs can be pushed to it.",
    )
    class_ = commands.add_parser(
        "class",
        help="pause and resume classes of jobs",
        description="Pause classes of jobs, resume them, list the paused ones. Our workers put their "
        "jobs off, a minute each time; Ruby's workers run them.",
    )
    if named in ("queue", "class"):
        from kiqbridge.commands.pause_command import add_arguments  # noqa: PLC0415

        add_arguments(queue, "queue")
        add_arguments(class_, "class")


def _add_recover(commands: "_Commands", named: str) -> None:
    recover = commands.add_parser(
        "recover",
        help="give back what dead workers hold",
        description="List the registered workers with what they hold, watch the silent ones for 8 s as a "
        "worker would, and give their jobs back: exit 0 if none is left to rescue, 1 if one is.",
    )
    if named == "recover":
        from kiqbridge.commands.recover_command import add_arguments, run  # noqa: PLC0415

        add_arguments(recover)
        recover.set_defaults(command=run)


def _add_doctor(commands: "_Commands", named: str) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="find what is wrong with Redis, jobs and workers",
        description="Examine the Redis server, the jobs in it and the workers at it; each finding says what is "
        "so, why it matters and what to do (docs/doctor.md). Exit 0 if all is well, 1 if something is wrong, 3 "
        "if Redis cannot be reached. Nothing is changed. Example: kiqbridge doctor --area redis --strict",
    )
    if named == "doctor":
        from kiqbridge.commands.doctor_command import add_arguments, run  # noqa: PLC0415

        add_arguments(doctor)
        doctor.set_defaults(command=run)


def _add_schedule(commands: "_Commands", named: str) -> None:
    schedule = commands.add_parser(
        "schedule",
        help="see when schedules are due",
        description="See when EventBridge's schedule expressions and crontab lines are due.",
    )
    if named == "schedule":
        from kiqbridge.commands.schedule_command import add_arguments  # noqa: PLC0415

        add_arguments(schedule)


def _add_enqueue(commands: "_Commands", named: str) -> None:
    enqueue = commands.add_parser(
        "enqueue",
        help="enqueue a job, or what an AWS event asks for",
        description="Push one job and print its id; or give an AWS event to the code of the enqueue "
        "function, and print its jobs and the answer. Exit 0 if all was enqueued (a duplicate counts), 2 if "
        "something is refused, 3 if Redis cannot be reached.",
    )
    if named == "enqueue":
        from kiqbridge.commands.enqueue_command import add_arguments, run  # noqa: PLC0415

        add_arguments(enqueue)
        enqueue.set_defaults(command=run)


def _add_spill(commands: "_Commands", named: str) -> None:
    spill = commands.add_parser(
        "spill",
        help="show, drain and replay what could not be enqueued",
        description="Show what waits in the spill queues of the enqueue function, enqueue it by hand, or "
        "replay a dead-letter queue: each message is read as the function would, and deleted when its jobs "
        "are in Redis. Exit 0 if nothing that was looked at is left, 1 if something is.",
    )
    if named == "spill":
        from kiqbridge.commands.spill_command import add_arguments  # noqa: PLC0415

        add_arguments(spill)


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"kiqbridge: {error}\n")
    return code
