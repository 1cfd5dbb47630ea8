"""Child processes that cannot start are no failure of a job: it goes back, and the worker says that it is not ready."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import ran
from support.workers import WorkerProcess

TESTS = Path(__file__).parents[2]
JOBS = f"""
import sys
sys.path.append({str(TESTS)!r})
from support.noting import note
from kiqbridge import job

@job(name="InThread")
def in_thread(number):
    note("thread", code=CODE, number=number)

@job(name="InPool", pool="process", retry=False)
def in_pool(number):
    note("pool", code=CODE, number=number)

@job(name="AsyncInPool", pool="process", retry=False)
async def async_in_pool(number):
    note("pool", number=number)

@job(name="Streams")
def streams():
    import os
    note("streams", targets=[os.readlink(f"/proc/self/fd/{{number}}") for number in range(3)])
"""


@pytest.fixture
def release(tmp_path):
    """Makes the folder of a release, with its jobs."""

    def make(name):
        folder = tmp_path / "releases" / name
        folder.mkdir(parents=True)
        (folder / "jobs.py").write_text(JOBS.replace("CODE", repr(name)))
        return folder

    return make


@pytest.fixture
def work(redis_url, tmp_path):
    """Starts workers, each with a run folder of its own; `work.env(number)` is that of `kiqbridge health`."""
    workers = []

    def env(number=1):
        return {
            "REDIS_URL": redis_url,
            "MARKS": str(tmp_path),
            "KIQBRIDGE_RUN_DIR": str(tmp_path / f"run{number}"),
            "KIQBRIDGE_LOG_FORMAT": "plain",
            "KIQBRIDGE_POOL_SIZE": "2",
        }

    def start(*flags, cwd, number=1):
        worker = WorkerProcess("-c", "3", *flags, redis_url=redis_url, cwd=cwd, env=env(number))
        workers.append(worker)
        worker.wait_ready()
        return worker

    start.env = env
    yield start
    for worker in workers:
        print(worker.output)  # shown if the test has failed
        worker.close()


def test_a_child_loads_the_code_of_its_worker_after_a_deploy_has_turned_the_link(
    release, work, client, seen, tmp_path
):
    current = tmp_path / "current"
    current.symlink_to(release("one"))
    work("-r", str(current / "jobs.py"), cwd=tmp_path)

    current.unlink()
    current.symlink_to(release("two"))
    for name in ("InThread", "InPool"):
        client.push({"class": name, "args": [1]})

    [in_pool], [in_thread] = seen.wait("pool"), seen.wait("thread")
    assert (in_thread["code"], in_pool["code"]) == ("one", "one")


def test_its_jobs_wait_for_a_child_that_can_start_and_none_is_failed(
    release, work, client, seen, redis
):
    folder = release("one")
    worker = work("-r", "jobs.py", cwd=folder)
    code = (folder / "jobs.py").read_text()
    (folder / "jobs.py").write_text("import not_installed\n" + code)
    for number in range(5):
        client.push({"class": "InPool", "args": [number]})

    reason = 'jobs of pool="process" cannot run here: a child process did not start'
    worker.wait_for(lambda: reason in ran("health", "--ready", env=work.env())[1], 60)
    answer = ran("health", "--ready", env=work.env())[1]
    assert f"-r {folder}/jobs.py" in answer
    assert "not_installed" in answer
    # Other jobs go on, behind those of the pool in a queue of their own.
    client.push({"class": "InThread", "args": [7], "queue": "default"})

    (folder / "jobs.py").write_text(code)
    seen.wait("pool", 5)
    seen.wait("thread")
    worker.wait_for(lambda: ran("health", "--ready", env=work.env())[0] == 0, 60)

    assert sorted(each["number"] for each in seen.all("pool")) == list(range(5))
    assert redis.get("stat:failed") in {None, b"0"}
    assert worker.output.count('jobs of pool="process" cannot run here') == 1
    assert 'child processes for jobs of pool="process" start again' in worker.output


def test_beside_a_sound_worker_one_whose_release_is_gone_drops_no_job(
    release, work, client, seen, redis
):
    gone = release("gone")
    worker = work("-r", "jobs.py", cwd=gone, number=1)
    work("-r", "jobs.py", cwd=release("there"), number=2)
    shutil.rmtree(gone)
    for number in range(100):
        client.push({"class": "InPool", "args": [number]})

    seen.wait("pool", 100)

    assert {each["code"] for each in seen.all("pool")} == {"there"}
    assert redis.get("stat:failed") in {None, b"0"}
    reason = f"the folder in which this worker was started is gone: '{gone}'"
    worker.wait_for(lambda: reason in ran("health", "--ready", env=work.env(1))[1], 60)
    assert worker.stop() == 0


# What refuses threads by their names while the file "full" is there; the worker itself has none of these.
WITHOUT_THREADS = """
import os, threading
from kiqbridge import server
start = threading.Thread.start
def refusing(thread):
    if thread.name in ("THREAD", "THREAD-1") and os.path.exists("full"):
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = refusing
"""
PLAIN = """

def around(_job, _payload, _queue, call_next):
    return call_next()
server.middleware.add(around)
"""


@pytest.mark.parametrize(
    ("name", "thread", "more"),
    [
        ("AsyncInPool", "kiqbridge-loop", ""),
        ("AsyncInPool", "kiqbridge-bridge", PLAIN),
        (
            "InPool",
            "kiqbridge-middleware",
            PLAIN.replace("def", "async def").replace("return", "return await"),
        ),
    ],
)
def test_a_child_without_room_for_a_thread_fails_no_job(  # noqa: PLR0917 - fixtures
    release, work, client, seen, redis, name, thread, more
):
    folder = release("one")
    with (folder / "jobs.py").open("a") as file:
        file.write(WITHOUT_THREADS.replace("THREAD", thread) + more)
    (folder / "full").touch()
    worker = work("-r", "jobs.py", cwd=folder)
    client.push({"class": name, "args": [1]})

    reason = 'jobs of pool="process" cannot run here: a child process cannot begin a job'
    worker.wait_for(lambda: reason in ran("health", "--ready", env=work.env())[1], 60)
    (folder / "full").unlink()

    seen.wait("pool")
    worker.wait_for(lambda: ran("health", "--ready", env=work.env())[0] == 0, 60)
    assert redis.get("stat:failed") in {None, b"0"}


def test_closed_streams_stop_no_child_and_are_no_socket(release, work, client, seen, redis):
    """A socket to Redis would get their numbers, and with it what programs of jobs print."""
    folder = release("one")
    command = f"exec {sys.executable} -m kiqbridge worker -r jobs.py -c 2 <&- >&- 2>&-"
    worker = subprocess.Popen(["sh", "-c", command], cwd=folder, env=work.env() | {"PATH": "/bin"})
    try:
        client.push({"class": "InPool", "args": [1]})
        client.push({"class": "Streams", "args": []})
        seen.wait("pool")
        [streams] = seen.wait("streams")
    finally:
        worker.terminate()
        worker.wait(60)  # seconds

    assert worker.returncode == 0
    assert streams["targets"] == ["/dev/null"] * 3
    assert [json.loads(text) for text in redis.zrange("retry", 0, -1)] == []
