"""A fleet moves to another server as docs/move.md says, command by command, while both servers have workers."""

import json
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
PAGE = [block for block in blocks() if block.document == "docs/move.md" and block.language == "sh"]
FLEETS = "KIQBRIDGE_FLEETS"


@pytest.fixture
def new():
    with embedded_server() as server, redis_py.Redis.from_url(server.url) as redis:
        redis.url = server.url
        yield redis


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "app"
    lay_out(folder)
    (folder / "jobs.py").write_text(JOBS, encoding="utf-8")
    return folder


@pytest.fixture
def fleets(redis_url, new):
    """The setting of the page, with servers that are there."""
    text = PAGE[0].commands[0].variables[FLEETS]
    urls = {"redis://old.internal:6379/0": redis_url, "redis://new.internal:6379/0": new.url}
    for shown, url in urls.items():
        assert shown in text
        text = text.replace(shown, url)
    return text


@pytest.fixture
def note():
    """As the workers declare it."""
    with own_declarations():

        @job(name="Note", queue="mail")
        def note(text: str) -> None: ...

        yield note


@pytest.fixture
def performed(tmp_path):
    def performed():
        path = tmp_path / "performed"
        return Counter(path.read_text().splitlines() if path.exists() else ())

    return performed


def test_a_fleet_moves_by_the_commands_of_the_page(
    redis, redis_url, new, folder, fleets, performed, note, tmp_path, monkeypatch
):
    env = {"MARKS": str(tmp_path), "KIQBRIDGE_LOG_FORMAT": "plain"}
    workers = []

    def start(*words, **more):
        worker = WorkerProcess(*words, redis_url=redis_url, cwd=folder, env={**env, **more})
        workers.append(worker)
        return worker

    def run(words, **more):
        command = [sys.executable, "-m", "kiqbridge", *words]
        done = subprocess.run(
            command,
            env={**os.environ, "REDIS_URL": redis_url, **more},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def follow(number):
        """The commands of a step of the page; what each printed, by its verb."""
        said = {}
        for command in PAGE[number].commands:
            if command.words[1:2] == ["worker"]:
                start(*command.words[2:], KIQBRIDGE_FLEETS=fleets).wait_for_output("still declare")
            elif command.words:
                if command.words[1] == "stop":
                    (tmp_path / "go").touch()
                    wait_until(lambda: '"busy": 0' in ps(), what="the end of what runs")
                said[command.words[1]] = run(command.words[1:], KIQBRIDGE_FLEETS=fleets)
        return said

    def ps():
        return run(["ps", "--json", "--fleet", "old"], KIQBRIDGE_FLEETS=fleets)

    try:
        old_worker = start("-r", "jobs.py", "-q", "default", "-c", "2")
        old_worker.wait_ready()
        wait_until(lambda: redis.hexists("kb:schedules", "Hourly"), what="its schedule")
        run(["schedule", "save", "nightly", "--cron", "0 3 * * *", "--class", "Report"])
        client = Client(redis_url)
        callbacks = {f"on_{event}": call(note, event) for event in ("success", "death")}
        with Batch(client=client, **callbacks) as batch:
            for number in range(300):
                client.push({"class": "Send", "args": [number], "queue": "mail"})
            for number in range(3):
                client.push({"class": "Slow", "args": [number]})
        client.push({"class": "Send", "args": [999], "queue": "mail", "at": time.time() + 3600})
        wait_until(lambda: (tmp_path / "began 1").exists(), what="jobs that run")

        step = follow(0)
        assert "  queue mail: 300\n" in step["export"]
        follow(1)
        follow(2)
        monkeypatch.setenv(FLEETS, fleets)
        with_fleets = Client()
        with_fleets.push({"class": "Send", "args": [1000], "queue": "mail"})
        with_fleets.close()
        wait_until(lambda: performed()["send 1000"], what="what is enqueued from now on")
        assert new.hexists("kb:schedules", "nightly")
        assert not redis.hexists("kb:schedules", "nightly")

        step = follow(3)
        assert "  queue mail: 300\n" in step["export"]
        assert f"such as {batch.bid}: 1\n" in step["export"]
        assert "jobs that workers hold: " in step["export"]
        assert old_worker.wait() == 0

        follow(4)
        wait_until(lambda: performed()["success"], what="the callback")
        left = follow(5)["export"]

        expected = [*(f"send {n}" for n in (*range(300), 1000)), *(f"slow {n}" for n in range(3))]
        assert performed() == Counter([*expected, "success"])
        assert new.zcard("schedule") >= 1
        assert not redis.exists("schedule", "retry", "dead", "queue:mail", "queue:default")
        assert not redis.keys("kb:flow:*")
        assert not re.search(r"batches|queue|set |workers hold", left.partition("not exported")[2])

        # Its last worker is counted for 90 s more.
        redis.hdel("kb:declared", *(n for n in redis.hkeys("kb:declared") if n[:6] == b"worker"))
        wait_until(lambda: new.hexists("kb:schedules", "Hourly"), what="the declared schedule")
        assert not redis.hexists("kb:schedules", "Hourly")
        assert [worker.stop() for worker in workers[1:]] == [0]
        client.close()
    finally:
        for worker in workers:
            worker.close()
