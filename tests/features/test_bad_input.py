"""What no client of ours would write, through the whole engine: nothing crashes, nothing is lost."""

import json
import runpy
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.bad_payloads import UNREADABLE, Case, members, objects, raw_of, text_of
from support.engine import in_flight
from support.evidence import Evidence
from support.idle import is_idle
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.store.refusals import WRONG_TYPE

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
    def working(**settings):
        options = {"require": str(JOBS), "concurrency": "4", "pool_size": "1", **settings}
        with own_declarations():
            runpy.run_path(str(JOBS))
            with launched(redis_url, **options) as launcher:
                yield launcher
                assert launcher.health.status().ended_threads == []

    return working


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
    payloads = [json.loads(raw_of(text) or "{}") | json.loads(text) for text in kept(redis, key)]
    return {payload["case"]: payload for payload in payloads}


class TestTextsInAQueue:
    def test_what_cannot_be_read_goes_to_dead_with_its_bytes_and_the_reason(
        self, working, redis, good_job, caplog, tell
    ):
        redis.rpush("queue:default", *UNREADABLE.values())

        with working():
            wait_until(lambda: is_idle(redis), 30)
            good_job()

        assert sorted(map(raw_of, kept(redis, "dead"))) == sorted(UNREADABLE.values())
        assert not redis.exists("retry")
        said = [each for each in caplog.messages if "cannot be a job" in each]
        assert len(said) == len(UNREADABLE)
        assert all("kept in the dead set" in each for each in said)
        assert int(redis.get("stat:processed")) == 1  # malformed texts are not counted
        tell(f"bad input: {len(UNREADABLE)} unreadable texts in a queue, each readable in dead")

    @pytest.mark.parametrize("pool", POOLS)
    def test_each_odd_job_ends_where_it_should(  # noqa: PLR0917 - fixtures
        self, working, redis, evidence, good_job, pool, tell
    ):
        cases = objects()
        for case in cases:
            redis.rpush("queue:default", case.text.replace(b"CLASS", pool.encode()))
        # Who leads moves nothing to its queue again, also if somebody sets the clock.
        redis.set("kb:poller", "1 another:1:process")

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


class TestMembersOfTheSets:
    @pytest.mark.parametrize("source", ["retry", "schedule"])
    def test_what_cannot_be_read_goes_to_dead_with_its_bytes_and_the_reason(  # noqa: PLR0917 - fixtures
        self, working, redis, good_job, source, caplog, tell
    ):
        redis.zadd(source, dict.fromkeys(UNREADABLE.values(), 1.0))

        with working():
            wait_until(lambda: redis.zcard("dead") == len(UNREADABLE), 30)
            good_job()

        assert sorted(map(raw_of, kept(redis, "dead"))) == sorted(UNREADABLE.values())
        assert not redis.exists(source)
        assert sum("kept in the dead set" in each for each in caplog.messages) == len(UNREADABLE)
        tell(f"bad input: {len(UNREADABLE)} unreadable members of {source}, each readable in dead")

    @pytest.mark.parametrize("source", ["retry", "schedule"])
    def test_each_odd_member_ends_where_it_should(  # noqa: PLR0917 - fixtures
        self, working, redis, evidence, good_job, source, tell
    ):
        cases = members()
        texts = [case.text.replace(b"CLASS", b"Thread") for case in cases]
        redis.zadd(source, dict.fromkeys(texts, 1.0))

        with working():
            wait_until(lambda: not redis.zrangebyscore(source, "-inf", 2), 30)
            wait_until(lambda: is_idle(redis), 30)
            good_job()

        retried, dead = by_case(redis, "retry"), by_case(redis, "dead")
        waiting = {json.loads(text)["case"] for key in redis.keys("queue:*")
                   for text in redis.lrange(key, 0, -1)}  # fmt: skip
        assert {case.name: fate(case, retried, dead, evidence, waiting) for case in cases} == {
            case.name: case.fate for case in cases
        }
        for case in cases:
            message = {**retried, **dead}.get(case.name, {}).get("error_message", "")
            assert case.says in message, case.name
        tell(f"bad input: {len(cases)} odd members of {source}, each where it should be")

    def test_scores_beyond_time_are_moved_or_left(self, working, redis, evidence, good_job):
        redis.zadd("schedule", {text_of("ago").replace(b"CLASS", b"Thread"): float("-inf")})
        redis.zadd("schedule", {text_of("never").replace(b"CLASS", b"Thread"): float("inf")})

        with working():
            evidence.wait("ago")
            good_job()

        assert redis.zcard("schedule") == 1
        assert evidence.of("never") == []


FOREIGN = {
    "queue:broken": "a queue beside ours",
    "queues": "the names of queues",
    "processes": "the list of processes",
    "process_cleanup": "the lock of their cleanup",
    "IDENTITY": "this process",
    "IDENTITY:work": "its work",
    "IDENTITY:workers": "its work, by its older name",
    "IDENTITY-signals": "its signals",
    "kb:stats:IDENTITY": "the number of our last flush of the counters",
    "stat:processed": "the counter of all jobs",
    "stat:failed": "the counter of all failures",
    "schedule": "the scheduled jobs",
    "retry": "the jobs to be retried",
    "dead": "the dead jobs",
    "kb:paused": "our pauses",
    "kb:poller": "the lead of the pollers",
    "kb:suspects:default": "the suspects of a queue",
    "kb:alive": "the signs of life",
    "kb:reaping": "the leases that are being reaped",
    "kb:careful": "the queues to be careful with",
    "kb:alone": "how many jobs are to be claimed alone",
}
"""Keys of a foreign type, under which jobs still run."""

SILENT = {
    "queue:broken": "a look at it finds no job",
    "queues": "who pushes is told",
    "process_cleanup": "it only has to be there",
    "IDENTITY:work": "each beat writes it anew",
    "IDENTITY:workers": "each beat writes it anew",
    "stat:processed": "the other counters go on",
    "stat:failed": "the other counters go on",
    "kb:suspects:default": "asked for in vain, and nothing depends on it",
    "kb:alive": "who is alone has nobody to look at",
    "kb:careful": "nobody is careful then",
    "kb:alone": "nobody is careful then",
}
"""Of these, the keys that nobody misses, and why."""

STOPPING = {
    "paused": "the paused queues: whether one is paused cannot be known",
    "kb:inflight": "the leases",
    "kb:claims:INCARNATION": "our claims",
}
"""Keys of a foreign type, with which nothing is begun until they are mended."""


class TestKeysOfAForeignType:
    """What somebody else wrote under our names: jobs run, or wait until it is mended."""

    def plant(self, redis, launcher, key):
        key = key.replace("IDENTITY", launcher.identity)
        key = key.replace("INCARNATION", launcher.parts.keeper.current.incarnation)
        was = redis.dump(key)
        # A list where Sidekiq never has one, and a text in the place of lists.
        with redis.pipeline() as pipe:
            pipe.delete(key)
            if key.startswith(
                ("stat:", "kb:stats", "kb:poller", "process", launcher.identity)
            ) and not (key.endswith("-signals")):
                pipe.rpush(key, "not ours")
            else:
                pipe.set(key, "not ours")
            pipe.execute()

        def mend():
            if was:
                redis.restore(key, 0, was, replace=True)
            else:
                redis.delete(key)

        return mend

    @pytest.mark.parametrize("key", FOREIGN)
    def test_good_jobs_run_and_the_others_wait(  # noqa: PLR0917 - fixtures
        self, working, client, redis, evidence, good_job, key, caplog
    ):
        with working(queues=["broken", "default"]) as launcher:
            wait_until(lambda: redis.exists(launcher.identity))
            mend = self.plant(redis, launcher, key)
            if key != "queues":  # without it nothing can be pushed
                for job_class in POOLS:
                    client.push({"class": job_class, "args": [f"{job_class} retried", "fail"]})
                    client.push(
                        {"class": job_class, "args": [f"{job_class} dies", "fail"], "retry": 0}
                    )
                for job_class in POOLS:
                    good_job(job_class)
                    evidence.wait(f"{job_class} retried")
                    evidence.wait(f"{job_class} dies")
            if key not in SILENT:
                wait_until(lambda: WRONG_TYPE in caplog.text, what="its being told")
            assert launcher.health.status().ended_threads == []
            if key == "kb:stats:IDENTITY":  # counting waits, the heartbeat does not
                beat = redis.hget(launcher.identity, "beat")
                wait_until(lambda: redis.hget(launcher.identity, "beat") != beat)

            mend()

            for job_class in POOLS:
                good_job(job_class)
            if key != "queues":
                wait_until(lambda: redis.zcard("retry") == redis.zcard("dead") == 3, 30)
            wait_until(lambda: is_idle(redis), 30)

    @pytest.mark.parametrize("key", STOPPING)
    def test_nothing_is_lost_until_it_is_mended(  # noqa: PLR0917 - fixtures
        self, working, client, redis, evidence, good_job, key, caplog
    ):
        with working() as launcher:
            good_job()
            mend = self.plant(redis, launcher, key)
            names = [f"{job_class} {number}" for job_class in POOLS for number in range(3)]
            for name in names:
                client.push({"class": name.partition(" ")[0], "args": [name]})
            wait_until(lambda: WRONG_TYPE in caplog.text, 30, "its being told")
            assert launcher.health.status().ended_threads == []

            mend()

            for name in names:
                evidence.wait(name, timeout_s=60)
            good_job()
            wait_until(lambda: is_idle(redis), 30)


class TestSignals:
    def test_unknown_and_malformed_ones_change_nothing(self, working, redis, good_job, tell):
        heard = []
        texts = [
            b"",
            b"\xff\xfe\0",
            b"HUP",
            b"KILL",
            b"term",
            b"TERM ",
            b"-9",
            b"[1]",
            b"x" * 1_000_000,
        ]

        with working(on_signal=heard.append) as launcher:
            wait_until(lambda: redis.exists(launcher.identity))
            redis.lpush(f"{launcher.identity}-signals", *texts)
            wait_until(lambda: len(heard) == len(texts), 30)
            good_job()

        assert heard == [text.decode(errors="replace") for text in texts]
        tell(f"bad input: {len(texts)} malformed signals")


def fate(case: Case, retried, dead, evidence, waiting=()):
    places = [name for name, found in (("retry", retried), ("dead", dead), ("waiting", waiting))
              if case.name in found]  # fmt: skip
    if places:
        return " and ".join(places)
    if b'"fail"' in case.text:
        return "dropped"
    return "ran" if evidence.of(case.name.replace("/", "")) else "lost"
