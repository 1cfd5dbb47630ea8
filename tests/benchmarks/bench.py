"""`make bench`: all measures, beside Ruby's Sidekiq and the Python peers in the same run.

    python tests/benchmarks/bench.py [--quick] [--peers saq,rq] [MEASURE …]

The runs alternate, and the table gives medians and their ratio, since machines are noisy. A full run
of all measures writes docs/explanation/benchmarks.md.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import (
    carrying,
    enqueuing,
    fleets,
    front_door,
    idle,
    latency,
    moods,
    peers,
    schedules,
    throughput,
    wake_ups,
)
from benchmarks.environments import of_a_user
from benchmarks.outcome import Outcome, as_text, cells
from benchmarks.progress import Progress
from benchmarks.report import settings, write
from benchmarks.sizes import FULL, QUICK, TINY, Sizes
from benchmarks.stage import Stage, stage
from support.ruby import has_ruby_sidekiq

Measure = Callable[[Stage], list[Outcome]]
MEASURES: dict[str, Measure] = {
    measure.__name__: measure
    for module in (
        throughput,
        moods,
        latency,
        enqueuing,
        front_door,
        schedules,
        idle,
        fleets,
        carrying,
        wake_ups,
        peers,
    )
    for measure in module.MEASURES
}
SIZES = {"full": FULL, "quick": QUICK, "tiny": TINY}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    sizes = SIZES[options.size]
    chosen = options.measures or list(MEASURES)
    with_ruby = has_ruby_sidekiq() and not options.without_ruby
    if not has_ruby_sidekiq():
        print("Ruby Sidekiq is not installed (apt install ruby-sidekiq): measuring ours alone.")
    began = time.monotonic()
    outcomes, told = run(sizes, chosen, with_ruby=with_ruby, asked=peer_names(options.peers))
    took = f"{time.monotonic() - began:.0f} s"
    print(f"\n{told}\n\n{as_text(outcomes)}\n")
    complete = not options.measures and sizes is FULL
    if path := options.write or (complete and "docs/explanation/benchmarks.md"):
        write(Path(path), outcomes, told, f"{options.size} run of {took}")
        print(f"written: {path}")
    else:
        print(
            "docs/explanation/benchmarks.md is written by a full run of all measures (make bench)."
        )
    print(f"{len(outcomes)} lines in {took}")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"default: all of {', '.join(MEASURES)}")  # fmt: skip
    parser.add_argument("--size", choices=SIZES, default="full", help="default: %(default)s")
    parser.add_argument("--quick", action="store_const", dest="size", const="quick", help="under 2 minutes, one round of each")  # fmt: skip
    parser.add_argument("--peers", default="", metavar="NAMES", help=f"besides {', '.join(peers.DEFAULT)}: any of {', '.join(peers.ON_REQUEST)}, with commas between them")  # fmt: skip
    parser.add_argument("--without-ruby", action="store_true", help="measure ours alone")
    parser.add_argument("--write", metavar="PATH", help="write the table as Markdown")
    options = parser.parse_args(arguments)
    if unknown := set(options.measures) - MEASURES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(MEASURES)}")
    if unknown := set(peer_names(options.peers)) - {*peers.DEFAULT, *peers.ON_REQUEST}:
        parser.error(
            f"unknown: {', '.join(sorted(unknown))}; known are {', '.join((*peers.DEFAULT, *peers.ON_REQUEST))}"
        )
    return options


def peer_names(asked: str) -> tuple[str, ...]:
    """The default peers and those asked for, each once."""
    return tuple(dict.fromkeys([*peers.DEFAULT, *filter(None, asked.split(","))]))


def run(
    sizes: Sizes, chosen: Sequence[str], *, with_ruby: bool, asked: Sequence[str]
) -> tuple[list[Outcome], str]:
    """All outcomes, and the settings under which they came about.

    A measure that fails has its line in the table too, and the others go on.
    """
    outcomes: list[Outcome] = []
    progress = Progress(len(chosen))
    progress.step("installing ours as a user does")
    environment = of_a_user()
    environment.install()
    with stage(
        sizes, progress, with_ruby=with_ruby, peers=asked, python=environment.python
    ) as scene:
        for name in chosen:
            progress.begin(name)
            try:
                found = MEASURES[name](scene)
            except Exception as error:  # noqa: BLE001 - told in the table; the other measures go on
                traceback.print_exc()
                found = [Outcome(what=name, unit="-", failed=True, note=_first_line(error))]
            progress.end()
            for outcome in found:
                print("  ".join(cells(outcome)), flush=True)
            outcomes += found
        return outcomes, settings(scene)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


if __name__ == "__main__":
    sys.exit(main())
