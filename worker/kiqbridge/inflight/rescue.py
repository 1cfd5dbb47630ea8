"""Giving back what dead processes hold, once, where no worker looks for them again and again.

A worker's reaper watches all the time. The command line and the monitor function begin from nothing: they
watch for as long as the reaper must have seen one and the same sign of life, and end.
"""

import time
from collections.abc import Callable, Sequence

from kiqbridge.clock import lease_now
from kiqbridge.inflight.incarnations import Incarnation, SignOfLife
from kiqbridge.inflight.recovery import Reaper

LONGEST_PAUSE_S = 1.0
"""Between two looks; shorter ones if the whole watch is short."""


def may_be_silent_s(each: Incarnation, otherwise_s: float) -> float:
    """How long the owner of a lease may be silent; `otherwise_s` if its own sign does not say it."""
    sign = SignOfLife.parse(each.beat)
    return otherwise_s if sign is None else sign.silent_after_s


def watch(
    reaper: Reaper,
    silent: Sequence[Incarnation],
    *,
    for_s: float,
    until_s: float,
    goes_on: Callable[[Sequence[Incarnation], float], bool],
) -> list[Incarnation]:
    """Let a reaper look until all of these were rescued or gave a sign of life.

    Args:
        reaper: looks, as that of a worker does.
        silent: whom to watch.
        for_s: how long the longest of them must be seen silent.
        until_s: when to give up, in seconds from now: looks may be missing, so that a watch begins anew.
        goes_on: gets those that are left, and the seconds so far, after each look; False ends the watch.

    Returns:
        Those that are left.

    Raises:
        RedisUnavailable: a look was not answered.
    """
    began = lease_now()
    left = list(silent)
    while left:
        reaper.look()
        seen = reaper.seen
        left = [each for each in left if each.name in seen and seen[each.name] == each.beat]
        watched = lease_now() - began
        if not left or watched > until_s or not goes_on(left, watched):
            break
        time.sleep(min(LONGEST_PAUSE_S, for_s / 8))
    return left
