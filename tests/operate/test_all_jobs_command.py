"""`kiqbridge jobs`: one filter over all queues and sets, with the counts of each place before anything is done."""

import io
import json
import sys

import pytest

from kiqbridge import api
from kiqbridge.wire.keys import Keys


@pytest.fixture
def answering(monkeypatch):
    def answering(text):
        terminal = io.StringIO(text)
        terminal.isatty = lambda: True
        monkeypatch.setattr(sys, "stdin", terminal)

    return answering


def text(jid, name="Mail"):
    return json.dumps({"class": name, "args": [jid], "jid": jid, "queue": "default", "retry": True})


@pytest.fixture
def filled(redis):
    """Three of Mail and one of Bill in each place."""
    for key in ("retry", "schedule", "dead"):
        redis.zadd(key, {text(f"{key}{n}"): n for n in range(3)} | {text(f"{key}b", "Bill"): 9})
    for queue in ("default", "low"):
        redis.sadd("queues", queue)
        redis.lpush(
            f"queue:{queue}", text(f"{queue}b", "Bill"), *(text(f"{queue}{n}") for n in range(3))
        )
    return redis


def sizes(redis):
    sets = {key: redis.zcard(key) for key in ("retry", "schedule", "dead")}
    return sets | {name: redis.llen(f"queue:{name}") for name in ("default", "low")}


def test_what_matches_goes_from_all_places_and_is_counted_by_place_before(run, filled, answering):
    answering("n\n")
    code, out, err = run("jobs", "delete", "--class", "Mail", "--text", "0")
    assert code == 1
    assert [line.split() for line in out.splitlines()] == [
        ["PLACE", "JOBS"],
        *([place, "1"] for place in ("queue:default", "queue:low", "retry", "schedule", "dead")),
    ]
    assert err.startswith("Delete 5 jobs that match class:Mail text:0 in 5 places? [y/N] ")  # fmt: skip

    code, out, _ = run("jobs", "delete", "--class", "Mail", "--text", "0", "--yes", "--json")

    assert json.loads(out)["places"] == dict.fromkeys(
        ["queue:default", "queue:low", "retry", "schedule", "dead"], 1
    )
    assert json.loads(out)["count"] == 5
    assert set(sizes(filled).values()) == {3}


def test_kill_takes_none_that_is_dead(run, filled):
    assert run("jobs", "kill", "--class", "Bill", "--yes")[1].splitlines()[-1] == (
        "killed 4 jobs in 4 places"
    )
    assert sizes(filled) == {"retry": 3, "schedule": 3, "dead": 8, "default": 3, "low": 3}


def test_move_gives_jobs_of_sets_another_queue_at_their_time_and_retry_pushes_them(
    run, filled, tmp_path
):
    move = ["jobs", "move", "--class", "Mail", "--to", "low", "--yes"]
    filled.zadd("dead", {b"{no JSON": 5})
    before = {key: filled.zrange(key, 0, -1, withscores=True) for key in ("retry", "dead")}
    told = run(*move, "--save", str(tmp_path / "was.jsonl"))[1].splitlines()[-1]
    assert told == "moved 12 jobs to low in 4 places"

    assert sizes(filled) == {"retry": 4, "schedule": 4, "dead": 5, "default": 1, "low": 7}
    for key, members in before.items():
        now = filled.zrange(key, 0, -1, withscores=True)
        assert [score for _, score in now] == [score for _, score in members]
        assert sum(b'"queue":"low"' in member for member, _ in now) == 3
    assert len((tmp_path / "was.jsonl").read_text().splitlines()) >= 6
    assert json.loads(run(*move, "--json")[1])["places"] == {}

    told = run("jobs", "retry", "--class", "Mail", "--yes")[1].splitlines()[-1]
    assert told == "pushed 9 jobs in 3 places"
    assert sizes(filled) == {"retry": 1, "schedule": 1, "dead": 2, "default": 1, "low": 16}
    assert run("dead", "move", "--all", "--to", "low", "--yes")[1].startswith(
        "moved 1 job to low; 1 "
    )


def test_what_moves_to_another_place_meanwhile_is_found_there(run, filled, monkeypatch):
    look, moved = api.DeadSet.apply_all, []

    def look_while_a_worker_puts_off(self, *args, **more):
        done = look(self, *args, **more)  # in the last place
        if moved:
            filled.zadd("schedule", {text(moved.pop()): 5})
        return done

    monkeypatch.setattr(api.DeadSet, "apply_all", look_while_a_worker_puts_off)
    moved += ["m1", "m2"]
    code, out, err = run("jobs", "delete", "--class", "Mail", "--yes")
    assert (code, out.splitlines()[-1], err) == (0, "deleted 17 jobs in 5 places", "")
    assert set(sizes(filled).values()) == {1}

    moved += ["m1", "m2", "m3"]
    filled.lpush("queue:low", text("low0"))
    code, _, err = run("jobs", "delete", "--class", "Mail", "--yes")
    assert (code, "1 matching job came meanwhile; repeat the command" in err) == (0, True)


def test_what_workers_hold_is_said(run, filled):
    keys, name = Keys(), "v2:web1:1:abc:1"
    filled.sadd(keys.inflight, name)
    filled.hset(keys.claims(name), "t1", "7 default")
    filled.rpush(keys.inflight_list(name, "t1", 7), text("h1"), text("h2", "Bill"))

    _, out, err = run("jobs", "delete", "--class", "Mail", "--yes")

    assert out.splitlines()[-1] == "deleted 15 jobs in 5 places"
    assert (
        err
        == "kiqbridge: 1 matching job held by workers, which run them or are about to; repeat the command for what is left\n"
    )


def test_a_filter_that_matches_everything_is_asked_for_whatever_is_done(run, filled, answering):
    answering("n\n")
    code, _, err = run("jobs", "move", "--text", "jid", "--to", "high")
    assert (code, err.startswith("That is every job in these places. Move 20 jobs")) == (1, True)

    for args in (["delete"], ["delete", "--all", "--class", "Mail"]):
        code, _, err = run("jobs", *args, "--yes")
        assert (code, "say which jobs" in err) == (2, True)
    assert sum(sizes(filled).values()) == 20


@pytest.mark.parametrize("command", [["retries", "kill", "--all"], ["jobs", "kill", "--all"]])
def test_kill_says_what_the_dead_set_would_drop(run, redis, answering, command):
    redis.zadd("dead", {f"d{n}": n for n in range(9_990)})
    redis.zadd("retry", {text(f"j{n}"): n for n in range(20)})

    answering("n\n")
    code, _, err = run(*command)

    assert code == 1
    assert (
        "The dead set keeps 9,999 jobs and has 9,990: the oldest 11 of them and of these would be dropped"
        in err
    )
    assert redis.zcard("retry") == 20
