"""The `kiqbridge` command. Exit codes: 0 orderly, 1 boot or settings, 2 usage, 3 no Redis."""

import argparse
import sys
from collections.abc import Callable, Sequence

from kiqbridge import __version__
from kiqbridge.errors import (
    ConfigError,
    EventError,
    KiqbridgeError,
    PayloadError,
    RedisUnavailable,
)

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    options = parser.parse_args(argv)
    command: Command = options.command
    try:
        return command(options)
    except ConfigError as error:
        return _complain(error, 1)
    except (PayloadError, EventError) as error:
        return _complain(error, 2)
    except RedisUnavailable as error:
        return _complain(error, 3)
    except KiqbridgeError as error:  # such as a Redis that answers, but refuses: no traceback
        return _complain(error, 1)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands; their modules are imported only when they run."""
    parser = argparse.ArgumentParser(
        prog="kiqbridge", description="Sidekiq-compatible background jobs for Python and AWS."
    )
    parser.add_argument("-V", "--version", action="version", version=f"kiqbridge {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_worker(commands)
    _add_health(commands)
    _add_dev(commands)
    _add_deploy_mark(commands)
    _add_pauses(commands)
    _add_recover(commands)
    return parser


def _add_worker(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.worker_command import add_arguments, run  # noqa: PLC0415

    worker = commands.add_parser(
        "worker",
        help="perform jobs",
        description="Perform jobs: fetch, retry, poll and beat as Sidekiq does, losing none.",
    )
    add_arguments(worker)
    worker.set_defaults(command=run)


def _add_health(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.health import add_arguments, run  # noqa: PLC0415

    health = commands.add_parser(
        "health",
        help="tell whether the worker on this machine lives",
        description="Tell whether the workers on this machine live, or make progress: exit 0 if all "
        "do, 1 if one does not or there is none.",
    )
    add_arguments(health)
    health.set_defaults(command=run)


def _add_dev(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.dev.command import add_arguments, run  # noqa: PLC0415

    dev = commands.add_parser(
        "dev",
        help="run server, cron rules and worker on this machine",
        description="Run an embedded Valkey, fire the rules of the template at their true times "
        "through the real function, and perform the jobs; REDIS_URL uses another server.",
    )
    add_arguments(dev)
    dev.set_defaults(command=run)


def _add_deploy_mark(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.deploy_command import add_arguments, run  # noqa: PLC0415

    mark = commands.add_parser(
        "deploy-mark",
        help="draw a deployment into the charts of the Web UI",
        description="Tell the Web UI's Metrics page that something was deployed now: a line in its charts, "
        "kept for 90 days. A label is marked once within a minute, however many machines say it.",
    )
    add_arguments(mark)
    mark.set_defaults(command=run)


def _add_pauses(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.pause_command import add_arguments  # noqa: PLC0415

    add_arguments(
        commands.add_parser(
            "queue",
            help="pause and resume queues, list them",
            description="Pause queues, resume them, list them. A paused queue is served by none of our "
            "workers, nor by Ruby's with Sidekiq Pro; jobs can be pushed to it.",
        ),
        "queue",
    )
    add_arguments(
        commands.add_parser(
            "class",
            help="pause and resume classes of jobs",
            description="Pause classes of jobs, resume them, list the paused ones. Our workers put their "
            "jobs off, a minute each time; Ruby's know nothing of it.",
        ),
        "class",
    )


def _add_recover(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    from kiqbridge.recover_command import add_arguments, run  # noqa: PLC0415

    recover = commands.add_parser(
        "recover",
        help="give back what dead workers hold",
        description="List the registered workers with what they hold, watch the silent ones for 8 s as a "
        "worker would, and give their jobs back: exit 0 if nobody is left to rescue, 1 if somebody is.",
    )
    add_arguments(recover)
    recover.set_defaults(command=run)


def _complain(error: Exception, code: int) -> int:
    sys.stderr.write(f"kiqbridge: {error}\n")
    return code
