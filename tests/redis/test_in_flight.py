"""What workers hold and which jobs are suspects, as operators see it; and how far iterable jobs are."""

import json
import time

import pytest
from support.vectors import FILES, of_kind, put_state

from kiqbridge.api import fetch_in_flight, fetch_iterations, fetch_suspects

ALIVE, SILENT, REAPED = "v2:host:1:aaa:1", "v2:host:2:bbb:1", "v2:host:3:ccc:2"


def text(jid, queue="default"):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "queue": queue}).encode()


def hold(redis, incarnation, tid, number, queue, *jids):
    redis.hset(f"kb:claims:{incarnation}", tid, f"{number} {queue}")
    for jid in jids:  # the oldest at the tail
        redis.lpush(f"kb:inflight:{incarnation}:{tid}:{number % 2}", text(jid, queue))


def test_jobs_are_shown_with_their_owner_and_whether_they_run(redis, operator):
    now = time.time()
    redis.sadd("kb:inflight", ALIVE, SILENT, "v9:of:another:layout:1")
    redis.sadd("kb:reaping", REAPED)
    redis.hset("kb:alive", mapping={ALIVE: f"3 {now:.3f} 60000", SILENT: f"9 {now - 99:.3f} 4000"})
    hold(redis, ALIVE, "t1", 4, "default", "a", "b")
    hold(redis, ALIVE, "t2", 5, "mail", "c")
    hold(redis, SILENT, "t1", 1, "default", "d")
    hold(redis, REAPED, "t1", 2, "default", "e")
    work = {"queue": "default", "payload": text("a").decode(), "run_at": int(now)}
    redis.hset("host:1:aaa:work", "t1", json.dumps(work))

    found = fetch_in_flight(operator)

    assert [
        (each.process, each.tid, each.queue, each.job.jid, each.owner, each.begun) for each in found
    ] == [
        ("host:1:aaa", "t1", "default", "a", "alive", True),
        ("host:1:aaa", "t1", "default", "b", "alive", False),
        ("host:1:aaa", "t2", "mail", "c", "alive", False),
        ("host:2:bbb", "t1", "default", "d", "silent", False),
        ("host:3:ccc", "t1", "default", "e", "being reaped", False),
    ]
    assert [each.job.jid for each in found if each.is_orphan] == ["d", "e"]


def test_where_no_worker_of_ours_ever_ran_nothing_is_held(redis, operator):
    assert fetch_in_flight(operator) == []
    assert fetch_suspects(operator) == []


def test_suspects_are_shown_in_the_order_in_which_they_run(redis, operator):
    redis.sadd("queues", "default", "mail")
    redis.lpush("kb:suspects:mail", *(text(str(number), "mail") for number in range(150)))

    [found] = fetch_suspects(operator)

    assert (found.queue, found.count, len(found.jobs)) == ("mail", 150, 100)
    assert [each.jid for each in found.jobs[:3]] == ["0", "1", "2"]


def test_progress_is_read_as_it_was_saved(redis, operator):
    redis.hset("it-abc", mapping={"ex": 3, "c": '{"id":42}', "rt": "12.5"})
    redis.hset("it-gone", mapping={"cancelled": 1_770_015_780})
    redis.hset("it-odd", mapping={"ex": "x", "c": "{", "rt": "y"})

    found = fetch_iterations(["abc", "gone", "odd", "none", "", "abc"], operator)

    assert list(found) == ["abc", "gone", "odd"]
    assert (found["abc"].executions, found["abc"].runtime_s) == (3, 12.5)
    assert (found["abc"].cursor, found["abc"].cursor_text) == ({"id": 42}, '{"id":42}')
    assert found["abc"].cancelled_at is None
    assert (found["gone"].cursor, found["gone"].cancelled_at) == (None, 1_770_015_780.0)
    assert (found["odd"].executions, found["odd"].cursor) == (0, None)
    assert fetch_iterations([], operator) == {}


@pytest.mark.parametrize(("file", "name"), of_kind("iteration"))
def test_what_sidekiq_recorded_of_its_iterable_jobs_is_read(file, name, redis, operator):
    keys = [each for each in FILES[file][name].get("keys", []) if each["key"].startswith("it-")]
    if not keys:  # it was deleted when the job was done
        assert "it-" in json.dumps(FILES[file][name])
        return
    put_state(redis, keys)

    found = fetch_iterations([each["key"][3:] for each in keys], operator)

    assert [str(each.executions) for each in found.values()] == [
        each["value"]["ex"] for each in keys
    ]
    assert [each.cursor_text for each in found.values()] == [each["value"]["c"] for each in keys]
