"""The real tick function against a real server: dynamic schedules are placed, once, whoever else does it."""

import json
import time

import pytest
from support.enqueue_function import REQUEST, Context, load_app, read_lines, read_metrics
from support.placing import place_due
from support.servers import find_free_port

from kiqbridge import RedisUnavailable, Schedule, Schedules
from kiqbridge.store.ledger import read_ledger
from kiqbridge.wire.keys import Keys

SERVICE = "shop-tick"


@pytest.fixture
def app(monkeypatch, redis_url):
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    app = load_app("tick")
    yield app
    if app.tick.cache_info().currsize:
        app.tick().close()


@pytest.fixture
def invoke(app):
    return lambda: app.lambda_handler({}, Context())


def placed(redis):
    """Instant of each placed job."""
    return [json.loads(text)["tick"]["at"] for text in redis.zrange("schedule", 0, -1)]


def test_the_next_occurrences_are_placed_at_their_second_and_the_ledger_names_the_function(
    invoke, redis, client, capsys
):
    Schedules(client).save(Schedule("Pulse", "HealthPulse", every=60))

    answer = invoke()

    instants = placed(redis)
    assert len(instants) == answer["placed"] >= 4
    assert [int(score) for _, score in redis.zrange("schedule", 0, -1, withscores=True)] == instants
    entries = read_ledger(client.pool, Keys(), "Pulse")
    assert {entry.by for entry in entries} == {f"tick:{REQUEST}"}
    output = capsys.readouterr().out
    assert read_metrics(output) == {
        ("SchedulesEvaluated", SERVICE): 1.0,
        ("JobsPlaced", SERVICE): float(len(instants)),
        ("RedisUnavailable", SERVICE): 0.0,
        ("Failed", SERVICE): 0.0,
    }
    [line] = [each for each in read_lines(output) if "message" in each]
    assert (line["message"], line["placed"]) == ("done", len(instants))


def test_what_it_or_a_leader_has_placed_is_not_placed_again(invoke, redis, client):
    Schedules(client).save(Schedule("Pulse", "HealthPulse", every=60))
    first = invoke()["placed"]

    again = invoke()["placed"]
    by_leader = place_due(client, by="worker:a").placed

    instants = placed(redis)
    assert len(set(instants)) == len(instants) == first + again + by_leader
    # A minute may have begun in between.
    assert again + by_leader <= 1 + (time.time() - min(instants)) // 60


def test_without_schedules_it_places_nothing(invoke, redis):
    assert invoke() == {"schedules": 0, "evaluated": 0, "placed": 0, "missed": [], "conflicts": 0}
    assert not redis.exists("schedule")


def test_without_redis_it_fails_and_a_metric_says_so(app, monkeypatch, capsys):
    monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{find_free_port()}/0")

    with pytest.raises(RedisUnavailable):
        app.lambda_handler({}, Context())

    assert read_metrics(capsys.readouterr().out)["RedisUnavailable", SERVICE] == 1
