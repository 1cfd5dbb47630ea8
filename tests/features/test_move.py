"""A fleet moves to another server as docs/how_to/move.md says, command by command, while both servers have workers."""

import os
import re
import subprocess
import sys
import time
from collections import Counter

import pytest
import redis as redis_py
from support.documents import blocks
from support.jobs import own_declarations
from support.project import lay_out
from support.servers import embedded_server
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client, job
from kiqbridge.flow import Batch, call

pytestmark = pytest.mark.slow

JOBS = """
import os, time
from pathlib import Path
from kiqbridge import job

MARKS = Path(os.environ["MARKS"])


def note(text):
    with (MARKS / "performed").open("a", encoding="utf-8") as file:
        file.write(f"{text}\\n")


@job(name="Send", queue="mail")
def send(number: int) -> None:
    note(f"send {number}")


@job(name="Slow")
def slow(number: int) -> None:
    (MARKS / f"began {number}").touch()
    while not (MARKS / "go").exists():
        time.sleep(0.01)
    note(f"slow {number}")


@job(name="Note", queue="mail")
def event(text: str) -> None:
    note(text)


@job(name="Hourly", cron="0 * * * *")
def hourly() -> None:
    note("hourly")
"""
PAGE = [
    block
    for block in blocks()
    if block.document == "docs/how_to/move.md" and block.language == "sh"
]
FLEETS = "KIQBRIDGE_FLEETS"


@pytest.fixture
def new():
    with embedded_server() as server, redis_py.Redis.from_url(server.url) as redis:
        redis.url = server.url
        yield redis


@pytest.fixture
def fleets(redis_url, new):
    """The setting of the page, with servers that are there."""
    text = PAGE[0].commands[0].variables[FLEETS]
    urls = {"redis://old.internal:6379/0": redis_url, "redis://new.internal:6379/0": new.url}
    for shown, url in urls.items():
        assert shown in text
        text = text.replace(shown, url)
    return text


class App:
    """The user's folder: commands and workers there, at the old server unless the setting `fleets` says otherwise."""

    def __init__(self, folder, redis_url, fleets):
        self.folder, self.redis_url, self.fleets = folder, redis_url, fleets
        self.workers = []
        lay_out(folder)
        (folder / "jobs.py").write_text(JOBS, encoding="utf-8")

    def start(self, *words, **env):
        env = {"MARKS": str(self.folder), "KIQBRIDGE_LOG_FORMAT": "plain", **env}
        worker = WorkerProcess(*words, redis_url=self.redis_url, cwd=self.folder, env=env)
        self.workers.append(worker)
        return worker

    def run(self, *words, **env):
        done = subprocess.run(
            [sys.executable, "-m", "kiqbridge", *words],
            env={**os.environ, "REDIS_URL": self.redis_url, **env},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def follow(self, number):
        """The commands of a step of the page; what each printed, by its verb."""
        said, setting = {}, {FLEETS: self.fleets}
        for command in PAGE[number].commands:
            if not command.words:
                continue
            verb, *words = command.words[1:]
            if verb == "worker":
                self.start(*words, **setting).wait_for_output("still declare")
                continue
            if verb == "stop":
                (self.folder / "go").touch()
                wait_until(self.is_idle, what="the end of jobs")
            said[verb] = self.run(verb, *words, **setting)
        return said

    def is_idle(self):
        shown = self.run("ps", "--json", "--fleet", "old", **{FLEETS: self.fleets})
        return '"busy": 0' in shown

    def performed(self):
        path = self.folder / "performed"
        return Counter(path.read_text().splitlines() if path.exists() else ())


@pytest.fixture
def app(tmp_path, redis_url, fleets):
    app = App(tmp_path / "app", redis_url, fleets)
    yield app
    for worker in app.workers:
        worker.close()


@pytest.fixture
def batch(redis_url):
    """Makes a batch of 300 jobs for the new workers and three that run for long, and a job for later."""
    with own_declarations():

        @job(name="Note", queue="mail")
        def note(text: str) -> None: ...

        client = Client(redis_url)

        def batch():
            callbacks = {f"on_{event}": call(note, event) for event in ("success", "death")}
            with Batch(client=client, **callbacks) as made:
                for number in range(300):
                    client.push({"class": "Send", "args": [number], "queue": "mail"})
                for number in range(3):
                    client.push({"class": "Slow", "args": [number]})
            later = {"class": "Send", "args": [999], "queue": "mail", "at": time.time() + 3600}
            client.push(later)
            return made

        yield batch
        client.close()


def test_a_fleet_moves_by_the_commands_of_the_page(redis, new, app, batch, monkeypatch):
    old_worker = app.start("-r", "jobs.py", "-q", "default", "-c", "2")
    old_worker.wait_ready()
    wait_until(lambda: redis.hexists("kb:schedules", "Hourly"), what="its schedule")
    app.run("schedule", "save", "nightly", "--cron", "0 3 * * *", "--class", "Report")
    made = batch()
    wait_until((app.folder / "began 1").exists, what="jobs that run")

    assert "  queue mail: 300\n" in app.follow(0)["export"]
    app.follow(1)
    app.follow(2)
    with monkeypatch.context() as deployed:
        deployed.setenv(FLEETS, app.fleets)
        client = Client()
        client.push({"class": "Send", "args": [1000], "queue": "mail"})
        client.close()
    wait_until(lambda: app.performed()["send 1000"], what="what is enqueued from now on")
    assert new.hexists("kb:schedules", "nightly")
    assert not redis.hexists("kb:schedules", "nightly")

    exported = app.follow(3)["export"]
    assert "  queue mail: 300\n" in exported
    assert f"such as {made.bid}: 1\n" in exported
    assert "jobs that workers hold: " in exported
    assert old_worker.wait() == 0

    app.follow(4)
    wait_until(lambda: app.performed()["success"], what="the callback")
    left = app.follow(5)["export"].partition("not exported")[2]

    expected = [*(f"send {n}" for n in (*range(300), 1000)), *(f"slow {n}" for n in range(3))]
    assert app.performed() == Counter([*expected, "success"])
    assert new.zcard("schedule") >= 1
    assert not redis.exists("schedule", "retry", "dead", "queue:mail", "queue:default")
    assert not redis.keys("kb:flow:*")
    assert not re.search(r"batches|queue|set |workers hold", left)

    # Its last worker counts for 90 s more.
    redis.hdel("kb:declared", *(n for n in redis.hkeys("kb:declared") if n[:6] == b"worker"))
    wait_until(lambda: new.hexists("kb:schedules", "Hourly"), what="the declared schedule")
    assert not redis.hexists("kb:schedules", "Hourly")
    assert app.workers[1].stop() == 0
