"""Pushing under a namespace: as redis-namespace of Sidekiq 6 does, and within one cluster slot."""

import re

import pytest
import redis as redis_py
from support.proxy import InterceptingRedis
from support.servers import one_node_cluster
from support.vectors import FILES, of_kind

from kiqbridge import Client, RedisRefused

CALLS = {
    "client_push": lambda client: client.push({"args": [1], "class": "EchoJob"}),
    "client_later": lambda client: client.push(
        {"class": "EchoJob", "args": [2], "at": 1_900_000_000.5}
    ),
    "client_bulk": lambda client: client.push_bulk({"class": "EchoJob", "args": [[1], [2]]}),
}


JOB = {"class": "EchoJob", "args": []}


def masked(command):
    text = [re.sub(r'"jid":"[0-9a-f]{24}"', '"jid":"J"', part) for part in command]
    text = [re.sub(r'"(created|enqueued)_at":\d+\.\d+', r'"\1_at":T', part) for part in text]
    return [text[0].lower(), *text[1:]]


@pytest.mark.parametrize(("file", "operation"), of_kind("namespace"))
@pytest.mark.parametrize("colon", ["", ":"])
def test_the_commands_are_those_of_redis_namespace(server, redis, file, operation, colon):
    recorded = FILES[file][operation]

    with InterceptingRedis(server.port) as proxy:
        CALLS[operation](Client(proxy.url, namespace=recorded["namespace"] + colon))

    sent = [masked(part.decode() for part in command) for command in proxy.commands]
    assert sent == [masked(command) for command in recorded["commands"]]
    assert {key.decode() for key in redis.scan_iter()} == {each["key"] for each in recorded["keys"]}


@pytest.fixture(scope="module")
def cluster():
    """It refuses calls whose keys lie in several slots."""
    with one_node_cluster() as server:
        yield server


@pytest.mark.parametrize("namespace", ["{app}", "{app}:", "shop-{app}"])
def test_a_hash_tag_lets_every_push_work_on_a_cluster_node(cluster, namespace):
    cluster.flush()
    client = Client(cluster.url, namespace=namespace, profile="auto")
    later = JOB | {"at": 4_000_000_000}

    client.push(JOB)
    client.push(later)
    client.push_bulk(JOB | {"args": [[1], [2]], "queue": "low"})
    guarded = [client.push_once([JOB, later], ["a", "b"]) for _ in range(2)]
    ticked = [client.push_tick("s/Nightly", 4_000_000_000, [JOB, later], by="x") for _ in range(2)]

    assert [job.duplicate for jobs in guarded for job in jobs] == [False, False, True, True]
    assert [outcome.kind for outcome in ticked] == ["enqueued", "duplicate"]
    prefix = namespace.rstrip(":")
    with redis_py.Redis.from_url(cluster.url) as raw:
        assert all(key.decode().startswith(f"{prefix}:") for key in raw.scan_iter())
        assert raw.llen(f"{prefix}:queue:default") == 3
        assert raw.llen(f"{prefix}:queue:low") == 2
        assert raw.zcard(f"{prefix}:schedule") == 3
    client.close()


def test_without_a_hash_tag_a_cluster_node_refuses_what_spans_slots(cluster):
    client = Client(cluster.url, namespace="app")

    with pytest.raises(RedisRefused, match="CROSSSLOT"):
        client.push_once([JOB], ["a"])
    client.close()
