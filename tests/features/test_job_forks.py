"""Jobs that fork: the child ends with the job, and does nothing of what the worker does."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from support.fleet import lists_in_flight
from support.notes import Notes
from support.processes import is_process_running
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.any_server]

TESTS = Path(__file__).parents[1]
JOBS = Path(__file__).parent / "jobs" / "forking.py"
FLAGS = ("-c", "2")
NOTES = 300
CODES = {"return": 0, "exit": 3, "raise": 1}


@pytest.fixture
def seen(tmp_path):
    return Notes(tmp_path)


def push_notes(client, first):
    """Innocent jobs of two kinds, short ones first, so that they are claimed in chunks."""
    numbers = [[number] for number in range(first, first + NOTES)]
    client.push_bulk({"class": "Note", "args": numbers[:-10]})
    client.push_bulk({"class": "NoteLater", "args": numbers[-10:]})


def group_of(worker):
    """The processes of a worker's group that run: itself, and what it has left behind."""
    found = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        state, _, group = stat.rpartition(")")[2].split()[:3]
        if int(group) == worker.pid and state != "Z":
            found.add(int(folder.name))
    return found


def assert_all_is_well(worker, seen, redis, *, notes, processed):
    """Each innocent job was done once, by the worker; nothing is left of any child."""
    done = seen.wait("note", notes)
    assert Counter(note["number"] for note in done) == dict.fromkeys(range(notes), 1)
    assert {note["pid"] for note in done} == {worker.pid}
    wait_until(lambda: not lists_in_flight(redis), 30, lambda: f"{lists_in_flight(redis)}")
    wait_until(
        lambda: int(redis.get("stat:processed") or 0) == processed,
        30,
        lambda: f"{processed} processed, not {redis.get('stat:processed')}",
    )
    assert "is gone" not in worker.output
    assert "belong to other workers now" not in worker.output


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request, tmp_path):
    """Where to find uvloop: in the second case it is as if it were not installed."""
    if request.param == "uvloop":
        return [TESTS]
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "uvloop.py").write_text("raise ImportError('hidden')\n")
    return [hidden, TESTS]


@pytest.mark.parametrize("kind", ["Fork", "ForkInTime", "ForkInProcess"])
def test_a_child_that_a_job_forks_ends_with_the_job(start, seen, client, redis, kind):
    worker = start()
    for number, how in enumerate(CODES):
        push_notes(client, number * NOTES)
        client.push({"class": kind, "args": [how]})
        forked = seen.wait("forked", number + 1)
        assert forked[-1]["code"] == CODES[how]

    notes = len(CODES) * NOTES
    assert_all_is_well(worker, seen, redis, notes=notes, processed=notes + len(CODES))
    assert len(seen.all("child")) == len(CODES)
    after = seen.wait("after", len(CODES))
    assert len(after) == len(CODES)  # middleware goes on in the parent alone
    assert not {note["pid"] for note in after} & {note["pid"] for note in seen.all("child")}
    assert worker.output.count("before the fork") == len(CODES)
    assert "RuntimeError: the child fails" in worker.output
    children = len(seen.wait("forked")) and kind == "ForkInProcess"
    assert len(group_of(worker)) == 1 + children
    assert worker.stop() == 0
    assert int(redis.get("stat:failed") or 0) == 0


def test_a_child_that_an_async_job_forks_runs_none_of_the_other_tasks(
    start, seen, client, redis, loop
):
    worker = start(python_path=loop)
    cases = {**CODES, "suspend": 1}
    for number, (how, code) in enumerate(cases.items()):
        push_notes(client, number * NOTES)
        client.push({"class": "ForkOnLoop", "args": [how]})
        assert seen.wait("forked", number + 1)[-1]["code"] == code

    notes = len(cases) * NOTES
    assert_all_is_well(worker, seen, redis, notes=notes, processed=notes + len(cases))
    assert seen.all("went on") == []
    assert "it ends where it would wait" in worker.output
    assert group_of(worker) == {worker.pid}
    assert worker.stop() == 0


@pytest.mark.parametrize(
    "kind",
    ["ForkInMiddleware", "ForkOffLoop", "Fails"],
    ids=["middleware", "a thread of a pool", "an error handler"],
)
def test_a_child_that_is_forked_around_a_job_ends_there(start, seen, client, redis, kind):
    worker = start()
    push_notes(client, 0)
    client.push({"class": kind, "args": []})
    push_notes(client, NOTES)

    assert seen.wait("forked")[-1]["code"] == 0
    assert_all_is_well(worker, seen, redis, notes=2 * NOTES, processed=2 * NOTES + 1)
    assert len(seen.all("child")) == 1
    assert group_of(worker) == {worker.pid}
    assert worker.stop() == 0
    assert int(redis.get("stat:failed") or 0) == (kind == "Fails")


def test_a_child_that_an_iteration_forks_leaves_the_other_items_to_the_parent(
    start, seen, client, redis
):
    worker = start()
    client.push({"class": "ForkInIteration", "args": []})

    items = seen.wait("item", 3)
    wait_until(lambda: int(redis.get("stat:processed") or 0) == 1, 30, "the job's end")
    assert [(note["number"], note["pid"]) for note in items] == [
        (number, worker.pid) for number in range(3)
    ]
    assert group_of(worker) == {worker.pid}
    assert worker.stop() == 0


def test_a_job_may_push_from_a_child_of_multiprocessing(start, seen, client, redis):
    worker = start()
    for number in range(5):
        client.push({"class": "MultiprocessingPush", "args": [number]})

    assert [note["code"] for note in seen.wait("multiprocessing", 5)] == [0] * 5
    assert_all_is_well(worker, seen, redis, notes=5, processed=10)
    assert worker.stop() == 0


def test_term_ends_a_forked_child_and_is_not_heard_by_the_worker(start, seen, client, redis):
    worker = start()
    client.push({"class": "Fork", "args": ["wait"]})
    [child] = [note["child"] for note in seen.wait("forked")]
    seen.wait("child")

    os.kill(child, signal.SIGTERM)

    # Nobody waits for it in the worker, so it stays a zombie there.
    wait_until(lambda: child not in group_of(worker), 30, "the end of the child")
    push_notes(client, 0)
    assert_all_is_well(worker, seen, redis, notes=NOTES, processed=NOTES + 1)
    assert "stopping" not in worker.output
    client.push({"class": "Handlers", "args": []})
    [handlers] = seen.wait("handlers")
    assert (handlers["kept"], handlers["wakeup"]) == ([], -1)
    assert worker.stop() == 0


def test_a_forked_child_goes_on_for_as_long_as_it_needs(start, seen, client, redis):
    worker = start()
    client.push({"class": "Fork", "args": ["wait"]})
    [child] = [note["child"] for note in seen.wait("forked")]
    seen.wait("child")

    assert worker.stop() == 0

    assert is_process_running(child)
    os.kill(child, signal.SIGKILL)
