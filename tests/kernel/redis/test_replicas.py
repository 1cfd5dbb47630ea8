"""`wait_replicas`: a push counts as safe only when so many replicas have it, and so does a settlement."""

import logging
import time
from contextlib import ExitStack

import pytest
import redis as redis_py
from support.engine import EngineProcess, put_back
from support.proxy import Answer, InterceptingRedis, Lose
from support.servers import embedded_server
from support.waiting import wait_until

from kiqbridge import Client, ConfigError, PushNotReplicated, PushOutcomeUnknown, RedisUnavailable
from kiqbridge.engine.settle.settling import repush, settle
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

KEYS = Keys()

JOB = {"class": "EchoJob", "args": []}
OOM = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"

PUSHES = {
    "push": lambda client: client.push(JOB),
    "push later": lambda client: client.push(JOB | {"at": 4_000_000_000}),
    "push_bulk": lambda client: client.push_bulk(JOB | {"args": [[1], [2]]}),
    "push_once": lambda client: client.push_once([JOB, JOB], ["a", "b"]),
    "push_tick": lambda client: client.push_tick("s", 4_000_000_000, [JOB, JOB], by="test"),
}


@pytest.fixture(scope="module")
def pair():
    """A primary and a replica that follows it."""
    with embedded_server(repl_diskless_sync_delay="0") as primary, embedded_server() as replica:
        with redis_py.Redis.from_url(replica.url) as raw:
            raw.replicaof("127.0.0.1", primary.port)
            wait_until(lambda: raw.info("replication")["master_link_status"] == "up", timeout_s=30)
        yield primary, replica


@pytest.fixture
def primary(pair):
    pair[0].flush()
    return pair[0]


class TestWithAReplica:
    @pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
    def test_what_returned_is_on_the_replica(self, primary, pair, push):
        client = Client(primary.url, wait_replicas=1)

        push(client)

        with redis_py.Redis.from_url(pair[1].url) as replica:
            assert replica.llen("queue:default") + replica.zcard("schedule") >= 1
        client.close()

    @pytest.mark.parametrize("push", PUSHES.values(), ids=PUSHES)
    def test_one_that_does_not_answer_in_time_is_told_with_the_jids(self, primary, pair, push):
        client = Client(primary.url, wait_replicas=1, wait_timeout_ms=60)
        pair[1].pause()
        try:
            started = time.monotonic()
            with pytest.raises(PushNotReplicated) as raised:
                push(client)
            waited = time.monotonic() - started
        finally:
            pair[1].resume()

        with redis_py.Redis.from_url(primary.url) as raw:
            texts = raw.lrange("queue:default", 0, -1) + raw.zrange("schedule", 0, -1)
        assert len(texts) == len(raised.value.jids)
        assert all(any(jid.encode() in text for text in texts) for jid in raised.value.jids)
        assert raised.value.jid == raised.value.jids[0]
        assert "0 of 1 replicas confirmed within 60 ms" in str(raised.value)
        assert 0.05 < waited < 30
        client.close()

    def test_a_guarded_push_can_be_repeated_until_it_is_safe(self, primary, pair):
        client = Client(primary.url, wait_replicas=1, wait_timeout_ms=60)
        pair[1].pause()
        try:
            with pytest.raises(PushNotReplicated) as raised:
                client.push_once([JOB], ["event"])
        finally:
            pair[1].resume()
        confirmed = Client(primary.url, wait_replicas=1, wait_timeout_ms=2000)

        [outcome] = confirmed.push_once([JOB], ["event"])

        assert (outcome.jid, outcome.duplicate) == (raised.value.jid, True)
        with redis_py.Redis.from_url(pair[1].url) as replica:
            assert replica.llen("queue:default") == 1
        client.close()
        confirmed.close()


class TestWithout:
    def test_a_bulk_ends_at_the_batch_in_doubt_and_names_its_jobs(self, redis_url, redis):
        client = Client(redis_url, wait_replicas=1, wait_timeout_ms=20)

        with pytest.raises(PushNotReplicated, match="and 1 more") as raised:
            client.push_bulk(JOB | {"args": [[1], [2], [3]], "batch_size": 2})

        assert len(raised.value.jids) == redis.llen("queue:default") == 2
        client.close()

    @pytest.mark.parametrize("asked", [None, 0])
    def test_nobody_waits_who_did_not_ask(self, server, redis, asked):
        with InterceptingRedis(server.port) as proxy:
            client = Client(proxy.url, wait_replicas=asked)

            for push in PUSHES.values():
                push(client)

            assert all(command[0] != b"WAIT" for command in proxy.commands)
            client.close()

    def test_the_environment_may_ask_and_the_argument_wins(self, redis_url, redis, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_WAIT_REPLICAS", "1")

        with pytest.raises(PushNotReplicated, match="is enqueued on the primary, but 0 of 1"):
            Client(redis_url, wait_timeout_ms=20).push(JOB)
        assert Client(redis_url, wait_replicas=0).push(JOB)

    @pytest.mark.parametrize(
        ("arguments", "variable", "message"),
        [
            ({"wait_replicas": -1}, None, "wait_replicas: -1 .*the argument wait_replicas"),
            ({"wait_replicas": True}, None, "wait_replicas: True"),
            ({"wait_replicas": 1.5}, None, "wait_replicas: 1.5"),
            ({}, "many", "wait_replicas: 'many' .*KIQBRIDGE_WAIT_REPLICAS"),
            ({"wait_timeout_ms": 0}, None, "wait_timeout_ms: 0 is not a whole number"),
            ({"wait_timeout_ms": 3000}, None, "wait_timeout_ms: 3000"),
        ],
    )
    def test_a_wrong_setting_is_told_with_its_source(
        self, monkeypatch, arguments, variable, message
    ):
        if variable:
            monkeypatch.setenv("KIQBRIDGE_WAIT_REPLICAS", variable)

        with pytest.raises(ConfigError, match=message):
            Client("redis://nowhere.invalid:1/0", **arguments)


class TestOneRoundTrip:
    def test_wait_is_sent_right_behind_the_push_of_either_kind(self, server, redis):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Answer(b":1\r\n") if command[0] == b"WAIT" else None
            client = Client(proxy.url, wait_replicas=1)

            for push in PUSHES.values():
                push(client)

            names = [command[0] for command in proxy.commands]
            waits = [index for index, name in enumerate(names) if name == b"WAIT"]
            assert {names[index - 1] for index in waits} >= {b"LPUSH", b"ZADD"}
            assert all(proxy.commands[index][1:] == [b"1", b"1000"] for index in waits)
            client.close()

    @pytest.mark.parametrize(
        "reply", [b"-UNBLOCKED instance state changed\r\n", b"-ERR WAIT cannot be used\r\n"]
    )
    def test_an_error_of_wait_itself_does_not_push_twice(self, server, redis, reply):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Answer(reply) if command[0] == b"WAIT" else None
            client = Client(proxy.url, wait_replicas=1)

            with pytest.raises(PushNotReplicated, match="WAIT failed"):
                client.push(JOB)
            with pytest.raises(PushNotReplicated, match="WAIT failed"):
                client.push_once([JOB], ["event"])

            assert redis.llen("queue:default") == 2
            client.close()

    def test_a_push_that_is_refused_is_refused_and_not_in_doubt(self, server, redis):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Answer(OOM) if command[0] == b"LPUSH" else None

            with pytest.raises(RedisUnavailable, match="OOM"):
                Client(proxy.url, wait_replicas=1, wait_timeout_ms=20).push(JOB)

    def test_a_reply_of_wait_that_is_lost_leaves_all_in_doubt(self, server, redis):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Lose() if command[0] == b"WAIT" else None

            with pytest.raises(PushOutcomeUnknown):
                Client(proxy.url, wait_replicas=1, wait_timeout_ms=20).push(JOB)
            assert redis.llen("queue:default") == 1


SETTLEMENTS = {
    "tried again": lambda process, chunk, job: settle(
        process.connections[0], KEYS, chunk, job, target=KEYS.retry, score=1.0, text=b"failed"
    ),
    "pushed again": lambda process, chunk, job: repush(
        process.connections[0], KEYS, chunk, job, queue="default", text=b"anew"
    ),
    "passed on": lambda process, chunk, job: repush(
        process.connections[0], KEYS, chunk, job, queue="default", text=job
    ),
    "given back": lambda process, chunk, job: put_back(process.connections[0], KEYS, chunk, [job]),
}


@pytest.fixture
def hold(caplog, monkeypatch):
    """A process that waits for a replica when it settles, and holds a job: (process, chunk, job)."""
    caplog.set_level(logging.WARNING, "kiqbridge.store.redis_connection")
    with ExitStack() as stack:

        def hold(url, replicas=1, wait_ms=1000):
            monkeypatch.setattr("kiqbridge.store.redis_pool.WAIT_TIMEOUT_MS", wait_ms)
            process = EngineProcess(url)
            process.pool = RedisPool(url, settle_replicas=replicas)
            stack.enter_context(process)
            process.pool.call("LPUSH", KEYS.queue("default"), '{"jid":"j"}')
            chunk = process.claimer(connection=process.connect()).claim(["default"], 1)
            process.connections[0] = process.connections[-1]
            return process, chunk, chunk.take()

        yield hold


class TestSettling:
    """What becomes of a claimed job: the next claim, on a new primary, would acknowledge it."""

    @pytest.mark.parametrize("settled", SETTLEMENTS.values(), ids=SETTLEMENTS)
    def test_what_was_settled_is_on_the_replica(self, primary, pair, hold, settled):
        process, chunk, job = hold(primary.url)

        assert settled(process, chunk, job)

        with redis_py.Redis.from_url(pair[1].url) as replica:
            assert replica.llen("queue:default") + replica.zcard("retry") == 1

    @pytest.mark.parametrize("settled", SETTLEMENTS.values(), ids=SETTLEMENTS)
    def test_a_replica_that_is_silent_is_warned_of_once_and_the_job_is_settled(
        self, primary, pair, hold, settled, caplog
    ):
        process, chunk, job = hold(primary.url, wait_ms=50)
        pair[1].pause()
        try:
            assert settled(process, chunk, job)
            settled(process, chunk, job)
        finally:
            pair[1].resume()

        [message] = caplog.messages
        assert "0 of 1 replicas confirmed within 50 ms" in message
        with redis_py.Redis.from_url(primary.url) as raw:
            assert raw.llen("queue:default") + raw.zcard("retry") == 1

    @pytest.mark.parametrize("settled", SETTLEMENTS.values(), ids=SETTLEMENTS)
    @pytest.mark.parametrize("replicas", [0, 1])
    def test_wait_is_sent_behind_it_only_when_it_was_asked_for(
        self, server, redis, hold, settled, replicas
    ):
        with InterceptingRedis(server.port) as proxy:
            proxy.decide = lambda command: Answer(b":1\r\n") if command[0] == b"WAIT" else None
            process, chunk, job = hold(proxy.url, replicas)
            before = len(proxy.commands)

            settled(process, chunk, job)

            names = [command[0] for command in proxy.commands[before:]]
            assert names.count(b"WAIT") == replicas * len(
                [name for name in names if name in (b"EVAL", b"EVALSHA")]
            )
            process.keeper.stop()

    def test_claims_and_signs_of_life_do_not_wait(self, server, redis, hold):
        with InterceptingRedis(server.port) as proxy:
            process, _, _ = hold(proxy.url)

            process.keeper.confirm(process.keeper.current)

            assert all(command[0] != b"WAIT" for command in proxy.commands)
