"""The monitor and the tick function with several shards: each is looked after, also while another one is away."""

import json
import time

import pytest
from support.minutely_function import MinuteContext, load_function, read_lines, read_metrics
from support.servers import find_free_port

from kiqbridge import RedisUnavailable, Schedule, Schedules
from kiqbridge.aws.shard_turns import Sums

SERVICE = "shop"


@pytest.fixture
def start(monkeypatch, shards):
    """Call a function in a new warm environment; `away` names a shard whose address refuses connections."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    made = []

    def start(name, *, away=None):
        setting = dict(shards.setting)
        if away is not None:
            setting[away] = {**setting[away], "url": f"redis://127.0.0.1:{find_free_port()}/0"}
        monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(setting))
        app = load_function(name)
        made.append(getattr(app, name))
        return lambda: app.lambda_handler({}, MinuteContext())

    yield start
    for each in made:
        if each.cache_info().currsize:
            each().close()


@pytest.fixture
def client(shards):
    client = shards.client()
    yield client
    client.close()


def job(queue):
    return {"class": "HealthPulse", "args": [], "queue": queue}


def held_by_a_dead_worker(raw):
    """As a worker leaves it that was killed: a sign of life that does not change, and a job in flight."""
    name = "v2:host:1:ab:1"
    raw.sadd("kb:inflight", name)
    raw.hset(f"kb:claims:{name}", "t1", "4 default")
    raw.lpush(f"kb:inflight:{name}:t1:0", json.dumps({**job("default"), "jid": "a" * 24}))
    raw.hset("kb:alive", name, f"7 {time.time() - 3600} 1000")


def test_demand_is_measured_for_each_shard_and_summed(start, client, capsys):
    client.push_bulk({**job("mail"), "args": [[], []]})
    client.push(job("critical"))

    answer = start("monitor")()

    metrics = read_metrics(capsys.readouterr().out)
    demand = {name: metrics["Demand", SERVICE, name] for name in client.shards}
    assert demand == {"mail": 2.0, "fast": 1.0, "rest": 0.0}
    assert metrics["Demand", SERVICE] == 3.0
    assert metrics["FleetSilent", SERVICE] == 1.0
    assert metrics["Failed", SERVICE] == 0.0
    assert metrics["QueueDepth", SERVICE, "mail"] == 2.0
    assert {name: each["demand"] for name, each in answer.items()} == demand


def test_the_monitor_looks_after_the_others_while_one_shard_is_away(start, client, shards, capsys):
    client.push(job("mail"))
    held_by_a_dead_worker(shards.raw["rest"])

    with pytest.raises(RedisUnavailable):
        start("monitor", away="fast")()

    output = capsys.readouterr().out
    metrics = read_metrics(output)
    assert metrics["Demand", SERVICE] == 1.0 + 1.0
    assert (metrics["Failed", SERVICE], metrics["RedisUnavailable", SERVICE]) == (1.0, 1.0)
    assert metrics["OrphansGivenBack", SERVICE, "rest"] == 1.0
    assert shards.raw["rest"].llen("queue:default") == 1
    lines = {each["shard"]: each["message"] for each in read_lines(output) if "message" in each}
    assert lines == {"mail": "done", "fast": "failed", "rest": "done"}


def test_the_schedules_of_each_shard_are_placed_there(start, client, shards):
    for queue in ("mail", "default"):
        Schedules(client).save(Schedule(f"Pulse-{queue}", "HealthPulse", every=60, queue=queue))

    answer = start("tick")()

    placed = {name: raw.zcard("schedule") for name, raw in shards.raw.items()}
    assert placed == {name: each["placed"] for name, each in answer.items()}
    assert placed["mail"] >= 4
    assert placed["rest"] >= 4
    assert placed["fast"] == 0


def test_schedules_are_placed_while_the_first_shard_is_away(start, client, shards, capsys):
    Schedules(client).save(Schedule("Pulse", "HealthPulse", every=60))

    with pytest.raises(RedisUnavailable):
        start("tick", away="mail")()

    placed = shards.raw["rest"].zcard("schedule")
    metrics = read_metrics(capsys.readouterr().out)
    assert metrics["JobsPlaced", SERVICE] == metrics["JobsPlaced", SERVICE, "rest"] == placed >= 4


class TestSums:
    def test_a_sum_is_written_once_nobody_is_waited_for(self):
        written = []
        sums = Sums(
            ["a", "b", "c"], lambda values, dimensions: written.append((values, dimensions))
        )

        sums.add("a", {"Demand": 1, "QueueLatency": 9}, {})
        sums.add("b", {"Demand": 2, "QueueLatency": 5}, {})
        sums.add("a", {"QueueDepth": 4}, {"queue": "mail"})
        assert written == []
        sums.end("c")
        assert written == [({"Demand": 3, "QueueLatency": 9}, {})]
        sums.end("a")
        sums.end("b")

        assert written[1:] == [({"QueueDepth": 4}, {"queue": "mail"})]
