"""`kiqbridge recover`: which worker processes died, and giving back what they hold.

Living workers do the same by themselves within the stated bound; this is for a fleet that is gone,
and for looking.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence

from kiqbridge.config import Config, merge
from kiqbridge.errors import PayloadError
from kiqbridge.incarnations import Incarnation, list_incarnations
from kiqbridge.keys import LAYOUT, Keys, layout_of
from kiqbridge.lease import LeaseTimes
from kiqbridge.recovery import ALIVE, UNKNOWN_LAYOUT, Outcome, Reaper
from kiqbridge.redis_connection import RedisConnection, RedisPool

PATIENCE = 3
"""The watch ends after so many times its length, even if others fall silent meanwhile."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whom to rescue, and how sure to be."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--now",
        metavar="INCARNATION",
        help="rescue this silent one without watching it first: you know that it is dead",
    )
    which.add_argument(
        "--all-dead",
        action="store_true",
        help="rescue all silent ones without watching them first; after an outage of Redis everybody "
        "looks silent for some seconds",
    )
    parser.add_argument("--dry-run", action="store_true", help="only look, change nothing")
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def run(options: argparse.Namespace) -> int:
    """Rescue: 0 nobody is left to rescue, 1 somebody is.

    Raises:
        PayloadError: no such incarnation.
        RedisUnavailable: Redis is away; who was not rescued yet still holds its jobs.
    """
    config = merge(environ=os.environ, flags={})
    keys = Keys(config.namespace)
    connection = RedisPool(config.redis_url).connection()
    found = list_incarnations(connection, keys)
    if options.now and options.now not in (each.name for each in found):
        names = ", ".join(each.name for each in found) or "none"
        raise PayloadError(
            f"--now {options.now}: is not registered; it ended orderly or was rescued already. "
            f"Registered: {names}"
        )
    if not options.json:
        _print_all(found)
    rescued: dict[str, int] = {}
    if not options.dry_run:
        rescued = _rescue(options, config, connection, keys, found)
        found_now = list_incarnations(connection, keys)
    else:
        found_now = found
    left = [each for each in found_now if _is_left(each, options)]
    _tell(options, found, rescued, left)
    return 1 if left and not options.dry_run else 0


def _rescue(
    options: argparse.Namespace,
    config: Config,
    connection: RedisConnection,
    keys: Keys,
    found: Sequence[Incarnation],
) -> dict[str, int]:
    """Name → how many jobs went back."""
    rescued: dict[str, int] = {}

    def note(name: str, outcome: Outcome) -> None:
        rescued[name] = outcome.returned + outcome.suspected

    watch_for_s = LeaseTimes(config.recover_after_s).watch_for
    reaper = Reaper(
        connection,
        keys,
        watch_for_s=watch_for_s,
        orphan_limit=config.orphan_limit,
        on_rescue=note,
    )
    if not options.now and not options.all_dead:
        _watch(reaper, watch_for_s)
        return rescued
    for each in found:
        if each.name == options.now or (options.all_dead and each.state == "silent"):
            returned = reaper.reap(each.name)
            if returned >= 0:
                rescued[each.name] = returned
            elif returned == ALIVE:
                _say(f"{each.name} is alive and was left alone; stop its process instead")
            elif returned == UNKNOWN_LAYOUT:
                _say(
                    f"{each.name} has layout {layout_of(each.name)}, and this version knows {LAYOUT} alone: "
                    "run `kiqbridge recover`, or a worker, of a version that knows it"
                )
    return rescued


def _watch(reaper: Reaper, watch_for_s: float) -> None:
    """As the reaper of a worker does: silent in every look, without a Redis error in between."""
    began = time.monotonic()
    pause = min(1.0, watch_for_s / 8)
    while suspects := reaper.look():
        watched = time.monotonic() - began
        if watched > PATIENCE * watch_for_s:
            return
        _say(f"watching {suspects} silent for {watched:.0f} of {watch_for_s:.0f} s")
        time.sleep(pause)


def _is_left(each: Incarnation, options: argparse.Namespace) -> bool:
    """Whether somebody who was to be rescued is still there."""
    return each.name == options.now if options.now else each.state != "alive"


def _tell(
    options: argparse.Namespace,
    found: Sequence[Incarnation],
    rescued: dict[str, int],
    left: Sequence[Incarnation],
) -> None:
    if options.json:
        answer = {
            "dry_run": options.dry_run,
            "incarnations": [
                {
                    "incarnation": each.name,
                    "state": each.state,
                    "heartbeat_ago_s": each.heartbeat_ago_s,
                    "held_jobs": each.held_jobs,
                    "held": dict(each.held),
                }
                for each in found
            ],
            "rescued": [
                {"incarnation": name, "returned": count} for name, count in rescued.items()
            ],
            "left": [each.name for each in left],
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        return
    lines = [f"rescued {name}: {_jobs(count)} went back" for name, count in rescued.items()]
    silent = [each for each in left if each.state == "silent"]
    if options.dry_run:
        lines += [f"would watch {each.name} and rescue {_jobs(each.held_jobs)}" for each in silent]
    elif not lines and not left:
        lines.append("nobody has to be rescued")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _print_all(found: Sequence[Incarnation]) -> None:
    lines = [
        f"{each.name}  {_state(each)}, holds {_jobs(each.held_jobs)}{_queues(each)}"
        if each.state != "unknown layout"
        else f"{each.name}  {_state(each)}: only a version that knows its layout can rescue it"
        for each in found
    ]
    sys.stdout.write("".join(f"{line}\n" for line in lines or ["no worker is registered"]))


def _state(each: Incarnation) -> str:
    if each.state != "silent":
        return each.state
    ago = each.heartbeat_ago_s
    return "silent, no heartbeat for " + ("over 60 s" if ago is None else f"{ago:.0f} s")


def _queues(each: Incarnation) -> str:
    told = ", ".join(f"{queue} {count}" for queue, count in each.held.items())
    return f" ({told})" if told else ""


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _say(line: str) -> None:
    """Progress and refusals, beside the answer."""
    sys.stderr.write(f"kiqbridge: {line}\n")
