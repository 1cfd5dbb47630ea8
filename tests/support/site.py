"""The documentation as a site, built as `make site` builds it."""

import os
import subprocess
import sys
from pathlib import Path

from support.documents import ROOT


def build_site(folder: Path) -> Path:
    """Build it into a folder, strictly: a warning is an error."""
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert build.returncode == 0, build.stderr
    return folder
