"""`kiqbridge dev`: run an embedded Valkey, fire the rules of the template at their true times, perform the jobs.

The rules are fired through the real function; REDIS_URL uses another server. For each tick a line shows its entry in
the ledger once its jobs have ended, at most one a second for a rule. Enter (or the signal USR1) shows next firings,
dynamic schedules and the ledger. Dynamic schedules are fired by the worker and follow the real clock, whatever --speed
and --at say; lateness and durations are in real seconds.

These are its flags; what it does is in `session`, loaded only when it runs: the worker runs without the template
reader, the embedded server and all that they need.
"""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kiqbridge.commands.arguments import add, add_example, within
from kiqbridge.errors import ConfigError
from kiqbridge.schedule import TEMPLATE

JOBS: Final = ("worker/jobs", "jobs")
"""Where jobs lie if -r names no place: the first that is there."""
_EARLIEST: Final = datetime(1971, 1, 1, tzinfo=UTC)  # a tick is named by epoch seconds from 0
_END: Final = datetime(2200, 1, 1, tzinfo=UTC)  # the years of EventBridge end here
INVOKE_PORT: Final = 3001
LAST_PORT: Final = 65_535
TIMEOUT_S: Final = 3.0
"""Less than the worker's own default: a person waits for it after Ctrl-C."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `kiqbridge dev`."""
    add_example(parser, "kiqbridge dev --fire HealthPulse")
    text = "SAM template with the rules; its functions are beside it (default: template.yaml; without that file "
    add(parser, "--template PATH", f"{text}only jobs run)", type=Path)
    text = "deliver a tick of this rule (the event's logical id) at once; repeatable"
    add(parser, "--fire NAME...", text)
    text = "run the clock of the rules N times as fast, starting now or at --at (default: 1)"
    add(parser, "--speed N", text, type=_up_to(100_000, ""), default=1.0)
    text = "start the clock of the rules at this time, past or future: ISO 8601, UTC if it names no zone, such as "
    text += "2026-10-25T00:55:00Z; only ticks that are due from then on are delivered"
    add(parser, "--at TIME", text, type=_instant)
    add(parser, "--fresh", "delete the data in .kiqbridge/ before the start")
    text = f"code that declares jobs; repeatable (default: {' or '.join(JOBS)}, whichever is there)"
    add(parser, "-r --require PATH|MODULE...", text)
    add(parser, "-c --concurrency INT", "how many jobs run at once")
    text = f"how long running jobs may continue after Ctrl-C (default: {TIMEOUT_S:g})"
    type_ = _up_to(3600, " seconds")
    add(parser, "-t --timeout SECONDS", text, dest="timeout_s", type=type_, default=TIMEOUT_S)
    off: dict[str, Any] = {"action": "store_false"}
    add(parser, "--no-web", "do not serve the page beside it", dest="web", **off)
    text = "port of Lambda's API for invoking the template's functions, on the loopback; 0 = one that is free (default: "
    text += f"{INVOKE_PORT}, as of sam local start-lambda, or one that is free)"
    add(parser, "--invoke-port PORT", text, type=within(0, LAST_PORT))
    add(parser, "--no-invoke", "do not offer that API", dest="invoke", **off)
    text = "do not restart the worker when a Python file below this directory, or below that of -r, has changed"
    add(parser, "--no-reload", text, dest="reload", **off)
    add(parser, "-v --verbose", "show debug lines and the function's own log")


def run(options: argparse.Namespace) -> int:
    """Run until Ctrl-C and return the exit code; raises as `dev.run_dev`.

    Raises:
        ConfigError: what only `dev` needs is not installed.
    """
    try:
        from kiqbridge.dev.session import run_dev  # noqa: PLC0415 - see above
    except ImportError as error:
        raise ConfigError(f"dev: {error}; pip install 'kiqbridge[local]'") from error
    options.template = options.template or (TEMPLATE if TEMPLATE.exists() else None)
    port = options.invoke_port
    options.invoke_ports = (INVOKE_PORT, 0) if port is None else (port,)
    options.require = options.require or [place for place in JOBS if Path(place).is_dir()][:1]
    return run_dev(options)


def _up_to(most: int, unit: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text)
        if not 0 < number <= most:
            raise argparse.ArgumentTypeError(f"{text} is not between 0 and {most}{unit}")
        return number

    parse.__name__ = "number"  # as argparse names it
    return parse


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write one such as 2026-10-25T00:55:00Z"
        ) from None
    if not _EARLIEST <= at < _END:
        raise argparse.ArgumentTypeError(f"{text} is not in the years 1971 to 2199")
    return at
