"""`kiqbridge recover`: who is alive, who is silent, and giving back what the dead hold."""

import json
import re
from functools import partial

import pytest
from support.engine import EngineProcess

from kiqbridge.wire.keys import Keys

KEYS = Keys()
STRANGER = "v9:host:7:abc:1"


@pytest.fixture
def run(run, monkeypatch):
    """Runs `kiqbridge recover`."""
    monkeypatch.setenv("KIQBRIDGE_RECOVER_AFTER_S", "3")
    return partial(run, "recover")


@pytest.fixture
def living(redis_url, redis):
    """A process that runs, and holds two jobs."""
    with EngineProcess(redis_url, identity="host:1:living") as process:
        redis.lpush("queue:mail", "m1", "m2")
        process.claimer().claim(["mail"], 2)
        yield process.incarnation


@pytest.fixture
def dead(redis_url, redis):
    """A lease whose owner is gone: nobody renews it. It holds three jobs of two queues."""
    process = EngineProcess(redis_url, identity="host:2:dead")
    process.keeper._register(process.connect())
    redis.lpush("queue:default", "d1", "d2")
    redis.lpush("queue:low", "l1")
    process.claimer("t1").claim(["default"], 2)
    process.claimer("t2").claim(["low"], 1)
    minutes_ago = redis.time()[0] - 600.5
    redis.hset(KEYS.alive, process.incarnation, f"7 {minutes_ago} 1000")
    return process.incarnation


def are_back(redis):
    return redis.lrange("queue:default", 0, -1) == [b"d2", b"d1"] and redis.llen("queue:low") == 1


def test_the_silent_are_watched_and_rescued_and_the_living_left_alone(run, redis, living, dead):
    code, out, err = run()

    assert code == 0
    assert re.sub(r"\d+ s", "N s", out).splitlines() == [
        f"{living}  alive, last sign of life N s ago, holds 2 jobs (mail 2)",
        f"{dead}  silent for N s, holds 3 jobs (default 2, low 1)",
        f"rescued {dead}: 3 jobs went back",
    ]
    assert err.startswith("kiqbridge: watching 1 silent for 0 of 2 s\n")
    assert are_back(redis)
    assert redis.smembers("kb:inflight") == {living.encode()}
    assert not redis.exists("queue:mail")


def test_where_all_seem_alive_it_says_for_how_long_a_killed_one_does(run, living):
    code, out, _ = run()

    assert code == 0
    assert "killed less than 1 s ago still counts as alive" in out


def test_a_dry_run_changes_nothing(run, redis, dead):
    code, out, _ = run("--dry-run")

    assert code == 0
    assert out.endswith(f"would watch {dead} and rescue 3 jobs\n")
    assert redis.sismember("kb:inflight", dead)
    assert not are_back(redis)


def test_json_tells_the_same(run, redis, living, dead):
    code, out, _ = run("--json")

    assert code == 0
    told = json.loads(out)
    assert told["rescued"] == [{"incarnation": dead, "returned": 3}]
    assert told["left"] == []
    assert [each["state"] for each in told["incarnations"]] == ["alive", "silent"]
    assert told["incarnations"][1]["held"] == {"default": 2, "low": 1}
    assert told["incarnations"][1]["held_jobs"] == 3


@pytest.mark.parametrize(("how", "left"), [("", 0), ("--all-dead", 0), ("--now", 1)])
def test_one_that_seems_silent_and_gives_a_sign_is_never_touched(  # noqa: PLR0917 - fixtures
    run, redis, dead, how, left, monkeypatch
):
    monkeypatch.setattr(  # as after a change of the server's clock
        "kiqbridge.commands.recover_command.time.sleep",
        lambda _seconds: redis.hset(KEYS.alive, dead, f"8 {redis.time()[0]}.5 10000"),
    )

    code, _, err = run(*filter(None, [how, dead if how == "--now" else ""]))

    assert code == left
    assert (f"{dead} is alive and was left alone" in err) == bool(how)
    assert redis.sismember("kb:inflight", dead)
    assert not are_back(redis)


@pytest.mark.parametrize("how", ["--now", "--all-dead"])
def test_who_is_known_to_be_dead_is_not_watched(run, redis, living, dead, how):
    code, out, err = run(how, *([dead] if how == "--now" else []))

    assert (code, err) == (0, "")
    assert out.endswith(f"rescued {dead}: 3 jobs went back\n")
    assert are_back(redis)
    assert redis.smembers("kb:inflight") == {living.encode()}


def test_now_leaves_one_that_lives_alone(run, redis, living):
    code, out, err = run("--now", living)

    assert code == 1
    assert err == f"kiqbridge: {living} is alive and was left alone; stop its process instead\n"
    assert "rescued" not in out
    assert redis.sismember("kb:inflight", living)


def test_now_with_a_name_that_is_not_registered(run, redis, living):
    code, out, err = run("--now", "v2:host:9:none:1")

    assert (code, out) == (2, "")
    assert (
        f"is not registered; it ended orderly or was rescued already. Registered: {living}" in err
    )


@pytest.mark.parametrize("how", [[], ["--all-dead"]])
def test_an_unknown_layout_is_left_to_its_own_version(run, redis, how, caplog):
    redis.sadd("kb:inflight", STRANGER)

    code, out, _ = run(*how)

    assert code == 1
    assert out == (
        f"{STRANGER}  unknown layout: only a version that knows its layout can rescue it\n"
    )
    assert redis.sismember("kb:inflight", STRANGER)


def test_an_unknown_layout_is_not_rescued_by_name_either(run, redis):
    redis.sadd("kb:inflight", STRANGER)

    code, _, err = run("--now", STRANGER)

    assert code == 1
    assert "has layout v9, and this version knows v2 alone" in err


def test_nobody_is_there(run):
    assert run() == (0, "no worker is registered\nno worker has to be rescued\n", "")


def test_two_ways_at_once_are_none(run):
    assert run("--now", "x", "--all-dead")[0] == 2
