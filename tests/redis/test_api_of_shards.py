"""The operator's API with several shards: everything is read from all, and done where it lies."""

import json
import time
from dataclasses import replace

import pytest
from support.servers import embedded_server
from support.shards import sharded

from kiqbridge import Schedule
from kiqbridge.api import (
    DeadSet,
    Filter,
    ProcessSet,
    Queue,
    RetrySet,
    ScheduledSet,
    ScheduleSet,
    Stats,
    WorkSet,
    class_histograms,
    fetch_facts,
    fetch_history,
    fetch_in_flight,
    fetch_iterations,
    fetch_sources,
    fetch_suspects,
    find_job,
    job_metrics,
    judge,
    open_operator,
    read_audit,
    record_audit,
    top_jobs,
)
from kiqbridge.errors import PayloadError, RedisUnavailable
from kiqbridge.wire.measures import minute_8

NOW = 1_790_000_000


@pytest.fixture
def client(shards):
    made = shards.client()
    yield made
    made.close()


@pytest.fixture
def operator(client):
    return open_operator(client=client, by="ann")


def text(jid, queue="default", **more):
    return json.dumps({"class": "Work", "args": [jid], "jid": jid, "queue": queue, **more})


def put(shards, shard, kind, *members):
    shards.raw[shard].zadd(kind, {text(jid, retry_count=0): score for jid, score in members})


def jids(rows):
    return [row.jid for row in rows]


def process(shards, shard, identity, queues, busy=0):
    raw = shards.raw[shard]
    raw.sadd("processes", identity)
    info = {
        "hostname": "box",
        "pid": 1,
        "tag": "",
        "queues": queues,
        "labels": ["kiqbridge"],
        "concurrency": 5,
    }
    raw.hset(identity, mapping={"info": json.dumps(info), "busy": busy, "beat": time.time()})


def test_counts_are_those_of_all_shards(operator, shards):
    for name, count in (("mail", 1), ("fast", 2), ("rest", 3)):
        raw = shards.raw[name]
        raw.set("stat:processed", 10 * count)
        raw.set("stat:failed", count)
        raw.set("stat:processed:2026-11-20", count)
        raw.sadd("queues", "default")
        raw.lpush("queue:default", *(text(f"{name}{number}") for number in range(count)))
        put(shards, name, "retry", (f"r-{name}", NOW))

    stats = Stats(operator)

    assert (stats.processed, stats.failed, stats.enqueued, stats.retry_size) == (60, 6, 6, 3)
    assert stats.queues["default"].size == 6
    assert stats.queues["default"].shards == ("mail", "fast", "rest")
    assert {name: each.enqueued for name, each in stats.shards.items()} == {
        "mail": 1,
        "fast": 2,
        "rest": 3,
    }
    day = next(
        day for day in fetch_history(400, operator=operator).processed if str(day) == "2026-11-20"
    )
    assert fetch_history(1, until=day, operator=operator).processed == {day: 6}
    assert Stats(operator.on("fast")).enqueued == 2


def test_a_queue_is_wherever_it_has_jobs(operator, shards):
    shards.raw["rest"].lpush("queue:mail", text("w1", "mail"), text("w2", "mail"))
    shards.raw["mail"].lpush("queue:mail", text("m1", "mail"), text("m2", "mail"))
    for raw in shards.raw.values():
        raw.sadd("queues", "mail")

    queue = Queue("mail", operator)

    assert (queue.shard, queue.size, dict(queue.sizes)) == (
        "mail",
        4,
        {"mail": 2, "fast": 0, "rest": 2},
    )
    assert jids(queue) == ["m2", "m1", "w2", "w1"]
    assert jids(queue.page(1, 3).rows) == ["m2", "m1", "w2"]
    assert jids(queue.page(2, 3).rows) == ["w1"]
    assert jids(queue.page(2, 3, oldest_first=True).rows) == ["w2"]
    assert [job.shard for job in queue] == ["mail", "mail", "rest", "rest"]
    assert [each.name for each in Queue.all(operator)] == ["mail"]
    assert queue.find_job("w1").delete()
    assert jids(queue.scan(Filter(text="w"), now=NOW)) == ["w2"]
    assert queue.apply("kill", list(queue.page(1, 9).rows)[1:]) == 2
    assert [raw.zcard("dead") for raw in shards.raw.values()] == [1, 0, 1]
    assert queue.clear() == 1


def test_all_jobs_of_a_queue_are_moved_shard_by_shard_up_to_the_limit(operator, shards):
    shards.raw["mail"].lpush("queue:mail", *(text(f"m{n}", "mail") for n in range(3)))
    shards.raw["rest"].lpush("queue:mail", *(text(f"w{n}", "mail") for n in range(3)))
    seen = []

    done = Queue("mail", operator).apply_all(
        "move", to="other", limit=4, progress=lambda moved, looked: seen.append(moved)
    )

    assert done == 4
    assert seen[-1] == 4
    assert [raw.llen("queue:other") for raw in shards.raw.values()] == [3, 0, 1]


def test_a_pause_is_one_on_all_shards_with_one_line_in_the_audit_log(operator, shards):
    queue = Queue("mail", operator)

    queue.pause_it("because")

    assert all(raw.sismember("paused", "mail") for raw in shards.raw.values())
    assert queue.pause.reason == "because"
    assert [each.name for each in operator.pauses()] == ["mail"]
    assert queue.resume()
    assert not queue.paused
    assert [entry.action for entry in read_audit(operator)] == ["resume", "pause"]


def test_a_page_of_a_set_is_merged_by_score(operator, shards):
    put(shards, "mail", "retry", ("a", 1), ("d", 4), ("g", 7))
    put(shards, "fast", "retry", ("b", 2), ("e", 5))
    put(shards, "rest", "retry", ("c", 3), ("f", 6))

    retries = RetrySet(operator)

    assert [jids(retries.page(number, 3).rows) for number in (1, 2, 3, 4)] == [
        ["a", "b", "c"],
        ["d", "e", "f"],
        ["g"],
        [],
    ]
    assert jids(retries.page(1, 3, newest_first=True).rows) == ["g", "f", "e"]
    assert retries.page(1, 3).total == len(retries) == 7
    assert jids(retries) == list("gfedcba")
    assert jids(retries.scan(now=NOW)) == list("abcdefg")
    assert [row.shard for row in retries.page(1, 3).rows] == ["mail", "fast", "rest"]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_deep_in_a_set_has_the_rows_that_one_set_would_have(operator, shards, newest_first):
    names = list(shards.raw)
    scores = [
        -50.5 + number // 7 * 0.25 for number in range(2500)
    ]  # seven of each, over all shards
    for place, score in enumerate(scores):
        name = names[place * place % 3]
        shards.raw[name].zadd("dead", {text(f"{place}"): score})
    dead = DeadSet(operator)

    pages = [dead.page(number, 100, newest_first=newest_first) for number in range(1, 26)]

    rows = [row for page in pages for row in page.rows]
    assert sorted(jids(rows)) == sorted(str(place) for place in range(2500))
    assert [row.score for row in rows] == sorted(scores, reverse=newest_first)
    assert dead.page(27, 100, newest_first=newest_first).rows == []


def test_what_is_done_to_an_entry_is_done_on_its_shard(operator, shards):
    put(shards, "mail", "retry", ("a", 1), ("b", 2))
    put(shards, "rest", "retry", ("c", 3))
    retries = RetrySet(operator)

    assert retries.find_job("c").retry()
    assert shards.raw["rest"].llen("queue:default") == 1
    assert retries.fetch("1-a").kill()
    assert shards.raw["mail"].zcard("dead") == 1
    assert retries.apply("delete", list(retries)) == 1
    assert retries.size == 0
    put(shards, "mail", "retry", ("a", 1))
    put(shards, "rest", "retry", ("c", 3))
    assert retries.retry_all(Filter(job_class="Work")) == 2
    assert DeadSet(operator).clear() == 1


def test_processes_and_their_jobs_are_those_of_all_shards(operator, shards):
    process(shards, "mail", "box:1:aa", ["mail"], busy=1)
    process(shards, "rest", "box:2:bb", ["default"], busy=2)
    work = {"queue": "mail", "payload": text("j1", "mail"), "run_at": NOW}
    shards.raw["mail"].hset("box:1:aa:work", "t1", json.dumps(work))
    processes = ProcessSet(operator)

    assert [(each.identity, each.shard) for each in processes] == [
        ("box:1:aa", "mail"),
        ("box:2:bb", "rest"),
    ]
    assert len(processes) == 2
    assert [(each.job.jid, each.shard) for each in WorkSet(operator)] == [("j1", "mail")]
    assert WorkSet(operator).size == 3
    processes.find("box:2:bb").quiet()
    assert shards.raw["rest"].lrange("box:2:bb-signals", 0, -1) == [b"TSTP"]
    assert shards.raw["mail"].exists("box:2:bb-signals") == 0
    processes.cleanup()


def test_a_job_is_found_on_whichever_shard_it_is(operator, shards):
    put(shards, "rest", "dead", ("j1", NOW))
    shards.raw["fast"].sadd("queues", "default")
    shards.raw["fast"].lpush("queue:default", text("j1"))

    found = find_job("j1", operator)

    assert [(each.place, each.shard) for each in found] == [("dead", "rest"), ("queue", "fast")]
    assert find_job("j1", operator.on("mail")) == []


def test_the_audit_logs_of_all_shards_are_one_list(operator, shards):
    for number in range(9):
        record_audit(operator.on(operator.shards[number % 3]), "look", f"n{number}")

    first = read_audit(operator, most=4)
    second = read_audit(operator, most=4, before=first[-1].id)
    third = read_audit(operator, most=4, before=second[-1].id)

    assert [entry.target for entry in (*first, *second, *third)] == [
        f"n{n}" for n in reversed(range(9))
    ]
    assert {entry.shard for entry in first} == set(operator.shards)


def test_facts_name_the_shard_and_say_once_what_holds_on_several(operator, shards):
    shards.raw["mail"].sadd("queues", "mail")
    shards.raw["mail"].lpush("queue:mail", text("j1", "mail"))
    Queue("late", operator).pause_it()

    facts = fetch_facts(operator)
    found = {fact.kind: fact for fact in judge(facts).facts}

    assert [(queue.name, queue.size, queue.shard) for queue in facts.queues] == [
        ("mail", 1, "mail")
    ]
    assert found["no-worker"].shards == ("mail",)
    assert found["no-worker"].what.startswith("Shard mail: No worker lives")
    assert found["paused"].shards == ("mail", "fast", "rest")
    assert found["paused"].what.startswith("Shards mail, fast, rest: ")


def test_what_was_measured_on_each_shard_is_added_up(operator, shards):
    stamp = time.gmtime(NOW)
    keys = operator.keys
    for count, raw in enumerate(shards.raw.values(), 1):
        raw.hset(keys.metrics(minute_8(stamp)), mapping={"Work|p": count, "Work|ms": 10 * count})

    top = top_jobs(5, operator=operator, now=NOW)
    one = job_metrics("Work", 5, operator=operator, now=NOW)

    assert (top.classes["Work"].total.executions, top.classes["Work"].total.ms) == (6, 60)
    assert one.counts.total.executions == 6
    assert class_histograms(["Work"], 5, operator=operator, now=NOW)["Work"].count == 0


def test_everything_else_can_be_read_from_several_shards(operator, client):
    client.cancel("j" * 24)

    assert fetch_in_flight(operator) == []
    assert fetch_suspects(operator) == []
    assert fetch_sources(operator).guards == 0
    assert ScheduleSet(operator).fetch() == []
    assert list(fetch_iterations(["j" * 24], operator)) == ["j" * 24]
    assert ScheduledSet(operator).size == 0


def test_occurrences_of_a_schedule_are_put_together_from_the_ledgers_of_all_shards(
    operator, client, shards
):
    instant = int(time.time()) // 60 * 60 - 3600
    items = [{"class": "Work", "args": [], "queue": queue} for queue in ("mail", "default")]
    definition = Schedule("nightly", "Work", every=60).definition.to_document() | {"jobs": items}
    shards.raw["mail"].hset("kb:schedules", "nightly", json.dumps(definition))
    client.push_tick("nightly", instant, items, by="test")

    (schedule,) = ScheduleSet(operator).fetch()

    assert [(each.at, len(each.jids)) for each in schedule.occurrences] == [(instant, 2)]
    assert ScheduleSet(operator).find("nightly").name == "nightly"


def test_a_shard_that_is_away_is_named_and_the_others_can_be_looked_at(shards):
    with embedded_server() as server:
        places = {name: each["url"] for name, each in shards.setting.items()}
        operator = open_operator(client=sharded(places | {"mail": server.url}).client(), by="ann")
        assert operator.reachable().among == ("mail", "fast", "rest")
    shards.raw["rest"].sadd("queues", "default")
    shards.raw["rest"].lpush("queue:default", text("j1"))

    with pytest.raises(RedisUnavailable, match="shard mail"):
        Stats(operator)
    left = operator.reachable()

    assert left.shards == ("fast", "rest")
    assert [name for name, why in left.missing] == ["mail"]
    assert Stats(left).enqueued == 1
    assert judge(fetch_facts(left)).facts[0].kind == "shard-away"
    assert Stats(operator.on("rest")).enqueued == 1
    with pytest.raises(RedisUnavailable, match="shard mail is away"):
        replace(operator, among=("mail",)).reachable()


def test_an_unknown_shard_is_refused_with_the_names(operator):
    with pytest.raises(PayloadError, match=r"'nope' is not one of the shards \(mail, fast, rest\)"):
        operator.limited_to(("mail", "nope"))
    assert operator.limited_to(("mail",)).shard == "mail"
    assert operator.limited_to(("mail", "rest")).shards == ("mail", "rest")


def test_with_one_server_nothing_says_shard(redis_url):
    operator = open_operator(redis_url)

    assert (operator.shards, operator.shard, operator.reachable()) == ((), "", operator)
    assert Queue("x", operator).shard == ""
    assert Stats(operator).shards == {}
