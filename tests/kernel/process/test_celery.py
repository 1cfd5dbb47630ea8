"""A small Celery application, as its team wrote it, runs by changing its imports."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "support" / "celery_sample"
IMPORT = re.compile(r"^from celery\b", re.MULTILINE)


def lay_out(folder, *, changed):
    """Copy the application; `changed`: with other imports."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "shop_tests.py").rename(folder / "test_shop.py")
    for file in folder.rglob("*.py"):
        text = file.read_text("utf-8")
        if changed:
            text = IMPORT.sub("from kiqbridge.compat.celery", text)
        file.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("changed", [False, True], ids=["celery", "kiqbridge"])
def test_its_own_tests_pass_with_celery_and_with_kiqbridge(tmp_path, monkeypatch, changed):
    folder = lay_out(tmp_path / "app", changed=changed)
    monkeypatch.setenv("SHOP_EAGER", "1")

    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert run.returncode == 0, run.stdout + run.stderr
    assert "17 passed" in run.stdout
