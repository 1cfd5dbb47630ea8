"""A run of pytest as a user of our plugin has it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path) -> str:
    """What pytest prints about the tests there."""
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --import-mode=importlib -rA\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "kiqbridge_pytest"],
        env={
            **os.environ,
            # Without entry points: whether this environment was installed anew since one was added
            # must not matter.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT / "worker"),
        },
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return result.stdout + result.stderr
