"""The wheel, made and checked once for all test processes of a run, and an environment that has it installed."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from support.lambda_build import ROOT, locked


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What `make dist` made, and an environment with the wheel in it, which does not see the checkout."""

    folder: Path

    @property
    def wheel(self) -> Path:
        [path] = self.folder.glob("*.whl")
        return path

    @property
    def venv(self) -> Path:
        return self.folder / "venv"

    @property
    def python(self) -> Path:
        return self.venv / "bin/python"

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text(encoding="utf-8")


def dist_script() -> ModuleType:
    """`.make/dist.py`, which is in no package."""
    spec = importlib.util.spec_from_file_location("dist_script", ROOT / ".make/dist.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_once(folder: Path) -> Distribution:
    """Run `make dist`, unless a test process of this run did it; it may be doing it now."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Distribution(folder=folder)
    with locked(folder / "lock"):
        if not (folder / "output").exists():
            # With the environment that runs the tests, whatever it is called.
            command = [sys.executable, str(ROOT / ".make/dist.py"), str(folder), str(made.venv)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "output").write_text(done.stdout, encoding="utf-8")
    return made
