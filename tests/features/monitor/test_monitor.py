"""The real monitor function against a real server: what it measures, what it gives back, what it leaves alone."""

import json
import time
from collections import Counter

import pytest
from support.enqueue_function import REQUEST, Context, load_app, read_lines, read_metrics
from support.fleet import Fleet, incarnations, jids_in_flight, lists_in_flight
from support.http_endpoint import webhook
from support.servers import find_free_port
from support.waiting import wait_until

from kiqbridge import Client, RedisUnavailable
from kiqbridge.features.monitor.fleet import DUE_FOR_S
from kiqbridge.wire.keys import Keys

SERVICE = "shop-monitor"
RECOVER_AFTER_S = 6.0


@pytest.fixture
def environment(monkeypatch, redis_url):
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    return monkeypatch


@pytest.fixture
def load(environment):
    apps = []

    def load():
        apps.append(load_app("monitor"))
        return apps[-1]

    yield load
    for app in apps:
        if app.monitor.cache_info().currsize:
            app.monitor().close()


@pytest.fixture
def invoke(load):
    app = load()
    return lambda **context: app.lambda_handler({}, Context(**context))


@pytest.fixture
def measured(invoke, capsys):
    """Invoke; metric → value, without the service."""

    def measured():
        invoke()
        metrics = read_metrics(capsys.readouterr().out)
        assert {dimensions[0] for _, *dimensions in metrics} == {SERVICE}
        return {(name, *rest): value for (name, _, *rest), value in metrics.items()}

    return measured


@pytest.fixture
def fleet(redis_url, tmp_path):
    with Fleet(redis_url, tmp_path) as fleet:
        yield fleet


def job(**attributes):
    return json.dumps({"class": "HealthPulse", "args": [], "jid": "a" * 24, **attributes})


def beat(redis, identity, *, queues, ours=False, quiet=False):
    """A heartbeat as both languages write it (§10.2)."""
    info = {
        "queues": queues,
        "concurrency": 5,
        "labels": ["kiqbridge"] if ours else [],
        "version": "7.3.9",
    }
    redis.sadd("processes", identity)
    redis.hset(
        identity,
        mapping={"info": json.dumps(info), "busy": 2, "quiet": "true" if quiet else "false"},
    )
    redis.expire(identity, 60)


# What it measures


def test_at_zero_workers_and_zero_jobs_each_metric_that_scales_arrives(measured):
    names = """
        WorkersAlive BusyThreads Concurrency Demand QueueDepth QueueLatency InFlight Due Retries Dead FleetSilent
        OrphansGivenBack MissedTicks DeadTrimmed Problems RedisUnavailable Failed
    """
    assert measured() == {(name,): 0.0 for name in names.split()}


def test_what_the_page_calls_critical_is_measured_and_logged(invoke, capsys, redis, client):
    client.push_bulk({"class": "HealthPulse", "args": [[], []]})
    at = int(time.time()) - 600
    redis.zadd("kb:missed", {f"{at} shop/Nightly": at})

    answer = invoke()

    [problem] = answer["problems"]
    assert problem["rule"] == "no-worker"
    assert problem["what"].startswith("No worker lives, and 2 jobs wait in queues, the oldest for")
    assert read_metrics(capsys.readouterr().out)["Problems", SERVICE] == 1


def test_what_waits_is_in_flight_or_due_is_demand(measured, redis, client):
    client.push_bulk({"class": "HealthPulse", "args": [[], [], []]})
    redis.lpush("kb:suspects:default", job())
    redis.sadd("kb:inflight", "v2:host:1:ab:1")
    redis.hset("kb:claims:v2:host:1:ab:1", "t1", "4 default")
    redis.lpush("kb:inflight:v2:host:1:ab:1:t1:0", job(), job())
    redis.hset("kb:alive", "v2:host:1:ab:1", f"7 {time.time()} 10000")
    redis.zadd("retry", {job(jid="r1"): time.time() - 5, job(jid="r2"): time.time() + 600})
    redis.zadd("schedule", {job(jid="s1"): time.time() - 5, job(jid="s2"): time.time() + 600})
    redis.zadd("dead", {job(jid="d1"): time.time()})

    metrics = measured()

    assert metrics["Demand",] == 4 + 2 + 2
    assert metrics["QueueDepth",] == metrics["QueueDepth", "default"] == 4
    assert (metrics["InFlight",], metrics["Due",], metrics["Retries",]) == (2, 2, 2)
    assert (metrics["Dead",], metrics["WorkersAlive",]) == (1, 1)


@pytest.mark.parametrize("form", [lambda at: at, lambda at: int(at * 1000), int])
def test_latency_is_the_age_of_the_job_at_the_consuming_end_in_each_form_of_time(
    measured, redis, form
):
    redis.sadd("queues", "default")
    now = time.time()
    redis.lpush("queue:default", job(enqueued_at=form(now - 90)), job(enqueued_at=form(now - 1)))

    metrics = measured()

    assert 89 <= metrics["QueueLatency", "default"] == metrics["QueueLatency",] < 600


def test_a_job_that_does_not_say_since_when_it_waits_has_no_latency(measured, redis):
    redis.sadd("queues", "default")
    redis.lpush("queue:default", "no job", job(enqueued_at=time.time() - 50), b"\xff{")

    metrics = measured()

    assert (metrics["QueueLatency", "default"], metrics["QueueDepth", "default"]) == (0, 3)


def test_a_paused_queue_and_one_that_others_serve_start_no_worker(
    environment, load, redis, client, capsys
):
    environment.setenv("KIQBRIDGE_MONITOR_QUEUES", "default mailers,3")
    for queue, count in (("default", 2), ("mailers", 3), ("rails", 5)):
        client.push_bulk({"class": "HealthPulse", "queue": queue, "args": [[]] * count})
    redis.sadd("paused", "default")

    answer = load().lambda_handler({}, Context())

    assert answer["demand"] == 3
    assert answer["queues"] == {"default": 2, "mailers": 3, "rails": 5}
    assert answer["unserved"] == ["mailers", "rails"]
    assert read_metrics(capsys.readouterr().out)["QueueDepth", SERVICE] == 10


def test_a_queue_of_the_scaled_fleet_is_looked_at_also_if_redis_does_not_list_it(
    environment, load, redis
):
    environment.setenv("KIQBRIDGE_MONITOR_QUEUES", "default low")
    redis.rpush("queue:low", job())  # as a job comes back to a queue that was cleared

    answer = load().lambda_handler({}, Context())

    assert (answer["queues"], answer["demand"]) == ({"default": 0, "low": 1}, 1)


def test_a_fleet_is_silent_if_something_waits_for_which_nobody_lives(measured, redis, client):
    assert measured()["FleetSilent",] == 0
    client.push({"class": "HealthPulse", "queue": "rails", "args": []})
    assert measured()["FleetSilent",] == 1
    beat(redis, "ruby:1:ab", queues=["default"])
    assert measured()["FleetSilent",] == 1
    beat(redis, "ruby:2:ab", queues=["rails"], quiet=True)
    assert measured()["FleetSilent",] == 1
    beat(redis, "ruby:3:ab", queues=["rails"])
    metrics = measured()
    assert (metrics["FleetSilent",], metrics["WorkersAlive",], metrics["BusyThreads",]) == (0, 0, 0)
    beat(redis, "python:4:ab", queues=["rails"], ours=True)
    metrics = measured()
    assert (metrics["WorkersAlive",], metrics["BusyThreads",], metrics["Concurrency",]) == (1, 2, 5)


def test_what_is_due_is_demand_only_if_no_poller_moves_it(measured, redis):
    redis.zadd("schedule", {job(): time.time() - DUE_FOR_S / 2})
    assert (measured()["Demand",], measured()["FleetSilent",]) == (1, 1)

    beat(redis, "ruby:1:ab", queues=["rails"])
    assert (measured()["Demand",], measured()["FleetSilent",]) == (0, 0)

    redis.zadd("schedule", {job(): time.time() - 2 * DUE_FOR_S})
    assert (measured()["Demand",], measured()["Due",]) == (1, 1)


def test_what_redis_refuses_is_logged_and_the_rest_is_measured(invoke, redis, client):
    client.push({"class": "HealthPulse", "args": []})
    redis.sadd("queues", "odd")
    redis.set("queue:odd", "x")

    answer = invoke()

    assert answer["queues"] == {"default": 1, "odd": 0}
    assert "LLEN queue:odd: " in answer["refused"][0]


def test_the_deepest_queues_have_metrics(measured, redis):
    redis.sadd("queues", *(f"q{number:05}" for number in range(1500)))
    redis.lpush("queue:q01400", job(enqueued_at=time.time()))

    metrics = measured()

    by_queue = [name for metric, *name in metrics if name and metric == "QueueDepth"]
    assert len(by_queue) == 50
    assert metrics["QueueDepth", "q01400"] == 1


def test_it_takes_few_round_trips_however_much_there_is(invoke, redis, client):
    for queue in range(40):
        client.push({"class": "HealthPulse", "queue": f"q{queue}", "args": []})
    for process in range(30):
        beat(redis, f"ruby:{process}:ab", queues=["q1"])
        name = f"v2:host:{process}:ab:1"
        redis.sadd("kb:inflight", name)
        redis.hset("kb:alive", name, f"7 {time.time()} 10000")
        redis.hset(f"kb:claims:{name}", mapping={f"t{n}": "4 q1" for n in range(10)})
    invoke()
    before = redis.info("stats")["total_reads_processed"]

    invoke()

    assert redis.info("stats")["total_reads_processed"] - before <= 20


def test_a_namespace_is_kept_to(environment, load, redis_url):
    environment.setenv("KIQBRIDGE_NAMESPACE", "shop")
    client = Client(redis_url, namespace="shop")
    client.push({"class": "HealthPulse", "args": []})
    client.close()

    assert load().lambda_handler({}, Context())["queues"] == {"default": 1}


# When Redis is away


def test_without_redis_a_metric_says_so_one_line_is_logged_and_the_invocation_fails(
    environment, load, capsys
):
    environment.setenv("REDIS_URL", f"redis://127.0.0.1:{find_free_port()}/0")

    with pytest.raises(RedisUnavailable):
        load().lambda_handler({}, Context())

    output = capsys.readouterr().out
    assert read_metrics(output) == {("RedisUnavailable", SERVICE): 1.0, ("Failed", SERVICE): 1.0}
    [line] = [each for each in read_lines(output) if "message" in each]
    assert (line["level"], line["message"], line["error_class"]) == (
        "ERROR",
        "failed",
        "RedisUnavailable",
    )


# Ticks that did not come


def save_schedule(redis, **members):
    """A schedule of the manifest of the stack `shop` that was due at the last two full hours."""
    hour = int(time.time()) // 3600 * 3600
    document = {
        "expression": "cron(0 * * * ? *)",
        "jobs": [{"class": "Report", "args": [1], "queue": "low"}],
        "origin": "template",
        "grace_s": 0,
        "since": hour - 3700,
        **members,
    }
    redis.hset("kb:schedules", "shop/Report", json.dumps(document))
    entry = {"version": 1, "hash": "x", "published_at": hour - 3700, "names": ["shop/Report"]}
    redis.hset("kb:manifests", "shop", json.dumps(entry))
    return hour


def test_ticks_that_did_not_come_are_found_and_by_policy_enqueued_if_no_worker_lives(
    load, redis, capsys
):
    app = load()
    hour = save_schedule(redis, missed="last")

    first = app.lambda_handler({}, Context())
    again = app.lambda_handler({}, Context())

    last = first["missed_ticks"][-1]
    assert last == {
        "schedule": "shop/Report",
        "at": time.strftime("%Y-%m-%dT%H:00:00Z", time.gmtime(hour)),
        "enqueued": True,
    }
    assert again["missed_ticks"] == []
    assert redis.llen("queue:low") == 1
    [entry] = redis.zrange("kb:ticks:shop/Report", 0, -1)
    assert json.loads(entry)["by"] == f"monitor:{REQUEST}"
    lines = read_lines(capsys.readouterr().out)
    measured = [line["MissedTicks"][0] for line in lines if "MissedTicks" in line]
    found = len(first["missed_ticks"])
    # Those of the last hour, and once those that were found late.
    assert measured[0] == found >= measured[1] >= 1


def test_whoever_is_to_be_notified_of_them_is(environment, load, redis):
    with webhook() as (url, requests):
        environment.setenv("KIQBRIDGE_MISSED_TICK_WEBHOOK", url)
        save_schedule(redis)

        answer = load().lambda_handler({}, Context())

    [notification] = requests
    assert notification["by"] == f"monitor:{REQUEST}"
    assert notification["count"] == len(answer["missed_ticks"]) >= 1


def test_while_a_worker_lives_its_leader_looks_for_them(invoke, redis):
    save_schedule(redis, missed="last")
    beat(redis, "python:1:ab", queues=["low"], ours=True)

    assert invoke()["missed_ticks"] == []
    assert redis.llen("queue:low") == 0


def test_what_a_worker_has_found_is_measured_for_an_hour(measured, redis):
    now = time.time()
    ticks = {f"{now - age:.0f} shop/Report": now - age for age in (60, 1800, 7200)}
    redis.zadd("kb:missed", ticks)
    beat(redis, "python:1:ab", queues=["low"], ours=True)

    assert measured()["MissedTicks",] == 2


def test_dead_jobs_that_were_dropped_are_measured_for_an_hour(measured, redis):
    now = time.time()
    redis.zadd("kb:dead:trimmed", {"1000 a": now - 60, "503 b": now - 1800, "7 c": now - 7200})

    assert measured()["DeadTrimmed",] == 1503


# What it gives back


def hold(fleet, client, redis, count, *, workers, recover_after_s=RECOVER_AFTER_S):
    """Start workers, each with two jobs in its hands; the jids of all."""
    started = [fleet.start("-c", "2", recover_after_s=recover_after_s) for _ in range(workers)]
    for worker in started:
        worker.wait_for(lambda pid=worker.pid: incarnations(redis, pid), what="its lease")
    jids = client.push_bulk({"class": "Hold", "args": [[]] * count})
    wait_until(
        lambda: sum(len(fleet.marks.look().running(each.pid)) for each in started) == 2 * workers,
        30,
        "each worker in the midst of its jobs",
    )
    return set(jids)


@pytest.mark.slow
def test_jobs_of_three_killed_workers_go_back_once_each_if_none_lives(
    fleet, client, redis, load, capsys
):
    app = load()
    jids = hold(fleet, client, redis, 10, workers=3)
    held = jids_in_flight(redis, incarnations(redis))
    for worker in list(fleet.live):
        fleet.kill(worker)
    wait_until(
        lambda: (
            not any(
                time.time() - float(text.split()[1]) < RECOVER_AFTER_S / 3
                for text in redis.hvals("kb:alive")
            )
        ),
        30,
        "all of them silent",
    )

    began = time.monotonic()
    answer = app.lambda_handler({}, Context())
    took_s = time.monotonic() - began

    assert len(held) >= 6
    assert answer["orphans_given_back"] == len(held)
    assert (answer["workers_alive"], answer["workers_silent"]) == (0, 0)
    assert answer["fleet_silent"] is True
    assert answer["demand"] == len(jids)  # in flight when it was read
    waiting = [json.loads(text)["jid"] for text in redis.lrange("queue:default", 0, -1)]
    assert Counter(waiting) == dict.fromkeys(jids, 1)
    assert lists_in_flight(redis) == {}
    assert incarnations(redis) == set()
    assert read_metrics(capsys.readouterr().out)["OrphansGivenBack", SERVICE] == len(held)
    again = app.lambda_handler({}, Context())
    assert (again["orphans_given_back"], again["in_flight"]) == (0, 0)
    assert redis.llen("queue:default") == len(jids)
    print(
        f"monitor: {len(held)} jobs of 3 killed workers given back in {took_s:.1f} s, "
        f"each once ({len(jids)} waiting)"
    )


def test_a_living_worker_is_left_to_do_it(fleet, client, redis, invoke):
    hold(fleet, client, redis, 4, workers=2, recover_after_s=60.0)
    victim = fleet.live[0]
    names = incarnations(redis, victim.pid)
    held = jids_in_flight(redis, names)
    fleet.kill(victim)
    [name] = names
    redis.hset("kb:alive", name, f"9 {time.time() - 3600} 1000")

    answer = invoke()

    assert answer["orphans_given_back"] == 0
    assert (answer["workers_alive"], answer["workers_silent"]) == (1, 1)
    assert names <= incarnations(redis)
    assert jids_in_flight(redis, names) == held


def orphan(redis, name="v2:host:1:ab:1", silent_ms=1000, number=7):
    redis.sadd("kb:inflight", name)
    redis.hset(f"kb:claims:{name}", "t1", "4 default")
    redis.lpush(f"kb:inflight:{name}:t1:0", job())
    redis.hset("kb:alive", name, f"{number} {time.time() - 3600} {silent_ms}")
    return name


def test_one_that_gives_a_sign_in_the_meantime_ends_the_watch(load, redis, monkeypatch):
    app = load()
    name = orphan(redis)
    orphan(redis, "v2:host:2:ab:1")
    looks = []

    def woken(pause_s):
        looks.append(pause_s)
        if len(looks) == 2:
            redis.hset("kb:alive", name, f"8 {time.time()} 1000")
        time.sleep_(pause_s)

    monkeypatch.setattr(time, "sleep_", time.sleep, raising=False)
    monkeypatch.setattr("kiqbridge.engine.inflight.recovery.time.sleep", woken)

    answer = app.lambda_handler({}, Context())

    assert answer["orphans_given_back"] == 0
    assert len(incarnations(redis)) == 2


def test_one_that_may_be_silent_for_longer_than_the_invocation_lasts_is_left(invoke, redis, caplog):
    name = orphan(redis, silent_ms=60_000)

    answer = invoke()

    assert (answer["orphans_given_back"], answer["workers_silent"]) == (0, 1)
    assert incarnations(redis) == {name}
    assert "must be seen silent for 108 s" in caplog.text


def test_what_was_begun_by_somebody_is_finished(invoke, redis):
    name = orphan(redis)
    redis.smove("kb:inflight", "kb:reaping", name)

    assert invoke()["orphans_given_back"] == 1
    assert redis.llen(Keys().queue("default")) == 1
    assert incarnations(redis) == set()
