"""A server that refuses one command for good, or HELLO: what stands still is logged and not ready, and nothing is lost."""

import time

import pytest
from support.engine import poller_on
from support.jobs import own_declarations
from support.launched import launched
from support.servers import embedded_server, without_command
from support.waiting import wait_until

from kiqbridge import Client, job
from kiqbridge.engine.host.status import faults_of
from kiqbridge.runtime.clock import lease_now
from kiqbridge.store.redis_pool import RedisPool


@pytest.fixture(autouse=True)
def declarations():
    with own_declarations():
        yield


def test_a_server_without_resp_3_costs_no_due_job(redis_url):
    ran = []

    @job(name="Plain")
    def plain(name):
        ran.append(name)

    with embedded_server(rename_command='HELLO ""') as server, launched(server.url) as launcher:
        client = Client(server.url)
        client.push({"class": "Plain", "args": ["due"], "at": time.time() + 0.2})
        client.push({"class": "Plain", "args": ["pushed"]})
        wait_until(lambda: sorted(ran) == ["due", "pushed"])
        client.pause_class("Other")
        wait_until(lambda: launcher.parts.pauses.classes == {"Other"})
        assert list(faults_of(launcher.health.status(), "ready", lease_now())) == []
        client.close()


def test_a_poller_that_is_refused_leaves_the_lead_to_one_that_is_not(redis, redis_url, server):
    redis.zadd("schedule", {'{"class":"A","args":[],"queue":"default","jid":"a"}': 1.0})
    with without_command(redis, server, "zrange") as url:
        refused = poller_on(RedisPool(url), identity="host:1:refused")
        other = poller_on(RedisPool(redis_url), identity="host:2:other")
        refused.start()
        try:
            wait_until(lambda: refused.is_refused)
            other.start()
            wait_until(lambda: redis.llen("queue:default") == 1, what="the other one moves it")
            redis.execute_command("ACL", "SETUSER", "poor", "+zrange")

            wait_until(lambda: not refused.is_refused, what="it finds that it may")
            assert not refused.leads
        finally:
            other.stop()
            refused.stop()
