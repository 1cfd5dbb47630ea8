"""Designs of wake-ups beside each other, for docs/decisions/0011: what a push costs an idle fleet of each.

    python tests/benchmarks/designs.py [INCARNATIONS:A_PROCESS:PUSHES_A_SECOND:SECONDS:ROUNDS …]

One line for each size and design, the median of the rounds; each round has all designs. So many incarnations are in one
process of the operating system: more than one there share an interpreter lock, so their times are later than real ones.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.outcome import median
from benchmarks.progress import Progress
from benchmarks.sizes import QUICK
from benchmarks.stage import stage
from benchmarks.wake_ups import Cost, Trickle, measure

DESIGNS = {
    "one listens": "listen",
    "ranks over broadcast tracking": "ranked",
    "every process listens": "armed",
    "BRPOP": "brpop",
}
DEFAULT = ("1:1:100:2:3", "20:1:100:2:3", "200:100:20:3:2", "1000:250:4:5:1")


def main(arguments: Sequence[str]) -> None:
    with stage(QUICK, Progress(1), with_ruby=False, peers=()) as scene:
        for each in arguments or DEFAULT:
            size, together, rate, seconds, rounds = map(int, each.split(":"))
            costs: dict[str, list[Cost]] = {name: [] for name in DESIGNS}
            for _ in range(rounds):
                for name, kind in DESIGNS.items():
                    how = Trickle(rate=rate, seconds=seconds, together=together, idle_s=3)
                    costs[name].append(measure(scene, size, kind, how))
            load = os.getloadavg()[0]
            for name, found in costs.items():
                cost = _median(found)
                print(f"{each} {name}: {cost}; {cost.idle:.1f} commands a second while idle")
            print(f"load {load:.1f}", flush=True)


def _median(costs: Sequence[Cost]) -> Cost:
    names = [field.name for field in fields(Cost)]
    return Cost(**{name: median([getattr(cost, name) for cost in costs]) for name in names})


if __name__ == "__main__":
    main(sys.argv[1:])
