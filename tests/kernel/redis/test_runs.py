"""What of a schedule runs: decided and noted by scripts, by the server's clock."""

import time

import pytest

from kiqbridge.store.begin import begin as ask
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.runs import RunMark, ask_run, end_run
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import TickMark

NOW = int(time.time())
KEYS = Keys()


@pytest.fixture(autouse=True)
def now():
    """The clock of the machine may have been set since this file was imported."""
    globals()["NOW"] = int(time.time())


@pytest.fixture
def pool(redis_url, redis):
    redis.sadd("kb:inflight", "v2:a", "v2:b")
    pool = RedisPool(redis_url)
    yield pool
    pool.close()


def mark(jid="j1", *, at=None, owner="v2:a", overlap="skip", max_age_s=None, schedule="s"):
    tick = TickMark(schedule=schedule, at=at or NOW, overlap=overlap, max_age_s=max_age_s)
    return RunMark(tick, jid, owner)


def begin(pool, mark, *, is_first=True):
    [answer] = ask(pool.connection(), [ask_run(KEYS, mark, is_first=is_first)])
    return answer


def end(pool, mark, *, is_over=True):
    return end_run(pool.connection(), KEYS, mark, is_over=is_over)


def lines(redis, schedule="s"):
    return (redis.hget("kb:runs", schedule) or b"").decode().splitlines()


class TestOverlap:
    def test_a_second_occurrence_is_skipped_while_the_first_one_runs(self, pool, redis):
        assert begin(pool, mark("j1")) == ("run", [])
        assert begin(pool, mark("j2", at=NOW + 60, owner="v2:b")) == ("skipped", ["j1"])
        assert lines(redis) == [f"v2:a j1 {NOW}"]

        assert end(pool, mark("j1"))
        assert not redis.exists("kb:runs")
        assert begin(pool, mark("j2", at=NOW + 60)) == ("run", [])

    def test_or_the_first_one_is_to_be_cancelled(self, pool, redis):
        begin(pool, mark("j1", overlap="cancel"))

        assert begin(pool, mark("j2", at=NOW + 60, overlap="cancel")) == ("run", ["j1"])
        assert len(lines(redis)) == 2

    def test_jobs_of_one_occurrence_and_of_other_schedules_are_no_overlap(self, pool):
        for each in (mark("j1"), mark("j2"), mark("j3", at=NOW + 60, schedule="other")):
            assert begin(pool, each) == ("run", [])

    def test_a_job_that_runs_again_takes_its_own_mark(self, pool, redis):
        begin(pool, mark("j1"))

        assert begin(pool, mark("j1", owner="v2:b")) == ("run", [])
        assert lines(redis) == [f"v2:b j1 {NOW}"]
        assert not end(pool, mark("j1"))  # compare and delete: another one has it
        assert lines(redis) == [f"v2:b j1 {NOW}"]

    def test_what_a_dead_process_ran_stops_nothing(self, pool, redis):
        begin(pool, mark("j1"))
        redis.srem("kb:inflight", "v2:a")

        assert begin(pool, mark("j2", at=NOW + 60, owner="v2:b")) == ("run", [])

    def test_a_process_without_incarnation_lives_as_long_as_it_is_listed(self, pool, redis):
        redis.sadd("processes", "host:1:aaa")
        begin(pool, mark("j1", owner="host:1:aaa"))

        assert begin(pool, mark("j2", at=NOW + 60))[0] == "skipped"
        redis.srem("processes", "host:1:aaa")
        assert begin(pool, mark("j2", at=NOW + 60))[0] == "run"

    def test_what_went_back_to_its_queue_stops_nothing(self, pool, redis):
        begin(pool, mark("j1"))
        assert end(pool, mark("j1"), is_over=False)
        assert lines(redis) == [f"- j1 {NOW}"]

        assert begin(pool, mark("j2", at=NOW + 60))[0] == "run"

    def test_calls_that_are_repeated_change_nothing(self, pool, redis):
        assert [begin(pool, mark("j1")) for _ in range(2)] == [("run", [])] * 2
        assert [begin(pool, mark("j2", at=NOW + 60)) for _ in range(2)] == [("skipped", ["j1"])] * 2
        assert len(lines(redis)) == 1
        assert [end(pool, mark("j1")) for _ in range(2)] == [True, False]


class TestAge:
    def test_a_job_that_begins_too_late_is_expired(self, pool, redis):
        late = mark(at=NOW - 100, overlap="allow", max_age_s=60.0)

        assert begin(pool, late) == ("expired", [])
        assert not redis.exists("kb:runs")
        assert begin(pool, late, is_first=False) == ("run", [])

    def test_one_that_begins_in_time_is_not(self, pool):
        assert begin(pool, mark(at=NOW - 10, max_age_s=86_400.0)) == ("run", [])

    def test_one_that_was_begun_in_time_goes_on_however_late(self, pool, redis):
        early = mark(at=NOW - 10, max_age_s=86_400.0)
        begin(pool, early)
        # As if an hour had passed.
        redis.hset("kb:runs", "s", f"v2:dead j1 {NOW - 3600}")
        assert begin(pool, mark(at=NOW - 3600, max_age_s=600.0)) == ("run", [])

        redis.hset("kb:runs", "s", f"- j1 {NOW - 3600}")
        assert begin(pool, mark(at=NOW - 3600, max_age_s=600.0)) == ("run", [])


def test_what_runs_no_more_is_remembered_up_to_a_bound(pool, redis):
    many = "\n".join(f"v2:dead j{number} {NOW - 60}" for number in range(3, 300))
    old = f"v2:dead old {NOW - 18 * 86_400}"
    redis.hset("kb:runs", "s", f"{old}\nnonsense\n{many}")

    begin(pool, mark("j1"))

    assert len(lines(redis)) == 101
    assert old not in lines(redis)


def test_with_memory_full_jobs_still_begin_and_end(pool, redis):
    redis.config_set("maxmemory", 1)
    try:
        assert begin(pool, mark("j1")) == ("run", [])
        assert end(pool, mark("j1"))
    finally:
        redis.config_set("maxmemory", 0)
