"""`kiqbridge recover`: list the registered workers with what they hold, watch the silent ones, give their jobs back.

It watches for 18 s, as a worker would. Exit 0 if none is left to rescue, 1 if one is.

Living workers do the same by themselves within the stated bound; this is for a fleet that is gone, and for looking.
"""

import argparse
import os
import time
from collections.abc import Mapping, Sequence

from kiqbridge.commands.arguments import add, add_changing, add_example
from kiqbridge.commands.output import answer, fields_of, warn, write_line
from kiqbridge.config.config import Config
from kiqbridge.config.merge import merge
from kiqbridge.engine.inflight.incarnations import Incarnation, list_incarnations
from kiqbridge.engine.inflight.lease import LeaseTimes
from kiqbridge.engine.inflight.reaping import ALIVE, UNKNOWN_LAYOUT, Outcome
from kiqbridge.engine.inflight.recovery import Reaper, may_be_silent_s, watch
from kiqbridge.errors import PayloadError
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.amounts import count_text
from kiqbridge.wire.keys import LAYOUT, Keys, layout_of

PATIENCE = 3
"""The watch ends after so many times its length, even if looks were missing and it began anew."""

SIGN_WITHIN = 0.45
"""A living process gives a sign within three tenths of the time that it may be silent."""


_REFUSALS = {
    ALIVE: "{0} is alive and was left alone; stop its process instead",
    UNKNOWN_LAYOUT: f"{{0}} has layout {{1}}, and this version knows {LAYOUT} alone: run `kiqbridge recover`, or a "
    "worker, of a version that knows it",
}
"""Code of the reaper → why it gave nothing back, with the incarnation and its layout."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which workers to recover, and how long they must have been silent."""
    add_example(parser, "kiqbridge recover")
    which = parser.add_mutually_exclusive_group()
    look = "after a look of some seconds"
    add(which, "--now INCARNATION", f"rescue this silent one {look}: you know that it is dead")
    text = f"rescue all silent ones {look}; after an outage of Redis all look silent for as long"
    add(which, "--all-dead", text)
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
        for line in map(_state, found):
            write_line(line)
        if not found:
            write_line("no worker is registered")
    rescued = {} if options.dry_run else _rescue(options, config, connection, keys, found)
    now = found if options.dry_run else list_incarnations(connection, keys)
    left = [
        each for each in now if (each.name == options.now if options.now else each.state != "alive")
    ]
    names = "state silent_for_s held_jobs"
    document = {
        "dry_run": options.dry_run,
        "incarnations": [
            {"incarnation": each.name, **fields_of(each, names), "held": dict(each.held)}
            for each in found
        ],
        "rescued": [{"incarnation": name, "returned": count} for name, count in rescued.items()],
        "left": [each.name for each in left],
    }
    lines = _result(options, rescued, left)
    if not rescued and not options.now and any(each.state == "alive" for each in now):
        silent_s = LeaseTimes(config.recover_after_s).silent_after
        lines.append(
            f"a worker that was killed less than {silent_s:.0f} s ago still counts as alive; run it again then"
        )
    answer(options, document, lines)
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
        elif code in _REFUSALS:
            warn(_REFUSALS[code].format(each.name, layout_of(each.name)))
    return rescued


def _watch(reaper: Reaper, silent: Sequence[Incarnation], times: LeaseTimes) -> None:
    """As the reaper of a worker does: silent in every look, without a look missing in between."""
    longest = times.watch_for + max(
        (may_be_silent_s(each, times.silent_after) for each in silent), default=0
    )

    def goes_on(left: Sequence[Incarnation], watched: float) -> bool:
        warn(f"watching {len(left)} silent for {watched:.0f} of {longest:.0f} s")
        return True

    watch(reaper, silent, for_s=longest, until_s=PATIENCE * longest, goes_on=goes_on)


def _result(
    options: argparse.Namespace, rescued: Mapping[str, int], left: Sequence[Incarnation]
) -> list[str]:
    lines = [
        f"rescued {name}: {count_text(count, 'job')} went back" for name, count in rescued.items()
    ]
    if not options.dry_run:
        return lines or ([] if left else ["no worker has to be rescued"])
    by_state = sorted(left, key=lambda each: each.state != "silent")
    for each in by_state:
        jobs = count_text(each.held_jobs, "job")
        if each.state == "silent":
            lines.append(f"would watch {each.name} and rescue {jobs}")
        elif each.state in ("being reaped", "not registered"):
            lines.append(f"would give back {jobs} of {each.name}")
    return lines


def _state(each: Incarnation) -> str:
    """`NAME  silent for 12 s, holds 2 jobs (default 2)`."""
    if each.state == "unknown layout":
        return f"{each.name}  {each.state}: only a version that knows its layout can rescue it"
    ago = each.silent_for_s
    silent = ""
    if each.state == "silent":
        silent = ", no sign of life is known" if ago is None else f" for {ago:.0f} s"
    elif ago is not None:
        silent = f", last sign of life {ago:.0f} s ago"
    queues = ", ".join(f"{queue} {count}" for queue, count in each.held.items())
    held = count_text(each.held_jobs, "job") + (f" ({queues})" if queues else "")
    return f"{each.name}  {each.state}{silent}, holds {held}"
