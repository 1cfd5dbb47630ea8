"""`kiqbridge.api` reads queues, sets, processes and counts, whoever wrote them."""

import json
import time
from datetime import date

import pytest

from kiqbridge.api import (
    DeadSet,
    Filter,
    ProcessSet,
    Queue,
    RetrySet,
    ScheduledSet,
    Stats,
    fetch_in_flight,
    fetch_suspects,
    find_job,
    read_audit,
)


def text(jid, name="Mail", **more):
    item = {"class": name, "args": [jid], "jid": jid, "queue": "default", **more}
    return json.dumps(item).encode()


def fill(redis, key, count, first=1000.0):
    for number in range(count):
        redis.zadd(key, {text(f"j{number}"): first + number})


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_a_set_gives_all_its_members_from_the_highest_score_down(redis, operator, count):
    fill(redis, "retry", count)

    jids = [entry.jid for entry in RetrySet(operator)]

    assert jids == [f"j{number}" for number in reversed(range(count))]


def test_members_may_be_deleted_while_a_set_is_gone_through(redis, operator):
    fill(redis, "dead", 250)
    seen = []

    for entry in DeadSet(operator):
        seen.append(entry.jid)
        redis.zrem("dead", entry.text)

    assert len(set(seen)) == len(seen) == 250


def test_pages_of_a_set_are_as_people_expect_them(redis, operator):
    for key in ("schedule", "retry", "dead"):
        fill(redis, key, 30)

    first = {kind: kind(operator).page(1).rows[0].jid for kind in (ScheduledSet, RetrySet, DeadSet)}
    last = DeadSet(operator).page(2)

    assert first == {ScheduledSet: "j0", RetrySet: "j0", DeadSet: "j29"}
    assert (last.total, last.count, len(last.rows), last.rows[-1].jid) == (30, 2, 5, "j0")
    assert DeadSet(operator).page(9).rows == []


def test_a_member_is_found_by_its_key_and_by_its_jid(redis, operator):
    fill(redis, "dead", 3)
    redis.zadd("dead", {text("twin"): 1001.0, text("later"): 1700000000.5})
    dead = DeadSet(operator)

    for entry in dead:
        assert dead.fetch(entry.key).text == entry.text
    assert dead.find_job("later").key == "1700000000.5-later"
    assert dead.find_job("never") is dead.fetch("1-never") is dead.fetch("no key") is None


def test_what_matches_a_filter_is_found_by_cursor(redis, operator):
    redis.zadd("dead", {text(f"m{number}", "Mail"): number for number in range(600)})
    redis.zadd(
        "dead",
        {
            text("a", "Import", error_class="OSError", error_message="No route", tags=["eu"]): 1,
            text("b", "Import::Deep", error_class="ValueError", failed_at=time.time() - 7200): 2,
        },
    )

    def found(**where):
        return {each.jid for each in DeadSet(operator).scan(Filter(**where), now=time.time())}

    assert found(job_class="Import") == {"a"}
    assert found(job_class="Import*") == {"a", "b"}
    assert found(error="no ROUTE") == found(tag="eu") == found(error_class="OS*") == {"a"}
    assert found(older_than_s=3600) == {"b"}
    assert found(arg="m599") == found(text='"m599"') == {"m599"}
    assert len(found()) == 602


@pytest.mark.parametrize("count", [0, 1, 101, 250])
def test_a_queue_gives_all_its_jobs_the_last_pushed_first(redis, operator, count):
    for number in range(count):
        redis.lpush("queue:default", text(f"j{number}"))
    queue = Queue("default", operator)

    assert [job.jid for job in queue] == [f"j{number}" for number in reversed(range(count))]
    assert queue.size == len(queue) == queue.page(1).total == count


def test_jobs_may_be_deleted_while_a_queue_is_gone_through(redis, operator):
    redis.lpush("queue:default", *(text(f"j{number}") for number in range(250)))
    seen = []

    for job in Queue("default", operator):
        seen.append(job.jid)
        redis.lrem("queue:default", 1, job.text)

    assert len(set(seen)) == len(seen) == 250


def test_pages_of_a_queue_in_both_directions(redis, operator):
    for number in range(30):
        redis.lpush("queue:default", text(f"j{number}"))
    queue = Queue("default", operator)

    assert [queue.page(1).rows[0].jid, queue.page(2).rows[-1].jid] == ["j29", "j0"]
    assert [queue.page(1, oldest_first=True).rows[0].jid] == ["j0"]
    assert queue.page(2, oldest_first=True).rows[-1].jid == "j29"
    assert queue.find_job("j7").args == ["j7"]
    assert queue.find_job("never") is None


def test_counts_are_those_of_the_keys(redis, operator):
    redis.sadd("queues", "default", "low")
    now = time.time()
    redis.lpush("queue:low", text("a", enqueued_at=now - 60), text("b", enqueued_at=now))
    redis.mset({"stat:processed": 7, "stat:failed": 2, "stat:processed:2026-01-02": 5})
    fill(redis, "retry", 3)

    stats = Stats(operator)
    history = stats.history(2, until=date(2026, 1, 3))

    assert (stats.processed, stats.failed, stats.enqueued, stats.retry_size) == (7, 2, 2, 3)
    assert list(stats.queues) == ["low", "default"]
    assert stats.queues["low"].latency == pytest.approx(60, abs=5)
    assert stats.default_queue_latency == 0
    assert list(history.processed.values()) == [0, 5]


def test_what_is_no_job_is_read_as_it_is(redis, operator):
    redis.zadd("dead", {b"{no json": 1, b"[1]": 2, b"\xff": 3})

    entries = list(DeadSet(operator))

    assert [(each.jid, each.job_class, each.is_readable) for each in entries] == [
        ("", "", False)
    ] * 3


ALIVE, SILENT, REAPED = "v2:host:1:aaa:1", "v2:host:2:bbb:1", "v2:host:3:ccc:2"


def text_of(jid, queue="default"):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "queue": queue}).encode()


def hold(redis, incarnation, tid, number, queue, *jids):
    redis.hset(f"kb:claims:{incarnation}", tid, f"{number} {queue}")
    for jid in jids:  # the oldest at the tail
        redis.lpush(f"kb:inflight:{incarnation}:{tid}:{number % 2}", text_of(jid, queue))


def test_jobs_are_shown_with_their_owner_and_whether_they_run(redis, operator):
    now = time.time()
    redis.sadd("kb:inflight", ALIVE, SILENT, "v9:of:another:layout:1")
    redis.sadd("kb:reaping", REAPED)
    redis.hset("kb:alive", mapping={ALIVE: f"3 {now:.3f} 60000", SILENT: f"9 {now - 99:.3f} 4000"})
    hold(redis, ALIVE, "t1", 4, "default", "a", "b")
    hold(redis, ALIVE, "t2", 5, "mail", "c")
    hold(redis, SILENT, "t1", 1, "default", "d")
    hold(redis, REAPED, "t1", 2, "default", "e")
    work = {"queue": "default", "payload": text_of("a").decode(), "run_at": int(now)}
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
    redis.lpush("kb:suspects:mail", *(text_of(str(number), "mail") for number in range(150)))

    [found] = fetch_suspects(operator)

    assert (found.queue, found.count, len(found.jobs)) == ("mail", 150, 100)
    assert [each.jid for each in found.jobs[:3]] == ["0", "1", "2"]


def job_of(jid, **more):
    return json.dumps({"class": "Mail", "args": [], "jid": jid, "queue": "default", **more})


def test_a_job_is_found_in_each_place(redis, operator):
    redis.zadd("retry", {job_of("a"): 1})
    redis.zadd("schedule", {job_of("a"): 1})
    redis.zadd("dead", {job_of("a"): 1})
    redis.sadd("queues", "low", "default")
    redis.lpush("queue:low", job_of("b"), job_of("a"))
    redis.sadd("processes", "h:1:x")
    redis.hset(
        "h:1:x:work", "t1", json.dumps({"queue": "low", "payload": job_of("a"), "run_at": 1})
    )
    redis.sadd("kb:inflight", "v2:h:1:x:0")
    redis.hset("kb:claims:v2:h:1:x:0", "t1", "7 low")
    redis.lpush("kb:inflight:v2:h:1:x:0:t1:1", job_of("a"), job_of("b"))
    redis.lpush("kb:suspects:low", job_of("a"), job_of("b"))

    found = find_job("a", operator)

    assert [(each.place, each.name) for each in found] == [
        ("retry", "retry"),
        ("schedule", "schedule"),
        ("dead", "dead"),
        ("in flight", "low"),
        ("working", "h:1:x t1"),
        ("suspects", "low"),
        ("queue", "low"),
    ]
    assert {each.job.jid for each in found} == {"a"}
    assert found[0].job.delete()
    assert found[-1].job.delete()
    assert len(find_job("a", operator)) == 5


@pytest.mark.parametrize("jid", ["", "nothing", "\ud800"])
def test_what_is_nowhere_is_not_found(redis, operator, jid):
    redis.zadd("retry", {job_of("a"): 1, b"no json": 2})

    assert find_job(jid, operator) == []


@pytest.mark.parametrize(
    ("action", "signal"), [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump_threads", b"TTIN")]
)
def test_a_signal_is_put_where_the_process_takes_it(redis, operator, action, signal):
    redis.sadd("processes", "h:1:x")
    redis.hset("h:1:x", "info", json.dumps({"hostname": "h", "pid": 1}))
    [process] = ProcessSet(operator)

    getattr(process, action)()

    assert redis.lrange("h:1:x-signals", 0, -1) == [signal]
    assert 0 < redis.ttl("h:1:x-signals") <= 60
    [entry] = read_audit(operator)
    assert (entry.action, entry.target) == (action, "h:1:x")


def test_a_process_that_is_gone_is_taken_off(redis, operator):
    redis.sadd("processes", "h:1:x")

    ProcessSet(operator).cleanup()

    assert not redis.exists("processes")
