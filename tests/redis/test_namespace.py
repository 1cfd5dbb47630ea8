"""Pushing under a namespace: as redis-namespace of Sidekiq 6 does, and within one cluster slot."""

import json
import re
from pathlib import Path

import pytest
import redis as redis_py
from support.proxy import InterceptingRedis
from support.servers import embedded_server
from support.waiting import wait_until

from kiqbridge import Client, RedisRefused
from kiqbridge.settle.metrics import Metrics
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

RECORDED = json.loads(
    (Path(__file__).parents[1] / "vectors" / "namespace-6.4.1.json").read_text(encoding="utf-8")
)["operations"]
CALLS = {
    "client_push": lambda client: client.push({"args": [1], "class": "EchoJob"}),
    "client_later": lambda client: client.push(
        {"class": "EchoJob", "args": [2], "at": 1_900_000_000.5}
    ),
    "client_bulk": lambda client: client.push_bulk({"class": "EchoJob", "args": [[1], [2]]}),
}
NOT_ASSERTED = {"worker"}
"""A worker's own commands differ from Ruby's by design; that its keys are under the namespace is
asserted by tests/process."""

JOB = {"class": "EchoJob", "args": []}


def masked(command):
    text = [re.sub(r'"jid":"[0-9a-f]{24}"', '"jid":"J"', part) for part in command]
    text = [re.sub(r'"(created|enqueued)_at":\d+\.\d+', r'"\1_at":T', part) for part in text]
    return [text[0].lower(), *text[1:]]


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("colon", ["", ":"])
def test_the_commands_are_those_of_redis_namespace(server, redis, operation, colon):
    [recorded] = [each for each in RECORDED if each["operation"] == operation]
    with InterceptingRedis(server.port) as proxy:
        CALLS[operation](Client(proxy.url, namespace=recorded["namespace"] + colon))

    sent = [masked(part.decode() for part in command) for command in proxy.commands]
    assert sent == [masked(command) for command in recorded["commands"]]
    assert {key.decode() for key in redis.scan_iter()} == {each["key"] for each in recorded["keys"]}


def test_every_recorded_operation_is_asserted_or_has_a_reason():
    assert {each["operation"] for each in RECORDED} == CALLS.keys() | NOT_ASSERTED


@pytest.fixture(scope="module")
def cluster():
    """One node of a cluster that holds all slots: it refuses calls whose keys lie in several."""
    with embedded_server(cluster_enabled="yes") as server:
        with redis_py.Redis.from_url(server.url) as raw:
            raw.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            wait_until(lambda: b"cluster_state:ok" in raw.execute_command("CLUSTER", "INFO"))
        yield server


@pytest.mark.parametrize("namespace", ["{app}", "{app}:", "shop-{app}"])
def test_a_hash_tag_lets_every_push_work_on_a_cluster_node(cluster, namespace):
    cluster.flush()
    client = Client(cluster.url, namespace=namespace, profile="auto")
    later = JOB | {"at": 4_000_000_000}

    client.push(JOB)
    client.push(later)
    client.push_bulk(JOB | {"args": [[1], [2]], "queue": "low"})
    client.push({"active_job": "NightlyJob", "args": []})
    guarded = [client.push_once([JOB, later], ["a", "b"]) for _ in range(2)]
    ticked = [client.push_tick("s/Nightly", 4_000_000_000, [JOB, later], by="x") for _ in range(2)]
    client.cancel("0123456789abcdef01234567")
    mark = client.deploy_mark("v1")

    assert mark.new
    assert [job.duplicate for jobs in guarded for job in jobs] == [False, False, True, True]
    assert [outcome.kind for outcome in ticked] == ["enqueued", "duplicate"]
    prefix = namespace.rstrip(":")
    with redis_py.Redis.from_url(cluster.url) as raw:
        assert all(key.decode().startswith(f"{prefix}:") for key in raw.scan_iter())
        assert raw.llen(f"{prefix}:queue:default") == 4
        assert raw.llen(f"{prefix}:queue:low") == 2
        assert raw.zcard(f"{prefix}:schedule") == 3
    client.close()


def test_a_hash_tag_lets_metrics_be_written_on_a_cluster_node(cluster):
    cluster.flush()
    metrics = Metrics(Keys("{app}"), identity="host:1:aaa")
    for number in range(150):  # in several calls
        metrics.record(f"Work{number}", 10.0, False)

    metrics.flush(RedisPool(cluster.url).connection(), 1_770_015_780)

    with redis_py.Redis.from_url(cluster.url) as raw:
        assert raw.hlen("{app}:j|260202|7:03") == raw.hlen("{app}:j|20260202|7:3") == 300
        assert all(key.startswith(b"{app}:") for key in raw.scan_iter())


def test_without_a_hash_tag_a_cluster_node_refuses_what_spans_slots(cluster):
    client = Client(cluster.url, namespace="app")

    with pytest.raises(RedisRefused, match="CROSSSLOT"):
        client.push_once([JOB], ["a"])
    client.close()
