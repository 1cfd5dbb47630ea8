"""Limits of queues when the jobs of a call lie on several shards: all are looked at before any of them is pushed."""

import time

import pytest
from support.servers import embedded_server
from support.shards import sharded

from kiqbridge import Schedules
from kiqbridge.client import shard_limits
from kiqbridge.errors import QueueTooDeep, RedisUnavailable
from kiqbridge.schedule.definition import ScheduleDefinition

ITEMS = [{"class": "Work", "args": [queue], "queue": queue} for queue in ("mail", "critical", "default")]  # fmt: skip
KEYS = ["a", "b", "c"]
LIMITS = {"critical": 2, "default": 2}
MINUTE = int(time.time()) // 60 * 60


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


@pytest.fixture
def full(shards):
    """The queue of the second shard is at its limit."""
    shards.raw["fast"].rpush("queue:critical", "x", "y")
    return shards


def pushed(shards):
    queues = {"mail": "mail", "fast": "critical", "rest": "default"}
    return {name: shards.raw[name].llen(f"queue:{queue}") for name, queue in queues.items()}


def test_a_limit_on_the_second_shard_leaves_nothing_on_the_first(client, full):
    with pytest.raises(QueueTooDeep, match="so that nothing was enqueued") as caught:
        client.push_once(ITEMS, KEYS, limits=LIMITS)

    assert (caught.value.queues, caught.value.places) == ({"critical": 2}, {1: 2})
    assert caught.value.pushed == {}
    assert pushed(full) == {"mail": 0, "fast": 2, "rest": 0}


def test_the_queues_of_all_shards_that_are_at_their_limit_are_named(client, full):
    full.raw["rest"].rpush("queue:default", "x", "y", "z")

    with pytest.raises(QueueTooDeep) as caught:
        client.push_once(ITEMS, [None, None, None], limits=LIMITS)

    assert caught.value.queues == {"critical": 2, "default": 3}
    assert caught.value.places == {1: 2, 2: 3}


def test_what_is_known_and_what_runs_later_passes(client, shards):
    first = client.push_once(ITEMS, KEYS)
    shards.raw["fast"].rpush("queue:critical", "x", "y")

    again = client.push_once(ITEMS, KEYS, limits=LIMITS)
    later = client.push_once(
        [{**ITEMS[1], "at": MINUTE + 9000}, ITEMS[0]], ["l", "m"], limits=LIMITS
    )

    assert [(each.jid, each.duplicate) for each in again] == [(each.jid, True) for each in first]
    assert [each.duplicate for each in later] == [False, False]


def test_an_occurrence_is_refused_on_all_shards_and_enqueued_when_there_is_room(client, full):
    with pytest.raises(QueueTooDeep):
        client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS)
    assert pushed(full) == {"mail": 0, "fast": 2, "rest": 0}
    assert client.find_tick("s", MINUTE) is None

    full.raw["fast"].delete("queue:critical")
    assert client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS).kind == "enqueued"

    full.raw["fast"].rpush("queue:critical", "x", "y")
    known = client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS)
    assert (known.kind, len(known.jobs)) == ("duplicate", 3)


@pytest.mark.parametrize("state", ["paused", "skipped", "stale", "future"])
def test_an_occurrence_that_enqueues_nothing_is_not_refused(client, full, state):
    schedules = Schedules(client)
    schedules.save(ScheduleDefinition(name="s", expression="* * * * *", jobs=tuple(ITEMS)))
    at = MINUTE
    if state == "paused":
        schedules.pause("s")
    elif state == "skipped":
        [at] = schedules.skip_next("s")
    else:
        at += 86_400 if state == "future" else -40 * 86_400
    ahead = 3600.0 if state == "future" else None

    outcome = client.push_tick("s", at, ITEMS, by="test:1", ahead_s=ahead, limits=LIMITS)

    assert outcome.kind == state
    assert pushed(full) == {"mail": 0, "fast": 2, "rest": 0}


def test_a_limit_that_is_reached_in_between_names_what_was_pushed_and_a_repetition_completes_it(
    client, full, monkeypatch
):
    with monkeypatch.context() as between:
        between.setattr(shard_limits, "_deep_jobs", lambda *_: {})
        with pytest.raises(QueueTooDeep) as caught:
            client.push_once(ITEMS, KEYS, limits=LIMITS)
    error = caught.value
    assert (list(error.pushed), error.places) == ([0], {1: 2})
    assert f"1 job of this call is enqueued on another shard: {error.pushed[0]}" in str(error)
    assert "nothing was enqueued" not in str(error)

    full.raw["fast"].delete("queue:critical")
    done = client.push_once(ITEMS, KEYS, limits=LIMITS)

    assert [each.duplicate for each in done] == [True, False, False]
    assert done[0].jid == error.pushed[0]
    assert pushed(full) == {"mail": 1, "fast": 1, "rest": 1}


def test_an_occurrence_that_meets_a_limit_in_between_is_completed(client, full, monkeypatch):
    with monkeypatch.context() as between:
        between.setattr(shard_limits, "_deep_jobs", lambda *_: {})
        with pytest.raises(QueueTooDeep) as caught:
            client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS)
    assert list(caught.value.pushed) == [0]

    full.raw["fast"].delete("queue:critical")
    outcome = client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS)

    assert (outcome.kind, outcome.jobs[0].jid) == ("enqueued", caught.value.pushed[0])
    assert pushed(full) == {"mail": 1, "fast": 1, "rest": 1}


def test_a_shard_that_is_away_keeps_the_jobs_of_others_from_nothing(shards):
    with embedded_server() as server:
        away = server.url
    urls = {name: str(each["url"]) for name, each in shards.setting.items()}
    client = sharded({**urls, "fast": away}).client()

    with pytest.raises(RedisUnavailable):
        client.push_tick("s", MINUTE, ITEMS, by="test:1", limits=LIMITS)
    client.close()

    assert shards.raw["mail"].llen("queue:mail") == 1


def test_a_call_for_one_shard_asks_nothing_before(client, shards, monkeypatch):
    monkeypatch.setattr(shard_limits, "_deep_jobs", lambda *_: pytest.fail("asked"))

    assert client.push_once(ITEMS[:1], ["a"], limits={"mail": 5})
    assert client.push_once(ITEMS, KEYS)
