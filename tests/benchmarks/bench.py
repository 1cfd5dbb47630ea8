"""`make bench`: all measures, beside Ruby's Sidekiq and the Python peers in the same run.

    python tests/benchmarks/bench.py [--quick] [--update] [--peers saq,rq] [MEASURE …]
    python tests/benchmarks/bench.py table | page

The runs alternate, and the table gives medians and their ratio, since machines are noisy. A full run
of all measures stores its results and writes docs/explanation/benchmarks.md; `table` measures the lines that come
first on it, and `page` writes it without measuring.
"""

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
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
    page,
    peers,
    schedules,
    throughput,
    wake_ups,
)
from benchmarks.environments import of_a_user
from benchmarks.outcome import Outcome, as_text, cells
from benchmarks.progress import Progress
from benchmarks.report import load, settings, store
from benchmarks.sizes import FULL, QUICK, TABLE, TINY, Sizes
from benchmarks.stage import Stage, stage
from support.ruby import has_debian_13, has_ruby_sidekiq

Measure = Callable[[Stage], list[Outcome]]
GROUPS = {
    throughput: "Jobs per second",
    moods: "Jobs that lock, write and wait",
    latency: "Time from push to begin",
    enqueuing: "Pushes",
    front_door: "The enqueue function in Lambda",
    schedules: "Schedules",
    idle: "Idle workers and memory",
    fleets: "Many idle processes, and a deploy",
    carrying: "What a server carries",
    wake_ups: "A push into an idle fleet",
    peers: "Beside Python peers",
}
MEASURES: dict[str, Measure] = {each.__name__: each for module in GROUPS for each in module.MEASURES}  # fmt: skip
TITLES = {each.__name__: title for module, title in GROUPS.items() for each in module.MEASURES}
SIZES = {"full": FULL, "table": TABLE, "quick": QUICK, "tiny": TINY}
DECIDING = ("noted", "push", "bulk", "pickup", "start", "memory", "real_fleet", "function")
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "benchmarks.md"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.measures == ["page"]:
        page.write(PAGE, *load(), TITLES)
        return 0
    if options.measures == ["table"]:
        options.measures = list(DECIDING)
        options.size = "table" if options.size == "full" else options.size
    sizes = SIZES[options.size]
    with_ruby = has_ruby_sidekiq() and not options.without_ruby
    if not has_ruby_sidekiq():
        print("Ruby Sidekiq is not installed (apt install ruby-sidekiq): measuring ours alone.")
    elif not has_debian_13():
        print("Debian 13 is not unpacked (make .debian13/.root): Sidekiq 7.3 is not measured.")
    began = time.monotonic()
    outcomes, told = run(
        sizes,
        options.measures or list(MEASURES),
        with_ruby=with_ruby,
        asked=peer_names(options.peers),
    )
    took = f"{time.monotonic() - began:.0f} s"
    taken = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {options.size} run of {took}"
    outcomes = [replace(each, taken=taken) for each in outcomes]
    print("\n".join(["", taken, *told, "", as_text(outcomes), ""]))
    if chosen := page.deciding(outcomes):
        print(page.table(told, chosen) + "\n")
    if options.update or (sizes is FULL and not options.measures):
        if options.measures:
            told, stored = load()
            outcomes = updated(stored, outcomes)
        store(told, outcomes)
        page.write(PAGE, told, outcomes, TITLES)
        print(f"written: {PAGE}")
    else:
        print(
            "docs/explanation/benchmarks.md is written by a full run of all measures (make bench)."
        )
    print(f"{len(outcomes)} lines in {took}")
    return 1 if any(outcome.failed for outcome in outcomes) else 0


def updated(stored: Sequence[Outcome], found: Sequence[Outcome]) -> list[Outcome]:
    """What is stored, with the lines that were measured anew in place of theirs."""
    anew = {each.measure for each in found}
    kept = [each for each in stored if each.measure not in anew]
    names = list(MEASURES)
    return sorted([*kept, *found], key=lambda each: names.index(each.measure))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"default: all of {', '.join(MEASURES)}; or table, or page")  # fmt: skip
    parser.add_argument("--size", choices=SIZES, default="full", help="default: %(default)s")
    parser.add_argument("--quick", action="store_const", dest="size", const="quick", help="under 2 minutes, one round of each")  # fmt: skip
    parser.add_argument("--peers", default="", metavar="NAMES", help=f"besides {', '.join(peers.DEFAULT)}: any of {', '.join(peers.ON_REQUEST)}, with commas between them")  # fmt: skip
    parser.add_argument("--without-ruby", action="store_true", help="measure ours alone")
    parser.add_argument("--update", action="store_true", help="store these results in place of those of the last full run, and write docs/explanation/benchmarks.md")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.measures not in (["table"], ["page"]) and (unknown := set(options.measures) - MEASURES.keys()):  # fmt: skip
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
) -> tuple[list[Outcome], list[str]]:
    """All outcomes, and the settings under which they were measured.

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
            outcomes += [replace(each, measure=name) for each in found]
        return outcomes, settings(scene)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


if __name__ == "__main__":
    sys.exit(main())
