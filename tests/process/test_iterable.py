"""Iterable jobs across real processes: interrupted, killed, cancelled, and going on elsewhere (§13).

What was processed, and by whom, stands in a file, a line per event in one write.
"""

from typing import NamedTuple

import pytest
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client

pytestmark = pytest.mark.slow

JOBS = """
import asyncio, os, time
from kiqbridge import IterableJob, enumerators

PARENT = os.getppid()  # now: when it is killed there is another one

class Noting(IterableJob, abstract=True):
    def note(self, said):
        worker = PARENT if self.pool == "process" else os.getpid()
        handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
        os.write(handle, f"{worker} {self.jid} {said}\\n".encode())
        os.close(handle)
        while said == os.environ.get("HOLD_AT"):
            time.sleep(0.01)

    def on_start(self):
        self.note("on_start")

    def on_resume(self):
        self.note("on_resume")

    def on_cancel(self):
        self.note("on_cancel")

    def on_stop(self):
        self.note("on_stop")

    def on_complete(self):
        self.note("on_complete")

class Plain(Noting):
    def build_enumerator(self, path, pause_s, *, cursor):
        return enumerators.csv_rows(path, cursor=cursor)

    def each_iteration(self, row, path, pause_s):
        self.note(row["id"])
        time.sleep(pause_s)

class Separate(Plain):
    pool = "process"

class Asynchronous(Noting):
    async def build_enumerator(self, path, pause_s, *, cursor):
        for pair in enumerators.csv_rows(path, cursor=cursor):
            await asyncio.sleep(0)
            yield pair

    async def each_iteration(self, row, path, pause_s):
        self.note(row["id"])
        await asyncio.sleep(pause_s)

class Batches(Noting):
    retry = 0

    def build_enumerator(self, path, pause_s, *, cursor):
        return enumerators.batches(enumerators.csv_rows(path, cursor=cursor), 10)

    def each_iteration(self, rows, path, pause_s):
        for row in rows:
            self.note(row["id"])
        time.sleep(pause_s)
"""
RECOVER_AFTER_S = 3
"""Generous for a busy machine: a worker that is starved for longer would be taken for dead."""


class Note(NamedTuple):
    pid: int
    jid: str
    said: str


class Stage:
    """Workers on the jobs above, a CSV file of rows 0, 1, 2 …, and what was noted."""

    def __init__(self, folder, url, redis):
        self._folder, self._url, self.redis = folder, url, redis
        self.client = Client(url)
        self.workers = []
        (folder / "jobs.py").write_text(JOBS)

    def start(self, *args, **env):
        worker = WorkerProcess(
            *("-r", str(self._folder / "jobs.py"), "-c", "1", *args),
            redis_url=self._url,
            env={
                "NOTES": str(self._folder / "notes"),
                "KIQBRIDGE_RECOVER_AFTER_S": str(RECOVER_AFTER_S),
                **env,
            },
        )
        self.workers.append(worker)
        worker.wait_ready()
        return worker

    def push(self, name, count, pause_s):
        path = self._folder / f"{count}.csv"
        path.write_text("id\n" + "".join(f"{number}\n" for number in range(count)))
        return self.client.push({"class": name, "args": [str(path), pause_s]})

    def notes(self, jid, pid=None):
        """What was said about a job, by all or by one process."""
        try:
            text = (self._folder / "notes").read_text()
        except FileNotFoundError:
            return []
        text = text[: text.rfind("\n") + 1]  # a line may be read while it is written
        notes = [Note(int(p), j, s) for p, j, s in map(str.split, text.splitlines())]
        return [each.said for each in notes if each.jid == jid and pid in (None, each.pid)]

    def items(self, jid, pid=None):
        return [int(said) for said in self.notes(jid, pid) if said.isdecimal()]

    def wait_for_items(self, jid, count, pid=None):
        wait_until(
            lambda: len(self.items(jid, pid)) >= count,
            30,
            lambda: f"{count} items of {jid}: {self.notes(jid, pid)}; {self.workers[-1].output}",
        )

    def wait_complete(self, jid):
        wait_until(
            lambda: "on_complete" in self.notes(jid) and not self.redis.exists(f"it-{jid}"),
            45,
            lambda: f"the end of {jid}: {self.notes(jid)}; {self.workers[-1].output}",
        )

    def counted(self, name):
        return int(self.redis.get(f"stat:{name}") or 0)

    def close(self):
        for worker in self.workers:
            worker.close()
        self.client.close()


@pytest.fixture
def stage(tmp_path, redis_url, redis):
    stage = Stage(tmp_path, redis_url, redis)
    try:
        yield stage
    finally:
        stage.close()


def callbacks(notes):
    return [said for said in notes if not said.isdecimal()]


def nothing_waits(redis):
    return not redis.exists("queue:default", "retry", "dead", "schedule")


@pytest.mark.parametrize("name", ["Plain", "Asynchronous", "Separate"])
def test_a_deploy_moves_a_job_to_the_next_process_without_missing_or_repeating_an_item(name, stage):
    first = stage.start()
    jid = stage.push(name, 200, 0.01)
    stage.wait_for_items(jid, 20)

    assert first.stop() == 0
    assert stage.redis.llen("queue:default") == 1
    second = stage.start()
    stage.wait_complete(jid)
    assert second.stop() == 0

    assert stage.items(jid) == list(range(200))
    begun = stage.items(jid, first.pid)
    assert 20 <= len(begun) < 200
    assert stage.items(jid, second.pid) == list(range(len(begun), 200))
    assert callbacks(stage.notes(jid)) == [
        "on_start",
        "on_stop",
        "on_resume",
        "on_stop",
        "on_complete",
    ]
    assert (stage.counted("processed"), stage.counted("failed")) == (2, 1)
    assert nothing_waits(stage.redis)


@pytest.mark.parametrize("name", ["Plain", "Asynchronous", "Separate", "Batches"])
def test_after_a_kill_a_job_goes_on_from_the_last_flush(name, stage, tell):
    count = 2000 if name == "Batches" else 200
    first = stage.start(HOLD_AT=str(count - 1))  # however late the kill comes
    jid = stage.push(name, count, 0.04)
    wait_until(lambda: stage.redis.hexists(f"it-{jid}", "c"), 30, "the first flush")
    offset = int(stage.redis.hget(f"it-{jid}", "c"))
    saved = sum(1 for number in range(count) if len("id\n") + digits(number) < offset)
    stage.wait_for_items(jid, saved + 10)

    first.kill()
    offset = int(stage.redis.hget(f"it-{jid}", "c"))  # there may have been another flush
    saved = sum(1 for number in range(count) if len("id\n") + digits(number) < offset)
    second = stage.start()
    stage.wait_complete(jid)

    begun, resumed = stage.items(jid, first.pid), stage.items(jid, second.pid)
    assert begun == list(range(len(begun)))
    assert resumed == list(range(saved, count))
    assert len(begun) >= saved > 0
    tell(f"{name} killed: {len(begun) - saved} of {count} items processed again")
    assert callbacks(stage.notes(jid)) == ["on_start", "on_resume", "on_stop", "on_complete"]
    assert nothing_waits(stage.redis)


def digits(number):
    """Bytes of the lines before that of a number."""
    return sum(len(str(each)) + 1 for each in range(number))


@pytest.mark.parametrize("name", ["Plain", "Asynchronous", "Separate"])
def test_a_running_job_is_cancelled_within_a_flush(name, stage):
    worker = stage.start()
    jid = stage.push(name, 2000, 0.01)
    stage.wait_for_items(jid, 5)

    stage.redis.hsetnx(f"it-{jid}", "cancelled", 1_700_000_000)  # as Ruby does it
    stage.redis.expire(f"it-{jid}", 30 * 86_400)
    stage.wait_complete(jid)

    assert 5 <= len(stage.items(jid)) < 1000
    assert callbacks(stage.notes(jid)) == ["on_start", "on_cancel", "on_stop", "on_complete"]
    assert worker.stop() == 0
    assert (stage.counted("processed"), stage.counted("failed")) == (1, 0)
    assert nothing_waits(stage.redis)
