"""Behind sentinels: whatever uses Redis goes to the new primary after a failover, and loses nothing."""

import json
import signal
import time

import pytest
from redis.sentinel import Sentinel
from support.fleet import KEYS, Fleet
from support.sentinels import PASSWORD, SENTINEL_PASSWORD, SERVICE, SentinelFleet
from support.servers import HOST, find_free_port
from support.waiting import wait_until

from kiqbridge import Client, KiqbridgeError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.tracking_connection import TrackingConnection

pytestmark = [pytest.mark.slow, pytest.mark.redis_server]


@pytest.fixture
def sentinels(tmp_path):
    with SentinelFleet(tmp_path / "servers") as sentinels:
        yield sentinels


def push_until_taken(client, item):
    """As a caller does who gives each job a key: pushed again until it is safe."""

    def pushed():
        try:
            return client.push_once([item], [item["jid"]])
        except KiqbridgeError:
            return None

    return wait_until(pushed, 60, f"a push of {item['jid']}", interval_s=0.1)


def test_a_running_worker_performs_all_jobs_through_two_failovers(sentinels, tmp_path):
    folder = tmp_path / "marks"
    folder.mkdir()
    env = {"KIQBRIDGE_SETTLE_REPLICAS": "1"}
    client = Client(sentinels.url, wait_replicas=1)
    with Fleet(sentinels.url, folder) as fleet:
        workers = [
            fleet.start("-c", "3", recover_after_s=10, env=env),
            fleet.start("-c", "2", "--processes", "1", "--max-memory-mb", "2000",
                        recover_after_s=10, env=env),
        ]  # fmt: skip
        number = 0

        def push_some(count):
            nonlocal number
            for _ in range(count):
                number += 1
                name = ("Mark", "FailOnce")[number % 4 == 0]
                args = [2] if name == "Mark" else []
                push_until_taken(
                    client, {"class": name, "args": args, "jid": f"{number:024}", "retry": 5}
                )

        def performed():
            return set(fleet.marks.look().count("performed"))

        push_some(60)
        wait_until(lambda: len(performed()) > 10, 60, "jobs before the failover")
        for how in ("asked for", "the primary dies"):
            sentinels.wait_replicated()
            before = sentinels.primary()
            if how == "asked for":
                sentinels.fail_over()
            else:
                before.kill()
                sentinels.wait_new_primary(before)
                before.start()
            push_some(40)
        wanted = {f"{each:024}" for each in range(1, number + 1)}

        def hurry():
            with sentinels.primary().client() as raw:
                for text in raw.zrange(KEYS.retry, 0, -1):
                    raw.zadd(KEYS.retry, {text: time.time()})
            return performed() >= wanted

        wait_until(hurry, 120, lambda: f"performed: {sorted(wanted - performed())}", interval_s=0.5)
        for worker in workers:
            worker.signal(signal.SIGTERM)
        assert [worker.wait(60) for worker in workers] == [0, 0]
        assert all("refuses CLIENT TRACKING" not in worker.output for worker in workers)
    client.close()


def test_a_connection_follows_the_primary(sentinels):
    client = Client(sentinels.url)
    pool = RedisPool(sentinels.url)
    tracking = TrackingConnection(pool.raw_connection)
    client.push({"class": "Mark", "args": [0]})
    assert tracking.read(("EXISTS", KEYS.queue("default"))) == [1]

    primary = sentinels.fail_over()
    sentinels.wait_replicated()  # until then the old one takes writes that are lost

    push_until_taken(client, {"class": "Mark", "args": [0], "jid": "after"})
    with primary.client() as raw:
        texts = raw.lrange(KEYS.queue("default"), 0, -1)
        assert "after" in {json.loads(text)["jid"] for text in texts}

    def tracks():
        try:
            tracking.read(("EXISTS", KEYS.queue("default")))
        except Exception:  # noqa: BLE001 - of the old primary; the next read opens a new one
            return False
        return tracking._connection.port == primary.port and tracking.tracks

    wait_until(tracks, 60, "tracking on the new primary", interval_s=0.1)
    with primary.client() as raw:
        raw.lpush(KEYS.queue("default"), "x")
    assert tracking.wait(10)
    tracking.close()
    pool.close()
    client.close()


def test_a_client_of_redis_py_that_asks_sentinels_may_be_given(sentinels):
    asked = Sentinel(
        [(HOST, sentinels.port)],
        sentinel_kwargs={"password": SENTINEL_PASSWORD},
        password=PASSWORD,
    )
    client = Client(redis=asked.master_for(SERVICE))
    assert client.push({"class": "Mark", "args": [0]})
    assert repr(client).startswith(f"Client(sentinel service {SERVICE}, ")

    primary = sentinels.fail_over()
    sentinels.wait_replicated()

    push_until_taken(client, {"class": "Mark", "args": [0], "jid": "after"})
    with primary.client() as raw:
        texts = raw.lrange(KEYS.queue("default"), 0, -1)
        assert "after" in {json.loads(text)["jid"] for text in texts}
    client.close()


def test_a_replica_that_a_sentinel_still_calls_the_primary_is_not_taken_for_it(sentinels):
    pool = RedisPool(sentinels.url)
    pool.call("PING")
    pool.close()
    primary, replica = sentinels.servers
    with sentinels.sentinel() as raw:
        # Only this sentinel's word changes: it is told to watch the replica.
        raw.execute_command("SENTINEL", "REMOVE", SERVICE)
        raw.execute_command("SENTINEL", "MONITOR", SERVICE, HOST, replica.port, "1")

        with pytest.raises(RedisUnavailable, match=f"{replica.port} is a replica now"):
            pool.call("PING")

        raw.execute_command("SENTINEL", "REMOVE", SERVICE)
        raw.execute_command("SENTINEL", "MONITOR", SERVICE, HOST, primary.port, "1")
    assert pool.call("PING") == b"PONG"
    pool.close()


def test_what_the_sentinels_say_is_told_without_passwords(sentinels):
    wrong = [
        sentinels.url.replace(f"/{SERVICE}/", "/another/"),
        sentinels.url.replace(f":{sentinels.port}/", f":{find_free_port()}/"),
        sentinels.url.replace(f"={SENTINEL_PASSWORD}", "=guess"),
        sentinels.url.replace(f":{PASSWORD}@", ":guess@"),
    ]
    for url in wrong:
        with pytest.raises(RedisUnavailable) as raised:
            RedisPool(url).call("PING")

        text = str(raised.value)
        assert "guess" not in text
        assert PASSWORD not in text
        assert SENTINEL_PASSWORD not in text
