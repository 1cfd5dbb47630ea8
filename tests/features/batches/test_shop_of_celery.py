"""A small Celery application, as its team wrote it, runs here with its imports and its beat changed."""

import difflib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parents[2] / "support" / "celery_sample"
IMPORT = re.compile(r"^from celery\b", re.MULTILINE)
BEAT = {
    "from kiqbridge.compat.celery.schedules import crontab\n": "",
    'app.conf.beat_schedule = {"n": {"task": "shop.tasks.nightly", "schedule": crontab(hour=4, minute=30)}}\n': "",
    "@app.task\ndef nightly": '@app.task(cron="30 4 * * *")\ndef nightly',
}
"""What is to be edited besides the imports, and what it becomes."""


def lay_out(folder, *, imports=False, beat=False):
    """Copy the application; how many of its lines are changed or removed."""
    shutil.copytree(SAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "shop_tests.py").rename(folder / "test_shop.py")
    changed = 0
    for file in folder.rglob("*.py"):
        before = text = file.read_text("utf-8")
        if imports:
            text = IMPORT.sub("from kiqbridge.compat.celery", text)
        for old, new in BEAT.items() if beat else ():
            text = text.replace(old, new)
        file.write_text(text, "utf-8")
        lines = difflib.ndiff(before.splitlines(), text.splitlines())
        changed += sum(line.startswith("- ") for line in lines)
    return changed


def run(folder, monkeypatch, *command):
    monkeypatch.setenv("SHOP_EAGER", "1")
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(("moved", "lines"), [(False, 0), (True, 7)], ids=["celery", "kiqbridge"])
def test_its_own_tests_pass_with_celery_and_with_kiqbridge(tmp_path, monkeypatch, moved, lines):
    folder = tmp_path / "app"

    assert lay_out(folder, imports=moved, beat=moved) == lines
    ran = run(
        folder,
        monkeypatch,
        *["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "."],
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "19 passed" in ran.stdout


def test_the_first_import_lists_what_is_to_be_edited_besides_the_imports(tmp_path, monkeypatch):
    folder = tmp_path / "app"
    lay_out(folder, imports=True)

    ran = run(folder, monkeypatch, "-c", "import shop.tasks")

    assert re.findall(r"^  (\S+):\d+: (\S+)", ran.stderr, re.MULTILINE) == [
        ("shop/app.py", "celery's"), ("shop/app.py", "conf.beat_schedule:"),
    ]  # fmt: skip
