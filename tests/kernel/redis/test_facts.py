"""The facts of a verdict, read from a server that clients, workers and schedules have written."""

import json
import time

from support.spoiled import live, spoil, text

from kiqbridge.api import DeadSet, RetrySet, fetch_facts, fetch_verdict, open_operator

ORPHAN = "v2:host:1:aaa:1"


def kinds(operator):
    return [fact.kind for fact in fetch_verdict(operator).facts]


def test_an_empty_server_is_healthy(redis, operator):
    facts = fetch_facts(operator)

    assert (facts.queues, facts.processes, facts.refused) == ([], [], [])
    assert abs(facts.at - time.time()) < 10
    assert facts.memory.policy == "noeviction"
    assert facts.memory.used > 0
    assert kinds(operator) == []


def test_all_of_it_is_read(redis, redis_url, operator):
    spoil(redis, redis_url, operator, time.time())
    lately = time.gmtime(time.time() - 120)
    marks = operator.keys.marks(time.strftime("%Y%m%d", lately))
    redis.hset(marks, time.strftime("%Y-%m-%dT%H:%M:00Z", lately), "v2")

    facts = fetch_facts(operator)

    default, mail = facts.queues
    assert list(facts.deployed.values()) == ["v2"]
    assert (default.name, default.size, round(default.latency_s)) == ("default", 2, 120)
    assert (mail.size, mail.suspects, mail.is_readable) == (1, 1, False)
    assert [each.queues for each in facts.processes] == [["default"]]
    assert [each.job.jid for each in facts.work] == ["r"]
    assert (facts.retry.size, facts.retry.due, round(facts.retry.late_s)) == (2, 1, 70)
    assert (facts.schedule.size, facts.schedule.due, facts.schedule.late_s) == (1, 0, 0.0)
    assert (facts.dead, facts.dead_lately) == (2, 1)
    assert [(each.name, each.reason) for each in facts.pauses] == [("mail", "migration")]
    assert [(each.schedule, each.came_later) for each in facts.missed] == [
        ("shop/Nightly", False),
        ("shop/Other", True),
    ]
    assert (facts.classes["Mail"].executions, facts.classes["Mail"].failures) == (30, 30)
    assert kinds(operator) == [
        *("overdue", "missed-ticks", "payload", "late-ticks", "queue-latency", "failing-class"),
        *("deaths", "long-jobs", "suspects", "paused"),
    ]


def test_the_next_job_of_each_queue_and_the_next_retry_show_unknown_classes(redis, operator):
    now = time.time()
    redis.sadd("queues", "default")
    redis.lpush("queue:default", text("a", now, "Male"))
    live(redis, kb_classes='["Mail"]')
    redis.sadd("processes", "gone:1:abc")
    failed = {"error_class": "NameError", "error_message": "uninitialized constant Female"}
    job = json.dumps({**json.loads(text("b", now, "Female")), **failed})
    redis.zadd("retry", {job: now + 70})

    facts = fetch_facts(operator)

    assert facts.unknown == {"Female in retry": 1, "Male in queue default": 1}
    assert facts.gone == 1
    assert kinds(operator) == ["unknown-class", "heartbeat"]


def test_what_a_silent_worker_holds_is_an_orphan(redis, operator):
    redis.sadd("kb:inflight", ORPHAN, "v2:host:2:bbb:1")
    redis.hset("kb:alive", ORPHAN, f"7 {time.time() - 40:.3f} 4000")
    redis.hset("kb:alive", "v2:host:2:bbb:1", f"7 {time.time():.3f} 400000")
    redis.hset(f"kb:claims:{ORPHAN}", "tid", "4 default")
    redis.rpush(f"kb:inflight:{ORPHAN}:tid:0", text("a", 1.0), text("b", 1.0))

    facts = fetch_facts(operator)

    assert facts.leases == 1
    assert [(each.name, each.held) for each in facts.orphans] == [(ORPHAN, {"default": 2})]
    assert kinds(operator) == ["orphans"]


def test_a_key_of_a_wrong_type_hides_nothing_else(redis, operator):
    redis.set("retry", "no set")
    redis.sadd("queues", "default")
    redis.hset("queue:default", "a", "b")
    redis.zadd("dead", {text("d", 1.0): time.time()})

    facts = fetch_facts(operator)

    assert facts.dead_lately == 1
    assert [each.name for each in facts.queues] == ["default"]
    assert any("ZCARD retry" in each for each in facts.refused)
    assert any("LLEN queue:default" in each for each in facts.refused)
    assert kinds(operator) == ["deaths", "refused"]


def test_what_the_rights_do_not_allow_is_named(redis, redis_url, operator):
    redis.execute_command("ACL", "SETUSER", "reader", "on", ">pass", "~*", "+@all", "-info")
    try:
        other = open_operator(redis_url.replace("redis://", "redis://reader:pass@"), by="ann")
        facts = fetch_facts(other)
        other.client.close()
    finally:
        redis.execute_command("ACL", "DELUSER", "reader")

    assert facts.memory is None
    assert any(each.startswith("INFO memory") for each in facts.refused)


def test_two_round_trips_and_few_milliseconds_with_200_queues(redis, operator, trips):
    now = time.time()
    names = [f"queue{number}" for number in range(200)]
    redis.sadd("queues", *names)
    for name in names:
        redis.lpush(f"queue:{name}", *(text(str(number), now) for number in range(5)))
    live(redis, queues=names)
    taken = []
    for _ in range(20):
        begun = time.process_time()  # of the CPU: others may need it as well
        assert fetch_verdict(operator).healthy
        taken.append(time.process_time() - begun)

    assert len(trips) == 40
    assert sum(trips[:2]) < 700
    assert min(taken) < 0.05  # 5 ms


def test_what_workers_without_a_heartbeat_hold_is_read_only_when_there_are_some(
    redis, operator, trips
):
    now = time.time()
    live(redis)
    live(redis, "host:2:bbb", beat=now - 25)
    for name in (ORPHAN, "v2:host:2:bbb:1", "v2:host:3:ccc:4"):
        redis.sadd("kb:inflight", name)
        redis.hset("kb:alive", name, f"3 {now:.3f} 10000")
        redis.hset(f"kb:claims:{name}", "t1", "1 default")
        redis.lpush(f"kb:inflight:{name}:t1:1", *(text(f"{name[-5:]}-{n}", now) for n in range(5)))

    found = fetch_facts(operator).held
    redis.hset("host:2:bbb", "beat", now)
    redis.srem("kb:inflight", "v2:host:3:ccc:4")
    trips.clear()
    well = fetch_facts(operator)

    assert [(each.process, each.job.jid) for each in found] == [
        *(("host:2:bbb", f"bbb:1-{n}") for n in range(3)),
        *(("host:3:ccc", f"ccc:4-{n}") for n in range(3)),
    ]
    assert (well.held, len(trips)) == ((), 2)


def test_what_operators_killed_is_counted_among_the_deaths_of_the_last_hour(redis, operator):
    redis.zadd("retry", {f'{{"class":"Mail","jid":"j{n}","args":[]}}': n for n in range(4)})
    RetrySet(operator).apply_all("kill", limit=3)
    DeadSet(operator).apply_all("kill")
    redis.zadd("dead", {"died by itself": time.time()})

    facts = fetch_facts(operator)

    assert (facts.dead_lately, facts.killed_lately) == (4, 3)
