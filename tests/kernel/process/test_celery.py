"""A small Celery application, as its team wrote it, runs by changing its imports."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until
from support.workers import WorkerProcess

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


@pytest.fixture
def shop(tmp_path, monkeypatch, redis_url):
    """The application with other imports, importable here; what its jobs did is in `notes`."""
    folder = lay_out(tmp_path / "app", changed=True)
    notes = tmp_path / "notes"
    monkeypatch.setenv("SHOP_NOTES", str(notes))
    monkeypatch.setenv("REDIS_URL", redis_url)
    env = {"SHOP_NOTES": str(notes)}
    with WorkerProcess(
        "-r", "shop.tasks", "-q", "default", "-q", "mail", "-c", "2",
        redis_url=redis_url, env=env, python_path=[folder], cwd=folder,
    ) as worker:  # fmt: skip
        worker.wait_for_output("is ready")
        yield folder, notes
        assert worker.stop() == 0


CALLS = """
from shop.tasks import broken, fetch, order, poll, send_mail

order.delay(9, lines=["a", "b"])
send_mail.apply_async(args=(7,), countdown=0.01)
fetch.delay("https://example.com")
poll.delay("disk")
broken.delay()
"""


def test_a_worker_performs_its_tasks_and_tries_again_as_celery_does(shop, redis):
    folder, notes = shop

    subprocess.run([sys.executable, "-c", CALLS], cwd=folder, check=True)

    wanted = {
        "order: 9 with 2", "add: 11", "mail: order to 9", "mail: welcome to 7",
        "fetch: try 0", "fetch: try 1", "broken: once",
    }  # fmt: skip

    def said():
        return notes.read_text("utf-8").splitlines() if notes.exists() else []

    wait_until(lambda: wanted <= set(said()), 30, what=lambda: f"all of it: {said()}")
    wait_until(lambda: said().count("poll: disk") == 2, 30, what=lambda: f"{said()}")
    wait_until(lambda: redis.zcard("dead") == 1, 20, what="the task whose error is final")
    [dead] = redis.zrange("dead", 0, -1)
    assert b'"class":"shop.tasks.broken"' in dead and b'"error_class":"ValueError"' in dead
    wait_until(lambda: redis.zcard("retry") == 0, 20, what="no retries are left")
    assert said().count("broken: once") == 1
