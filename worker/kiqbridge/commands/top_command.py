"""`kiqbridge top`: the operator's screens in a terminal."""

import argparse
import math
import sys
from typing import get_args

from kiqbridge.commands.shards import chosen_operator
from kiqbridge.errors import ConfigError
from kiqbridge.top.model import SCREENS, Role


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument(
        "--role",
        choices=get_args(Role),
        default="viewer",
        help="what may be done: viewer looks (default), operator acts on jobs, queues and schedules, "
        "admin also on all jobs at once and on processes",
    )
    parser.add_argument(
        "--interval",
        type=_interval,
        default=1.0,
        metavar="SECONDS",
        help="between two looks at Redis (default: 1)",
    )
    parser.add_argument(
        "--screen", choices=list(SCREENS), default="now", help="where to begin (default: now)"
    )


def run(options: argparse.Namespace) -> int:
    """Until `q`.

    Raises:
        ConfigError: Textual is not installed, or there is no terminal.
    """
    try:
        import textual  # noqa: F401, PLC0415 - only to see whether it is there
    except ImportError as error:
        raise ConfigError(
            "kiqbridge top needs Textual, which is not installed: pip install 'kiqbridge[top]'"
        ) from error
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "kiqbridge top needs a terminal: for scripts use kiqbridge stats, queue list or ps with --json"
        )
    from kiqbridge.top.app import Top  # noqa: PLC0415 - loads Textual

    operator = chosen_operator(options, via="top")  # a shard that is away now may be back later
    app = Top(operator, role=options.role, interval_s=options.interval, screen=options.screen)
    app.run()
    return app.return_code or 0


def _interval(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:  # noqa: PLR2004 - a tenth of a second to an hour
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds
