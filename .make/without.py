"""`without.py NAME…`: whether the rest works where features are taken away; `all` names all of them at once.

Copies the tree, removes the folders of these features and of those that need them, with their tests, and runs there:
the checker of types, the layering test, the tests of the kernel, and `kiqbridge dev` until a job was performed.

    .venv/bin/python .make/without.py limiters                 without this one
    .venv/bin/python .make/without.py all --some 3 --quick     as CI: all at once, and three at random; few tests
    .venv/bin/python .make/without.py all --some 99            as `make prove`: all at once, and each
"""

# ruff: noqa: INP001, S603, T201 - a script of the Makefile, in no package, with its own arguments
import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
FEATURES = "worker/kiqbridge/features"
PLACES = (FEATURES, "tests/features", "lambdas")
TESTS = ("tests/test_layers.py", "tests/kernel/unit", "tests/kernel/redis", "tests/kernel/lambdas")
FEW = (
    "tests/kernel/unit/test_execution.py",
    "tests/kernel/unit/test_job.py",
    "tests/kernel/redis/test_client.py",
    "tests/operate/test_parser.py",
)
CACHE = ROOT / ".mypy_cache_without"
JOB = "HealthPulse"
PATIENT_S = 120.0


def main() -> int:
    """Returns 1 if something of it does not work."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="a feature, or all")
    parser.add_argument("--some", type=int, default=0, help="then so many more, one by one")
    parser.add_argument("--quick", action="store_true", help="run types, few tests and dev")
    options = parser.parse_args()
    known = sorted(path.parent.name for path in (ROOT / FEATURES).glob("*/__init__.py"))
    unknown = set(options.names) - {*known, "all"}
    if unknown:
        parser.error(
            f"there is no feature {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    gone = known if "all" in options.names else with_dependants(options.names)
    some = random.sample(known, min(options.some, len(known)))
    if (checked := ROOT / ".mypy_cache").exists() and not CACHE.exists():
        shutil.copytree(checked, CACHE)  # what `make check` found is true of most modules
    failed = 0
    for names in (gone, *(with_dependants([name]) for name in some)):
        with tempfile.TemporaryDirectory(prefix="kiqbridge-without-") as folder:
            copy_without(Path(folder), names)
            failed |= run_all(Path(folder), names, is_quick=options.quick)
    return failed


def with_dependants(names: Sequence[str]) -> list[str]:
    """These features, and those that cannot be without them, by NEEDS of the layering test."""
    gone = set(names)
    while (
        more := {name for name, others in said("NEEDS").items() if gone & set(others.split())}
        - gone
    ):
        gone |= more
    return sorted(gone)


def said(name: str) -> dict[str, str]:
    """A table of the layering test."""
    tree = ast.parse((ROOT / "tests/test_layers.py").read_text("utf-8"))
    found: dict[str, str] = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return found


def copy_without(folder: Path, gone: Sequence[str]) -> None:
    """Copy what git knows, without these features, their functions and their tests."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    doors = [f"worker/kiqbridge/{door}" for door, name in said("DOORS").items() if name in gone]
    left_out = (
        *(f"{place}/{name}/" for place in PLACES for name in gone),
        *doors,
    )
    for name in filter(None, listed.decode().split("\0")):
        is_of_all = name.startswith("tests/features/test_")
        if not name.startswith(left_out) and not is_of_all and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for place, names in said("LINES").items():
        for name in set(names.split()) & set(gone):
            path = folder / "worker/kiqbridge" / place
            named = re.escape(f"kiqbridge.features.{name}.")
            # A block of `if TYPE_CHECKING:` may hold nothing else.
            text = path.read_text("utf-8")
            for public in re.findall(rf"from {named}\w+ import (\w+)$", text, re.MULTILINE):
                text = re.sub(rf' "{public}",', "", text)  # of __all__
            text = re.sub(rf"^( +)from {named}.*", r"\1pass", text, flags=re.MULTILINE)
            path.write_text(re.sub(rf"^.*{named}.*\n", "", text, flags=re.MULTILINE), "utf-8")


def run_all(folder: Path, gone: Sequence[str], *, is_quick: bool) -> int:
    """Run all that must work, and name what does not."""
    python = str(ROOT / ".venv/bin/python")
    env = {**os.environ, "PYTHONPATH": str(folder / "worker")}
    test = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
    steps = {"types": ["-m", "mypy", "--cache-dir", str(CACHE)]}
    if is_quick:
        steps["tests"] = [*test, *FEW]
    else:
        steps["tests"] = [*test, "-n", "4", *TESTS]
    failed = []
    for name, words in steps.items():
        done = subprocess.run(
            [python, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        lines = done.stdout.strip().splitlines()
        print(f"{name}: {lines[-1] if lines else done.stderr.strip()}", flush=True)
        if done.returncode:
            failed.append(name)
            print("\n".join(lines[-60:]), done.stderr[-2000:])
    if not performs_a_job(python, folder, env):
        failed.append("dev")
    word = f"failed: {', '.join(failed)}" if failed else "all is well"
    print(f"without {', '.join(gone)}: {word}")
    return int(bool(failed))


def performs_a_job(python: str, folder: Path, env: dict[str, str]) -> bool:
    """Run `kiqbridge dev` until it has performed a job."""
    words = [python, "-m", "kiqbridge", "dev", "--fresh", "--fire", JOB]
    lines = list[str]()
    with subprocess.Popen(
        words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        guard = threading.Timer(PATIENT_S, process.kill)
        guard.start()
        for line in process.stdout or ():
            lines.append(line)
            if "done " in line and JOB in line:
                process.terminate()
                break
        guard.cancel()
    print("dev:", lines[-1].strip() if process.returncode == 0 else "".join(lines[-40:]))
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
