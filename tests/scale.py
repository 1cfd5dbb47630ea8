"""Sixteen fleets with a million jobs a second on a cluster, in arithmetic: `python tests/scale.py` (`make scale`).

Jobs are counted in steps of a tenth of a second. Costs are those of docs/explanation/scaling.md, times those of docs/explanation/proofs.md.

1. Each fleet is given 62,500 short jobs a second in bulk. While its primary is away, or its slot moves, producers hold
   them, and then push twice as many as usual.
2. Workers of a fleet perform up to 1.5 times as many as are given, as far as the core of its primary allows, which the
   fleets on it share.
"""

import sys
from typing import NamedTuple

FLEETS, PRIMARIES = 16, (4, 8, 16)
RATE = 62_500
PUSHERS, WORKERS = 2.0, 1.5
PUSH_US, CLAIM_US, CORE = 0.5, 1.6, 0.8
STEP_S, SECONDS = 0.1, 300
AT_S = 10
LAG_S = 0.1
"""What a replica has not got when its primary dies, in seconds of pushes."""


class Event(NamedTuple):
    """What happens at `AT_S`.

    Attributes:
        seconds: for how long fleets stand still: 15 s are the default of `cluster-node-timeout`, 2 s follow.
        primaries: whose fleets stand still; 0: one fleet alone, whose slot moves to the next primary.
        stops_all: `cluster-require-full-coverage yes`: all fleets stand still.
    """

    name: str
    seconds: float
    primaries: int
    stops_all: bool = False


EVENTS = (
    Event("planned failover", 1, 1),
    Event("primary dies", 17, 1),
    Event("primary dies, full coverage", 17, 1, stops_all=True),
    Event("two primaries die", 17, 2),
    Event("slot of a fleet moves", 3, 0),
)


class Outcome(NamedTuple):
    """Attributes:
    still: fleets that stood still.
    longest_s: that a job waited.
    others_s: the same, of fleets that did not stand still and on other primaries.
    waiting: jobs that waited at most, with producers and in queues.
    caught_up_s: from the event until nothing waited for longer than a step.
    core: of the busiest primary, before and at most.
    lost: jobs at stake with plain pushes, which no replica confirms.
    left: jobs that were given and not performed in the end.
    """

    still: int
    longest_s: float
    others_s: float
    waiting: float
    caught_up_s: float
    core: tuple[float, float]
    lost: float
    left: int


def simulate(event: Event, primaries: int) -> Outcome:
    home = [fleet % primaries for fleet in range(FLEETS)]
    hit = [fleet for fleet in range(FLEETS) if home[fleet] < event.primaries] or [0]
    still = range(FLEETS) if event.stops_all else hit
    held, queued, done = ([0.0] * FLEETS for _ in range(3))
    waits = [0.0] * FLEETS
    waiting = caught_up_s = usual = most = 0.0
    for step in range(1, round(SECONDS / STEP_S) + 1):
        now = step * STEP_S
        stands = AT_S < now <= AT_S + event.seconds
        if not event.primaries and now > AT_S + event.seconds:
            home[0] = 1
        for primary in range(primaries):
            here = [fleet for fleet in range(FLEETS) if home[fleet] == primary]
            moves = {}
            for fleet in here:
                held[fleet] += RATE * STEP_S
                if not (stands and fleet in still):
                    pushed = min(held[fleet], PUSHERS * RATE * STEP_S)
                    moves[fleet] = pushed, min(queued[fleet] + pushed, WORKERS * RATE * STEP_S)
            core = sum(p * PUSH_US + d * CLAIM_US for p, d in moves.values()) / (STEP_S * 1e6)
            part = min(CORE / core, 1) if core else 1
            most = max(most, core * part)
            usual = most if now <= AT_S else usual
            for fleet, (pushed, performed) in moves.items():
                held[fleet] -= pushed * part
                queued[fleet] += (pushed - performed) * part
                done[fleet] += performed * part
        ages = [now - each / RATE for each in done]
        waits = list(map(max, waits, ages))
        waiting = max(waiting, sum(held) + sum(queued))
        if max(ages) > STEP_S:
            caught_up_s = now - AT_S
    others = [waits[fleet] for fleet in range(FLEETS) if fleet not in still]
    lost = len(hit) * RATE * LAG_S if event.primaries and event.seconds > 1 else 0
    left = round(FLEETS * RATE * SECONDS - sum(done))
    return Outcome(
        len(still),
        max(waits),
        max(others, default=0),
        waiting,
        caught_up_s,
        (usual, most),
        lost,
        left,
    )


def main() -> int:
    """Print a line for each event and size of the cluster."""
    print(
        f"{FLEETS} fleets, {FLEETS * RATE:,} jobs/s\n"
        f"{'event':<28}{'primaries':>9}{'core':>6}{'at most':>8}{'fleets still':>13}{'longest wait':>13}"
        f"{'others':>8}{'waiting':>12}{'caught up':>10}{'at stake':>9}{'left':>5}"
    )
    for event in EVENTS:
        for primaries in PRIMARIES:
            each = simulate(event, primaries)
            print(
                f"{event.name:<28}{primaries:>9}{each.core[0]:>6.0%}{each.core[1]:>8.0%}{each.still:>13}"
                f"{each.longest_s:>11.1f} s{each.others_s:>6.1f} s{each.waiting:>12,.0f}{each.caught_up_s:>8.0f} s"
                f"{each.lost:>9,.0f}{each.left:>5}"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
