"""Virtual environments: what is measured is installed as its users install it, without the packages of the tests.

That matters for a start: redis-py imports OpenTelemetry where it is installed, and that of the tests has it.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".kiqbridge" / "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """One of its own, with what pip installs into it.

    Attributes:
        packages: as words of `pip install`.
        interpreter: that makes it; empty: that of the benchmark.
        made_from: files whose change makes it anew.
    """

    name: str
    packages: tuple[str, ...]
    interpreter: str = ""
    made_from: tuple[Path, ...] = ()

    @property
    def folder(self) -> Path:
        return ENVIRONMENTS / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        [found] = self.folder.glob("lib/python3*/site-packages")
        return found

    def version_of(self, package: str) -> str:
        """Of an installed package, or `not installed`."""
        if not self.python.exists():
            return "not installed"
        ask = f"import importlib.metadata as m; print(m.version({package!r}))"
        done = subprocess.run([str(self.python), "-c", ask], capture_output=True, text=True, check=False)  # fmt: skip
        return done.stdout.strip() or "not installed"

    def install(self) -> None:
        """Make it, once.

        Raises:
            AssertionError: it cannot be made, and why.
        """
        marker = self.folder / "installed.json"
        interpreter = self.interpreter or sys.executable
        content = [interpreter, *self.packages, *(each.read_text() for each in self.made_from)]
        if marker.exists() and json.loads(marker.read_text()) == content:
            return
        pip = [str(self.python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        for command in ([interpreter, "-m", "venv", "--clear", str(self.folder)], [*pip, *self.packages]):  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            assert done.returncode == 0, f"{self.name} cannot be installed: {last}"
        marker.write_text(json.dumps(content))


CONSTRAINTS = ROOT / "constraints.txt"
[LAMBDA_PYTHON] = set(re.findall(r"Default: python(.+)", (ROOT / "template.yaml").read_text()))


def of_a_user() -> Environment:
    """That of somebody who installs `kiqbridge[uvloop,worker]`; it runs the code of this checkout."""
    return Environment(
        name="kiqbridge",
        packages=("-c", str(CONSTRAINTS), "-e", f"{ROOT}[uvloop,worker]"),
        made_from=(CONSTRAINTS, ROOT / "pyproject.toml"),
    )


def of_lambda() -> Environment:
    """Python of the version that template.yaml names, with Lambda's runtime client.

    Raises:
        AssertionError: there is no such Python here.
    """
    find = [str(ROOT / ".make/python.sh"), "find", LAMBDA_PYTHON]
    found = subprocess.run(find, capture_output=True, text=True, check=False).stdout.strip()
    assert found, f"the function runs on Python {LAMBDA_PYTHON}, which is not on this machine"
    return Environment(
        name="lambda",
        packages=("-c", str(CONSTRAINTS), "awslambdaric"),
        interpreter=found,
        made_from=(CONSTRAINTS,),
    )
