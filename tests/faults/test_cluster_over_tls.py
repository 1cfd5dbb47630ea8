"""A cluster that speaks TLS, between its nodes as well: its slot moves, and its primary changes and dies."""

import signal

import pytest
from support.certificates import make_certificate
from support.clusters import Cluster, port_of
from support.fleet import Fleet
from support.proving import hurry_retries
from support.servers import HOST
from support.waiting import wait_until

from kiqbridge import Client, KiqbridgeError, RedisUnavailable
from kiqbridge.errors import RedisMisconfigured
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.slow, pytest.mark.redis_server, pytest.mark.openssl]

NAMESPACE = "{a}"
KEYS = Keys(NAMESPACE)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, certificate):
    with Cluster(tmp_path_factory.mktemp("cluster"), certificate=certificate) as cluster:
        yield cluster


def test_a_worker_performs_all_jobs_while_its_slot_moves_and_its_primary_changes(cluster, tmp_path):
    client = Client(cluster.url, namespace=NAMESPACE, wait_replicas=1)
    jids = []

    def push_some():
        for _ in range(15):
            item = {"class": "Mark", "args": [2], "jid": f"{len(jids):024}", "retry": 5}
            if len(jids) % 5 == 0:
                item |= {"class": "FailOnce", "args": []}
            jids.append(item["jid"])

            def pushed(item=item):
                try:
                    return client.push_once([item], [item["jid"]])
                except KiqbridgeError:
                    return None

            wait_until(pushed, 60, "a push", interval_s=0.1)

    env = {"KIQBRIDGE_NAMESPACE": NAMESPACE, "KIQBRIDGE_SETTLE_REPLICAS": "1"}
    with Fleet(cluster.url, tmp_path) as fleet:
        worker = fleet.start("-c", "3", recover_after_s=10, env=env)

        def performed():
            return set(fleet.marks.look().count("performed"))

        push_some()
        wait_until(performed, 60, "jobs before the first fault")
        for fault in ("moved", "failed over", "killed"):
            if fault == "moved":
                cluster.move("a")
            elif fault == "failed over":
                cluster.fail_over("a")
            else:
                before = cluster.owner("a")
                cluster.replica_of(before)
                before.kill()
                cluster.wait_new_owner("a", before)
                before.start()
            begun = len(performed())
            push_some()
            wait_until(lambda begun=begun: len(performed()) > begun, 60, f"jobs once {fault}")

        def hurry():
            with cluster.owner("a").client() as raw:
                hurry_retries(raw, KEYS)
            return performed() >= set(jids)

        wait_until(hurry, 60, lambda: f"{sorted(set(jids) - performed())}", interval_s=0.3)
        worker.signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    client.close()


def test_a_call_follows_a_slot_that_is_on_its_way(cluster):
    """MOVED and ASK name the encrypted port."""
    pool = RedisPool(cluster.url, namespace=NAMESPACE)
    assert pool.call("INCR", "{a}:x") == 1
    target = cluster.other_primary("a")
    source = cluster.begin_move("a", target)
    cluster.move_keys("a", source, target)

    assert pool.run(("INCR", "{a}:x"), repeatable=False) == [2]
    cluster.end_move("a", target)
    assert pool.run(("INCR", "{a}:x"), repeatable=False) == [3]

    with target.client() as raw:
        assert raw.get("{a}:x") == b"3"
        # Plain connections were made by the tests alone.
        raw.delete("{a}:x")
    pool.close()


def said_of(url):
    """What a failed call says, and what a look at the port does."""
    pool = RedisPool(url, namespace=NAMESPACE)
    with pytest.raises(RedisUnavailable) as failed:
        pool.call("PING")
    if isinstance(failed.value, RedisMisconfigured):
        return str(failed.value)
    return str(pool.probe(failed.value))


def test_a_certificate_of_an_unknown_authority_is_named(cluster):
    text = said_of(cluster.url.partition("?")[0])

    assert "certificate is not trusted" in text
    assert "?ssl_ca_certs=/path/ca.pem" in text


def test_a_plain_address_of_encrypted_ports_is_named(cluster):
    ports = ",".join(f"{HOST}:{port_of(server)}" for server in cluster.servers)

    assert "write rediss+cluster:// instead of redis+cluster://" in said_of(
        f"redis+cluster://{ports}"
    )


def test_an_encrypted_address_of_plain_ports_is_named(cluster, certificate):
    ports = ",".join(f"{HOST}:{server.port}" for server in cluster.servers)

    assert "does not speak TLS at this port" in said_of(
        f"rediss+cluster://{ports}?ssl_ca_certs={certificate}/cert.pem"
    )
