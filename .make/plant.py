"""Plants real mistakes, one line each, and shows which tests turn red.

    .venv/bin/python .make/plant.py              every fault of .make/plants.tsv
    .venv/bin/python .make/plant.py --some 10    that many at random, as `make prove` does
    .venv/bin/python .make/plant.py push_once    those with this in their name

Each is planted in a copy of the package, which comes first on the import path, and the tests named beside it run:
those of `make test` that should see it. Ends with 1 if one stays green, or if its line is not there any more.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "worker" / "kiqbridge"
TABLE = Path(__file__).with_name("plants.tsv")


class Fault(NamedTuple):
    """A mistake: in this file a line has `new` in the place of `old`."""

    file: str
    why: str
    old: str
    new: str
    tests: tuple[str, ...]

    @classmethod
    def read(cls, line: str) -> "Fault":
        """A line of the table."""
        file, why, old, new, tests = line.split("\t")
        return cls(file, why, old.replace(r"\n", "\n"), new.replace(r"\n", "\n"), (*tests.split(),))

    @property
    def name(self) -> str:
        """For the list, and to choose it."""
        return f"{self.file}: {self.why}"

    def planted(self) -> str:
        """The file's text with the fault; ends the run if its line is not there once."""
        text = (SOURCE / self.file).read_text(encoding="utf-8")
        if (found := text.count(self.old)) != 1:
            sys.exit(
                f"{self.name}: {self.old!r} is there {found} times: write its row in {TABLE.name} anew"
            )
        return text.replace(self.old, self.new)


def first_red(folder: Path, tests: Iterable[str]) -> str | None:
    """The first test that fails with the package in this folder; None if all are green."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-xqrfE",
        "-p",
        "no:cacheprovider",
        "--quick",
        "--tb=no",
    ]
    ran = subprocess.run(  # noqa: S603 - our own tests
        [*command, *(f"tests/{name}" for name in tests)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 0:
        return None
    failed = [line for line in ran.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failed:
        sys.exit(
            f"the tests {' '.join(tests)} did not run:\n{ran.stdout[-2000:]}{ran.stderr[-2000:]}"
        )
    return failed[0].split(" - ")[0]


def main() -> int:
    """Plant what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names; none: all")
    parser.add_argument("--some", type=int, help="so many at random")
    asked = parser.parse_args()
    _, *lines = TABLE.read_text(encoding="utf-8").splitlines()
    texts = {fault: fault.planted() for fault in map(Fault.read, lines)}  # all fit, or nothing runs
    chosen = [
        fault
        for fault in texts
        if not asked.names or any(name in fault.name for name in asked.names)
    ]
    if not chosen:
        sys.exit(f"no fault has one of {asked.names} in its name")
    if asked.some:
        chosen = random.sample(chosen, min(asked.some, len(chosen)))
    green = 0
    with tempfile.TemporaryDirectory(prefix="kiqbridge-plant-") as made:
        folder = Path(made)
        shutil.copytree(SOURCE, folder / "kiqbridge")
        if red := first_red(folder, sorted({test for fault in chosen for test in fault.tests})):
            sys.exit(f"without any fault, {red}")
        for fault in chosen:
            place = folder / "kiqbridge" / fault.file
            before = place.read_text(encoding="utf-8")
            place.write_text(texts[fault], encoding="utf-8")
            red = first_red(folder, fault.tests)
            place.write_text(before, encoding="utf-8")
            print(f"{'red  ' if red else 'GREEN'} {fault.name}: {red or fault.tests}", flush=True)  # noqa: T201
            green += not red
    print(f"{len(chosen) - green} of {len(chosen)} planted faults were found")  # noqa: T201
    return 1 if green else 0


if __name__ == "__main__":
    sys.exit(main())
