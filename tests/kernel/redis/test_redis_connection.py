"""Connections to Redis, and what happens when one fails."""

import pytest
import redis as redis_py
from support.proxy import Answer, Lose, Refuse
from support.servers import embedded_server, find_free_port
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.errors import PushOutcomeUnknown, RedisRefused, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.store.replies import ReplyLost
from kiqbridge.store.scripts import load

JOB = {"class": "EchoJob", "args": []}
READONLY = b"-READONLY You can't write against a read only replica.\r\n"
NOREPLICAS = b"-NOREPLICAS Not enough good replicas to write.\r\n"


def answer_once(proxy, name, decision):
    left = [decision]
    proxy.decide = lambda command: left.pop() if command[0] == name and left else None


def count(proxy, name):
    return sum(command[0] == name for command in proxy.commands)


class TestFailover:
    @pytest.mark.parametrize("refusal", [READONLY, NOREPLICAS, b"-UNBLOCKED role changed\r\n"])
    def test_a_refusal_by_a_replica_is_repeated_once_on_a_new_connection(
        self, proxy, redis, refusal
    ):
        answer_once(proxy, b"LPUSH", Answer(refusal))

        jid = Client(proxy.url).push(JOB)

        assert jid.encode() in redis.lindex("queue:default", 0)
        assert redis.llen("queue:default") == 1
        assert proxy.connections == 2
        assert count(proxy, b"LPUSH") == 2

    def test_what_was_carried_out_before_the_refusal_is_not_pushed_again(self, proxy, redis):
        def by_turns(_class, payload, _queue, _call_next):
            return payload | {"queue": f"q{payload['args'][0]}"}

        refusals = [Answer(READONLY)]
        proxy.decide = lambda command: (
            refusals.pop() if command[:2] == [b"LPUSH", b"queue:q2"] and refusals else None
        )
        client = Client(proxy.url)
        client.middleware.add(by_turns)

        client.push_bulk({"class": "EchoJob", "args": [[1], [2]]})

        assert not refusals
        assert (redis.llen("queue:q1"), redis.llen("queue:q2")) == (1, 1)
        client.close()

    def test_a_second_refusal_is_raised(self, proxy, redis):
        proxy.decide = lambda command: Answer(READONLY) if command[0] == b"LPUSH" else None

        with pytest.raises(RedisUnavailable, match="READONLY"):
            Client(proxy.url).push(JOB)

        assert proxy.connections == 2
        assert redis.llen("queue:default") == 0

    def test_a_guarded_push_follows_the_same_rule(self, proxy, redis):
        answer_once(proxy, b"EVAL", Answer(READONLY))

        Client(proxy.url).push_once([JOB], ["event"])

        assert redis.llen("queue:default") == 1
        assert proxy.connections == 2

    def test_a_real_replica_refuses_and_nothing_is_written(self):
        with embedded_server() as server, redis_py.Redis.from_url(server.url) as raw:
            client = Client(server.url)
            client.push(JOB)
            raw.replicaof("127.0.0.1", find_free_port())

            with pytest.raises(RedisUnavailable, match="READONLY"):
                client.push(JOB)
            with pytest.raises(RedisUnavailable, match="READONLY"):
                client.push_once([JOB], ["event"])

            raw.replicaof("NO", "ONE")
            client.push(JOB)
            assert raw.llen("queue:default") == 2
            assert not raw.exists("kb:guards")
            client.close()

    def test_another_error_is_not_repeated(self, proxy, redis):
        answer_once(proxy, b"LPUSH", Answer(b"-ERR something else\r\n"))

        with pytest.raises(RedisRefused, match="something else"):
            Client(proxy.url).push(JOB)

        assert count(proxy, b"LPUSH") == 1


class TestUnreachable:
    def test_it_is_reported_with_the_address_and_without_the_password(self):
        port = find_free_port()
        client = Client(f"redis://user:s3cret@127.0.0.1:{port}/0")

        with pytest.raises(RedisUnavailable) as refusal:
            client.push(JOB)

        assert f"user:***@127.0.0.1:{port}" in str(refusal.value)
        assert "REDIS_URL" in str(refusal.value)
        assert "s3cret" not in str(refusal.value)
        assert "s3cret" not in repr(client)

    def test_a_server_that_comes_back_at_once_is_found(self, proxy, redis):
        client = Client(proxy.url)
        client.push(JOB)
        with redis_py.Redis.from_url(proxy.url) as killer:
            killer.client_kill_filter(_type="normal", skipme=True)

        client.push_once([JOB], ["event"])

        assert redis.llen("queue:default") == 2


class TestLostReply:
    @pytest.mark.parametrize(("how", "pushed"), [(Lose(), 1), (Refuse(), 0)])
    def test_a_plain_push_is_in_doubt_names_its_jid_and_is_not_repeated(
        self, proxy, redis, how, pushed
    ):
        proxy.decide = lambda command: how if command[0] == b"LPUSH" else None

        with pytest.raises(PushOutcomeUnknown, match="mine") as doubt:
            Client(proxy.url).push(JOB | {"jid": "mine"})

        assert doubt.value.jid == "mine"
        assert count(proxy, b"LPUSH") == 1
        assert redis.llen("queue:default") == pushed

    def test_a_bulk_push_names_the_first_of_the_lost_batch(self, proxy, redis):
        proxy.decide = lambda command: (
            Lose() if command[0] == b"LPUSH" and b"[2]" in command[2] else None
        )

        with pytest.raises(PushOutcomeUnknown) as doubt:
            Client(proxy.url).push_bulk(
                {"class": "EchoJob", "args": [[n] for n in range(6)], "batch_size": 2}
            )

        assert redis.llen("queue:default") == 4
        assert doubt.value.jid.encode() in redis.lindex("queue:default", 1)

    def test_a_late_reply_is_never_taken_for_the_next_one(self, server, redis):
        pool = RedisPool(server.url, read_timeout_s=1, size=1)
        redis.set("a", "1")
        redis.set("b", "2")
        pool.call("PING")
        server.pause()
        try:
            with pytest.raises(ReplyLost):
                pool.run(("GET", "a"), repeatable=False)
        finally:
            server.resume()

        assert pool.call("GET", "b") == b"2"
        pool.close()

    def test_what_may_be_repeated_is_repeated_once(self, proxy, redis):
        answer_once(proxy, b"INCR", Lose())

        assert RedisPool(proxy.url).call("INCR", "counter") == 2
        assert count(proxy, b"INCR") == 2


class TestIdleConnection:
    def test_one_that_the_server_ended_does_not_break_a_push(self, redis_url, redis):
        client = Client(redis_url)
        client.push(JOB)
        own = redis.client_id()
        others = {each["id"] for each in redis.client_list()} - {str(own)}
        redis.client_kill_filter(_type="normal", skipme=True)
        wait_until(
            lambda: others.isdisjoint(each["id"] for each in redis.client_list()),
            what="the end of the connection",
        )

        for _ in range(3):
            client.push(JOB)

        assert redis.llen("queue:default") == 4
        client.close()

    def test_one_that_was_long_unused_is_probed_before_a_push(self, proxy, redis, monkeypatch):
        client = Client(proxy.url)
        client.push(JOB)
        monkeypatch.setattr("kiqbridge.store.redis_connection.PROBE_AFTER_IDLE_S", 0.0)
        answer_once(proxy, b"PING", Refuse())

        client.push(JOB)

        assert redis.llen("queue:default") == 2
        assert count(proxy, b"PING") == 1
        assert proxy.connections == 2


class TestScripts:
    def test_one_that_the_server_does_not_know_is_sent_once(self, proxy, redis):
        pool, script = RedisPool(proxy.url), load("forget_guards")
        arguments = (["kb:guards", "kb:guards:until"], ["10"])

        for flush in (False, False, True):
            assert pool.script(script, *arguments) == 0
            if flush:
                redis.script_flush()
        pool.script(script, *arguments)

        names = [command[0].decode() for command in proxy.commands]
        assert names == ["EVALSHA", "EVAL", "EVALSHA", "EVALSHA", "EVALSHA", "EVAL"]


def test_without_commands_nobody_is_asked(redis_url):
    pool = RedisPool(redis_url)

    assert pool.connection().run() == []
    pool.close_all()
