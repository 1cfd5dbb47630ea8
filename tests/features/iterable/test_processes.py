"""Iterable jobs across real processes: interrupted, killed, cancelled, and going on elsewhere (§13).

What was processed, and by whom, stands in a file, a line per event in one write.
"""

import pytest
from support.notes import Notes
from support.waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def seen(tmp_path):
    """What the jobs note."""
    return Notes(tmp_path)


JOBS = """
import asyncio, os, time
from kiqbridge import IterableJob, enumerators
from support.noting import note

PARENT = os.getppid()  # now: when it is killed there is another one

class Noting(IterableJob, abstract=True):
    def note(self, said):
        worker = PARENT if self.pool == "process" else os.getpid()
        note(self.jid, worker=worker, said=said)
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
FLAGS = ("-c", "1")
ENV = {"KIQBRIDGE_RECOVER_AFTER_S": "3"}
"""Generous for a busy machine: a worker that is starved for longer would be taken for dead."""


class Stage:
    """A CSV file of rows 0, 1, 2 …, and what was noted of its jobs."""

    def __init__(self, folder, client, redis, seen):
        self._folder, self._client, self.redis, self._seen = folder, client, redis, seen

    def push(self, name, count, pause_s):
        path = self._folder / f"{count}.csv"
        path.write_text("id\n" + "".join(f"{number}\n" for number in range(count)))
        return self._client.push({"class": name, "args": [str(path), pause_s]})

    def notes(self, jid, pid=None):
        """What was said about a job, by all or by one process."""
        notes = self._seen.all(jid)
        return [each["said"] for each in notes if pid in (None, each["worker"])]

    def items(self, jid, pid=None):
        return [int(said) for said in self.notes(jid, pid) if said.isdecimal()]

    def wait_for_items(self, jid, count, pid=None):
        wait_until(
            lambda: len(self.items(jid, pid)) >= count,
            30,
            lambda: f"{count} items of {jid}: {self.notes(jid, pid)}",
        )

    def wait_complete(self, jid):
        wait_until(
            lambda: "on_complete" in self.notes(jid) and not self.redis.exists(f"it-{jid}"),
            45,
            lambda: f"the end of {jid}: {self.notes(jid)}",
        )

    def counted(self, name):
        return int(self.redis.get(f"stat:{name}") or 0)


@pytest.fixture
def stage(folder, client, redis, seen):
    return Stage(folder, client, redis, seen)


def callbacks(notes):
    return [said for said in notes if not said.isdecimal()]


def nothing_waits(redis):
    return not redis.exists("queue:default", "retry", "dead", "schedule")


@pytest.mark.parametrize("name", ["Plain", "Asynchronous", "Separate"])
def test_a_deploy_moves_a_job_to_the_next_process_without_missing_or_repeating_an_item(
    name, start, stage
):
    first = start()
    jid = stage.push(name, 200, 0.01)
    stage.wait_for_items(jid, 20)

    assert first.stop() == 0
    assert stage.redis.llen("queue:default") == 1
    second = start()
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
def test_after_a_kill_a_job_goes_on_from_the_last_flush(name, start, stage, tell):
    count = 2000 if name == "Batches" else 200
    first = start(HOLD_AT=str(count - 1))  # however late the kill comes
    jid = stage.push(name, count, 0.04)
    wait_until(lambda: stage.redis.hexists(f"it-{jid}", "c"), 30, "the first flush")
    offset = int(stage.redis.hget(f"it-{jid}", "c"))
    saved = sum(1 for number in range(count) if len("id\n") + digits(number) < offset)
    stage.wait_for_items(jid, saved + 10)

    first.kill()
    offset = int(stage.redis.hget(f"it-{jid}", "c"))  # there may have been another flush
    saved = sum(1 for number in range(count) if len("id\n") + digits(number) < offset)
    second = start()
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
def test_a_running_job_is_cancelled_within_a_flush(name, start, stage):
    worker = start()
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
