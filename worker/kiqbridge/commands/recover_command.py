"""`kiqbridge recover`: which worker processes died, and giving back what they hold.

Living workers do the same by themselves within the stated bound; this is for a fleet that is gone,
and for looking.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence

from kiqbridge.commands.arguments import add_changing, add_example, add_option, add_switch
from kiqbridge.commands.output import write_json, write_line
from kiqbridge.config.config import Config
from kiqbridge.config.merge import merge
from kiqbridge.errors import PayloadError
from kiqbridge.inflight.incarnations import Incarnation, list_incarnations
from kiqbridge.inflight.lease import LeaseTimes
from kiqbridge.inflight.reaping import ALIVE, UNKNOWN_LAYOUT, Outcome
from kiqbridge.inflight.recovery import Reaper, may_be_silent_s, watch
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of
from kiqbridge.wire.names import shown

PATIENCE = 3
"""The watch ends after so many times its length, even if looks were missing and it began anew."""

SIGN_WITHIN = 0.45
"""A living process gives a sign within three tenths of the time that it may be silent."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whom to rescue, and how sure to be."""
    add_example(parser, "kiqbridge recover")
    which = parser.add_mutually_exclusive_group()
    add_option(
        which,
        "--now",
        "INCARNATION",
        "rescue this silent one after a look of some seconds: you know that it is dead",
    )
    add_switch(
        which,
        "--all-dead",
        "rescue all silent ones after a look of some seconds; after an outage of Redis all "
        "look silent for as long",
    )
    add_changing(parser)


def run(options: argparse.Namespace) -> int:
    """Rescue: 0 none is left to rescue, 1 one is.

    Raises:
        PayloadError: no such incarnation.
        RedisUnavailable: Redis is away; processes that were not rescued yet still hold their jobs.
    """
    config = merge(environ=os.environ, flags={})
    keys, connection = Keys(config.namespace), RedisPool(config.redis).connection()
    found = list_incarnations(connection, keys)
    known = [each.name for each in found]
    if options.now and options.now not in known:
        raise PayloadError(
            f"--now {options.now}: is not registered; it ended orderly or was rescued already. "
            f"Registered: {', '.join(known) or 'none'}"
        )
    if not options.json:
        _print_all(found)
    rescued = {} if options.dry_run else _rescue(options, config, connection, keys, found)
    now = found if options.dry_run else list_incarnations(connection, keys)
    left = [each for each in now if _is_left(each, options)]
    _print_result(options, found, rescued, left)
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
        rescued[name] = rescued.get(name, 0) + outcome.returned + outcome.suspected

    times = LeaseTimes(config.recover_after_s)
    reaper = Reaper(
        connection,
        keys,
        watch_for_s=times.watch_for,
        silent_after_s=times.silent_after,
        orphan_limit=config.orphan_limit,
        on_rescue=note,
    )
    if options.now:
        chosen = [each for each in found if each.name == options.now]
    else:
        chosen = [each for each in found if each.state != "alive"]
    silent = [each for each in chosen if each.state == "silent"]
    if options.now or options.all_dead:
        if silent:
            time.sleep(
                max(may_be_silent_s(each, times.silent_after) for each in silent) * SIGN_WITHIN
            )
    else:
        _watch(reaper, silent, times)
        chosen = [each for each in chosen if each.state in ("being reaped", "not registered")]
    for each in chosen:
        if each.state == "being reaped":
            note(each.name, reaper.go_on(each.name))
            continue
        if each.state == "not registered":
            note(each.name, reaper.adopt(each.name, each.tids))
            continue
        code = ALIVE if each.state == "alive" else reaper.reap(each.name, each.beat)
        if code >= 0:
            rescued[each.name] = code
        else:
            _print_refusal(each.name, code)
    return rescued


def _print_refusal(name: str, code: int) -> None:
    if code == ALIVE:
        _print_progress(f"{name} is alive and was left alone; stop its process instead")
    elif code == UNKNOWN_LAYOUT:
        _print_progress(
            f"{name} has layout {layout_of(name)}, and this version knows {LAYOUT} alone: "
            "run `kiqbridge recover`, or a worker, of a version that knows it"
        )


def _watch(reaper: Reaper, silent: Sequence[Incarnation], times: LeaseTimes) -> None:
    """As the reaper of a worker does: silent in every look, without a look missing in between."""
    longest = times.watch_for + max(
        (may_be_silent_s(each, times.silent_after) for each in silent), default=0
    )

    def goes_on(left: Sequence[Incarnation], watched: float) -> bool:
        _print_progress(f"watching {len(left)} silent for {watched:.0f} of {longest:.0f} s")
        return True

    watch(reaper, silent, for_s=longest, until_s=PATIENCE * longest, goes_on=goes_on)


def _is_left(each: Incarnation, options: argparse.Namespace) -> bool:
    """Whether one that was to be rescued is still there."""
    return each.name == options.now if options.now else each.state != "alive"


def _print_result(
    options: argparse.Namespace,
    found: Sequence[Incarnation],
    rescued: Mapping[str, int],
    left: Sequence[Incarnation],
) -> None:
    if options.json:
        answer = {
            "dry_run": options.dry_run,
            "incarnations": [
                {
                    "incarnation": each.name,
                    "state": each.state,
                    "silent_for_s": each.silent_for_s,
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
        write_json(answer)
        return
    lines = [
        f"rescued {name}: {count_text(count, 'job')} went back" for name, count in rescued.items()
    ]
    silent = [each for each in left if each.state == "silent"]
    if options.dry_run:
        lines += [
            f"would watch {each.name} and rescue {count_text(each.held_jobs, 'job')}"
            for each in silent
        ]
        lines += [
            f"would give back {count_text(each.held_jobs, 'job')} of {each.name}"
            for each in left
            if each.state in ("being reaped", "not registered")
        ]
    elif not lines and not left:
        lines.append("no worker has to be rescued")
    for line in lines:
        write_line(line)


def _print_all(found: Sequence[Incarnation]) -> None:
    lines = [
        f"{each.name}  {_state(each)}, holds {count_text(each.held_jobs, 'job')}{_queues(each)}"
        if each.state != "unknown layout"
        else f"{each.name}  {_state(each)}: only a version that knows its layout can rescue it"
        for each in found
    ]
    for line in lines or ["no worker is registered"]:
        write_line(line)


def _state(each: Incarnation) -> str:
    if each.state != "silent":
        return each.state
    ago = each.silent_for_s
    return "silent, no sign of life is known" if ago is None else f"silent for {ago:.0f} s"


def _queues(each: Incarnation) -> str:
    queues = ", ".join(f"{queue} {count}" for queue, count in each.held.items())
    return f" ({queues})" if queues else ""


def _print_progress(line: str) -> None:
    """Progress and refusals, beside the answer."""
    sys.stderr.write(shown(f"kiqbridge: {line}\n"))
