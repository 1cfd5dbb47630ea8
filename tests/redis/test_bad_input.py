"""What no client of ours would write, through the whole engine: nothing crashes, nothing is lost."""

import json
import runpy
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.bad_payloads import ODD, UNREADABLE, Case, objects, text_of
from support.evidence import Evidence
from support.jobs import own_declarations
from support.waiting import wait_until

from kiqbridge.client import Client
from kiqbridge.config import merge
from kiqbridge.launcher import Launcher
from kiqbridge.server import Server

JOBS = Path(__file__).with_name("jobs_for_bad_input.py")
POOLS = ("Thread", "Loop", "Process")


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    folder = tmp_path / "evidence"
    folder.mkdir()
    monkeypatch.setenv("EVIDENCE", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    return Evidence(folder)


@pytest.fixture
def working(redis_url, evidence):
    @contextmanager
    def working(on_signal=lambda _name: None, **settings):
        flags = {
            "redis_url": redis_url,
            "require": str(JOBS),
            "concurrency": "4",
            "pool_size": "1",
            "beat_s": "0.05",
            "timeout_s": "5",
            **settings,
        }
        with own_declarations():
            runpy.run_path(str(JOBS))
            launcher = Launcher(merge(environ={}, flags=flags), server=Server())
            launcher.start(on_signal)
            try:
                yield launcher
                status = launcher._status()
                assert status.ended_threads == []
            finally:
                launcher.stop()

    return working


@pytest.fixture
def client(redis_url):
    client = Client(redis_url)
    yield client
    client.close()


@pytest.fixture
def good_job(client, evidence):
    """Pushes a good job and waits until it has run: the engine still works."""
    count = 0

    def run(job_class="Thread", queue="default"):
        nonlocal count
        count += 1
        name = f"good {count}"
        client.push({"class": job_class, "args": [name], "queue": queue})
        evidence.wait(name)

    return run


def kept(redis, key):
    return redis.zrange(key, 0, -1)


def by_case(redis, key):
    """Case → payload, of what a set keeps."""
    payloads = [json.loads(text) for text in kept(redis, key)]
    return {payload["case"]: payload for payload in payloads}


def in_flight(redis):
    return [text for key in redis.keys("kb:inflight:*:[01]") for text in redis.lrange(key, 0, -1)]


def is_idle(redis):
    return not redis.exists("queue:default") and not in_flight(redis)


class TestTextsInAQueue:
    def test_what_cannot_be_read_goes_to_dead_byte_by_byte(
        self, working, redis, good_job, caplog, tell
    ):
        redis.rpush("queue:default", *UNREADABLE.values())

        with working():
            wait_until(lambda: is_idle(redis), 30)
            good_job()

        assert sorted(kept(redis, "dead")) == sorted(UNREADABLE.values())
        assert not redis.exists("retry")
        said = [each for each in caplog.messages if "cannot be a job" in each]
        assert len(said) == len(UNREADABLE)
        assert all("kept in the dead set" in each for each in said)
        assert int(redis.get("stat:processed")) == 1  # malformed texts are not counted
        tell(f"bad input: {len(UNREADABLE)} unreadable texts in a queue, each in dead as it was")

    @pytest.mark.parametrize("pool", POOLS)
    def test_each_odd_job_ends_where_it_should(
        self, working, redis, evidence, good_job, pool, tell
    ):
        cases = objects()
        for case in cases:
            redis.rpush("queue:default", case.text.replace(b"CLASS", pool.encode()))

        with working():
            wait_until(lambda: is_idle(redis), 60, lambda: f"left: {in_flight(redis)}"[:2000])
            good_job(pool)

        retried, dead = by_case(redis, "retry"), by_case(redis, "dead")
        assert {case.name: fate(case, retried, dead, evidence) for case in cases} == {
            case.name: case.fate for case in cases
        }
        for case in cases:
            message = {**retried, **dead}.get(case.name, {}).get("error_message", "")
            assert case.says in message, case.name
        tell(f"bad input: {len(cases)} odd jobs in pool {pool}, each where it should be")


def fate(case: Case, retried, dead, evidence):
    places = [name for name, found in (("retry", retried), ("dead", dead)) if case.name in found]
    if places:
        return " and ".join(places)
    if b'"fail"' in case.text:
        return "dropped"
    return "ran" if evidence.of(case.name.replace("/", "")) else "lost"
