"""What `make build` puts into Lambda's folders, built by the same make targets.

A build takes seconds, so the test processes of one run share it: the first that asks builds.
"""

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

FIXED = {"MAPPINGS_PYTHON": sys.executable, "SOURCE_DATE_EPOCH": "1700000000"}
"""What the manifest is made with, the same wherever it is built."""

ROOT = Path(__file__).parents[2]
MACHINE = {"x86_64": "x86_64", "aarch64": "arm64"}[platform.machine()]
PARTS = ("KiqbridgeLayer", "EnqueueFunction", "MonitorFunction", "TickFunction", "WebFunction")
THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """Where the parts of a build lie, named as `sam build` names them."""

    folder: Path
    output: str = ""

    @property
    def layer(self) -> Path:
        """In Lambda: /opt/python."""
        return self.folder / "KiqbridgeLayer" / "python"

    @property
    def function(self) -> Path:
        """In Lambda: /var/task."""
        return self.folder / "EnqueueFunction"

    def modules(self) -> list[Path]:
        return sorted(self.folder.rglob("*.py"))

    def binaries(self) -> list[Path]:
        return sorted(self.folder.rglob("*.so*"))

    def size(self, function: str) -> int:
        """Bytes of a function and the layer: what Lambda limits to 250 MB."""
        return sum(
            path.stat().st_size
            for part in ("KiqbridgeLayer", function)
            for path in (self.folder / part).rglob("*")
            if path.is_file()
        )


def build(
    folder: Path, *, architecture: str = MACHINE, python: str = THIS_PYTHON, **variables: str
) -> Build:
    """Run the targets that `sam build` runs."""
    output = [
        make(
            f"build-{part}",
            ARTIFACTS_DIR=str(folder / part),
            LAMBDA_ARCHITECTURE=architecture,
            LAMBDA_PYTHON=python,
            **variables,
        )
        for part in PARTS
    ]
    return Build(folder=folder, output="".join(output))


def build_once(folder: Path, **options: str) -> Build:
    """`build`, unless a test process of this run did it; it may be doing it now."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock"):
        done = folder / "output"
        if not done.exists():
            done.write_text(build(folder, **options).output, encoding="utf-8")
        return Build(folder=folder, output=done.read_text(encoding="utf-8"))


def build_layer(folder: Path, requirements: Sequence[str], *, python: str = THIS_PYTHON) -> Path:
    """A layer of other packages, built as ours is, once; the folder that is /opt/python in Lambda."""
    if not folder.exists():
        folder.mkdir(parents=True)
        (folder / "requirements.txt").write_text("\n".join(requirements))
        shutil.copy(ROOT / "constraints.txt", folder)
        subprocess.run(
            ["sh", str(ROOT / ".make/lambda.sh"), "layer", "requirements.txt"],
            cwd=folder,
            env={
                **os.environ,
                **FIXED,
                "ARTIFACTS_DIR": str(folder / "layer"),
                "BUILD_PYTHON": sys.executable,
                "LAMBDA_ARCHITECTURE": MACHINE,
                "LAMBDA_PYTHON": python,
            },
            check=True,
        )
    return folder / "layer" / "python"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make(target: str, *, folder: Path = ROOT, **variables: str) -> str:
    """Run `make TARGET` in a checkout, its variables given as `sam build` gives them; what it said."""
    if "ARTIFACTS_DIR" in variables:
        Path(variables["ARTIFACTS_DIR"]).mkdir(parents=True, exist_ok=True)
    # Not those of a `make test` around us.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "--makefile", str(folder / "Makefile"), target],
        cwd=folder,
        env={**inherited, **FIXED, "BUILD_PYTHON": sys.executable, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"make {target}:\n{said}"
    return said


def left_out(*lists: str) -> list[str]:
    """The patterns of lists of `.make/lambda.sh`: paths that the build leaves out."""
    script = (ROOT / ".make/lambda.sh").read_text(encoding="utf-8")
    return [
        pattern
        for name in lists
        for pattern in re.search(rf"^{name}='\n(.+?)\n'", script, re.MULTILINE | re.DOTALL)[
            1
        ].split()  # type: ignore[index]
    ]


def is_left_out(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Whether a file, by its path in the layer, is or lies in one of these."""
    return any(part.match(pattern) for part in (path, *path.parents) for pattern in patterns)
