"""Pushes under a guard: once, however often they are asked for."""

import threading
import time

import pytest
from support.intercepting_redis import Lose, Refuse, intercepting_redis

from kiqbridge import Client
from kiqbridge.bulk import BATCH_SIZE
from kiqbridge.client import GUARD_TTL_S, TICK_HORIZON_S
from kiqbridge.errors import PayloadError, PushOutcomeUnknown, RedisRefused, RedisUnavailable
from kiqbridge.json_text import loads

SOON = 1_900_000_000
MINUTE = int(time.time()) // 60 * 60
SCRIPTS = {b"EVALSHA", b"EVAL"}


@pytest.fixture
def client(redis_url):
    made = Client(redis_url)
    yield made
    made.close()


@pytest.fixture
def proxy(server, redis):
    redis.script_flush()
    with intercepting_redis(server.port) as made:
        yield made


def item(*args, **more):
    return {"class": "EchoJob", "args": list(args), **more}


def queued(redis, name="default"):
    return [loads(text) for text in reversed(redis.lrange(f"queue:{name}", 0, -1))]


def keys(redis):
    return {key.decode() for key in redis.scan_iter()}


def lose_first_script(proxy, how):
    """The first script that is really run ends this way (one that only loads it does not)."""
    left = [how]

    def decide(command):
        return left.pop() if command[0] == b"EVAL" and left else None

    proxy.decide = decide


class TestOnce:
    def test_a_job_is_pushed_and_its_guard_set(self, client, redis):
        [outcome] = client.push_once([item(1)], ["event#0"])

        [payload] = queued(redis)
        assert payload["jid"] == outcome.jid
        assert list(payload)[-1] == "enqueued_at"
        assert (outcome.job_class, outcome.queue, outcome.at) == ("EchoJob", "default", None)
        assert outcome.duplicate is False
        assert redis.get("kb:seen:event#0") == outcome.jid.encode()
        assert redis.ttl("kb:seen:event#0") == pytest.approx(GUARD_TTL_S, abs=5)
        assert redis.smembers("queues") == {b"default"}

    def test_a_second_one_is_a_duplicate_with_the_jid_of_the_first(self, client, redis):
        [first] = client.push_once([item(1)], ["event#0"])

        [second] = client.push_once([item(2)], ["event#0"])

        assert (second.duplicate, second.jid) == (True, first.jid)
        assert [payload["args"] for payload in queued(redis)] == [[1]]

    def test_a_given_jid_that_meets_itself_is_a_duplicate(self, client, redis):
        client.push_once([item(1, jid="mine")], ["event#0"])

        [second] = client.push_once([item(1, jid="mine")], ["event#0"])

        assert (second.duplicate, second.jid) == (True, "mine")

    def test_each_job_has_its_own_guard_and_answer(self, client, redis):
        [known] = client.push_once([item("b")], ["event#1"])

        outcomes = client.push_once(
            [item("a"), item("b"), item("c")], ["event#0", "event#1", "event#2"]
        )

        assert [outcome.duplicate for outcome in outcomes] == [False, True, False]
        assert outcomes[1].jid == known.jid
        assert [payload["args"] for payload in queued(redis)] == [["b"], ["a"], ["c"]]

    def test_one_key_for_two_jobs_of_a_call_pushes_the_first(self, client, redis):
        first, second = client.push_once([item(1), item(2)], ["event", "event"])

        assert (second.duplicate, second.jid) == (True, first.jid)
        assert [payload["args"] for payload in queued(redis)] == [[1]]

    def test_without_a_key_a_job_is_pushed_every_time(self, client, redis):
        for _ in range(2):
            client.push_once([item(1)], [None])

        assert len(queued(redis)) == 2
        assert keys(redis) == {"queues", "queue:default"}

    def test_a_scheduled_one_goes_to_the_schedule(self, client, redis):
        [outcome] = client.push_once([item(at=SOON + 0.5)], ["event"])

        [(text, score)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert (outcome.at, score) == (SOON + 0.5, SOON + 0.5)
        assert {"at", "enqueued_at"}.isdisjoint(loads(text))
        assert "queues" not in keys(redis)

    def test_one_that_middleware_stops_is_neither_pushed_nor_guarded(self, client, redis):
        client.middleware.add(
            lambda _class, payload, _queue, call_next: call_next() if payload["args"] else None
        )

        [outcome] = client.push_once([item(), item(1)], ["event#0", "event#1"])

        assert loads(redis.lindex("queue:default", 0))["jid"] == outcome.jid
        assert not redis.exists("kb:seen:event#0")
        assert client.push_once([item()], ["event#0"]) == []

    @pytest.mark.parametrize(
        "wrong", [item(object()), item(queue=""), item(at="soon"), {"class": "EchoJob"}]
    )
    def test_one_wrong_job_of_many_leaves_redis_empty(self, client, redis, wrong):
        with pytest.raises(PayloadError):
            client.push_once([item(1), wrong], ["a", "b"])

        assert keys(redis) == set()

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("queue:default", "string"),
            ("schedule", "string"),
            ("queues", "string"),
            ("kb:seen:b", "list"),
        ],
    )
    def test_a_key_of_the_wrong_type_leaves_no_guard_and_no_job(self, client, redis, key, value):
        if value == "string":
            redis.set(key, "x")
        else:
            redis.rpush(key, "x")

        with pytest.raises(RedisRefused, match=f"WRONGTYPE {key}"):
            client.push_once([item(1, queue="a"), item(2), item(3, at=SOON)], ["a", "b", "c"])

        assert keys(redis) == {key}

    def test_more_than_a_script_may_take_is_refused(self, client, redis):
        many = [item(n) for n in range(BATCH_SIZE + 1)]

        with pytest.raises(PayloadError, match="1001 jobs in one call"):
            client.push_once(many, [None] * len(many))

        assert len(client.push_once(many[1:], [f"k{n}" for n in range(BATCH_SIZE)])) == BATCH_SIZE
        assert redis.llen("queue:default") == BATCH_SIZE


class TestTick:
    def test_its_jobs_are_pushed_and_noted_in_the_ledger(self, client, redis):
        outcome = client.push_tick("stack/Nightly", MINUTE, [item(1), item(2, at=SOON)], by="aws")

        assert outcome.kind == "enqueued"
        [entry] = redis.zrangebyscore("kb:ticks:stack/Nightly", MINUTE, MINUTE)
        noted = loads(entry)
        assert noted["jids"] == [each.jid for each in outcome.jobs]
        assert (noted["at"], noted["by"]) == (MINUTE, "aws")
        assert [payload["jid"] for payload in queued(redis)] == noted["jids"][:1]
        assert redis.zcard("schedule") == 1
        assert 0 < redis.ttl("kb:ticks:stack/Nightly") <= TICK_HORIZON_S + 7200

    def test_a_second_delivery_is_a_duplicate_with_the_jids_of_the_first(self, client, redis):
        first = client.push_tick("s", MINUTE, [item(1), item(2)], by="aws")

        second = client.push_tick("s", MINUTE, [item(1), item(2)], by="fleet")

        assert second.kind == "duplicate"
        assert [each.jid for each in second.jobs] == [each.jid for each in first.jobs]
        assert all(each.duplicate for each in second.jobs)
        assert len(queued(redis)) == 2

    def test_other_instants_and_other_schedules_are_other_ticks(self, client, redis):
        for schedule, instant in [("s", MINUTE), ("s", MINUTE - 60), ("t", MINUTE)]:
            assert client.push_tick(schedule, instant, [item()], by="aws").kind == "enqueued"

        assert len(queued(redis)) == 3

    def test_one_that_is_older_than_the_ledger_remembers_is_stale(self, client, redis):
        assert (
            client.push_tick("s", MINUTE - 3600, [item()], by="aws", horizon_s=1800).kind == "stale"
        )
        assert keys(redis) == set()

    def test_the_ledger_forgets_what_would_be_stale(self, client, redis):
        for hours in (5, 1, 0):
            client.push_tick("s", MINUTE - hours * 3600, [item()], by="aws", horizon_s=6 * 3600)

        client.push_tick("s", MINUTE - 60, [item()], by="aws", horizon_s=1800)

        assert [score for _, score in redis.zrange("kb:ticks:s", 0, -1, withscores=True)] == [
            MINUTE - 3600,
            MINUTE - 60,
            MINUTE,
        ]

    @pytest.mark.parametrize("key", ["queue:default", "schedule", "queues", "kb:ticks:s"])
    def test_a_key_of_the_wrong_type_leaves_nothing(self, client, redis, key):
        redis.set(key, "not what it should be")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            client.push_tick("s", MINUTE, [item(1, queue="a"), item(2), item(at=SOON)], by="aws")

        assert keys(redis) == {key}

    def test_one_wrong_job_leaves_nothing(self, client, redis):
        with pytest.raises(PayloadError):
            client.push_tick("s", MINUTE, [item(1), item(object())], by="aws")

        assert keys(redis) == set()

    def test_of_many_that_ask_at_once_one_enqueues(self, redis_url, redis):
        outcomes, barrier = [], threading.Barrier(8)

        def ask():
            client = Client(redis_url)
            barrier.wait()
            outcomes.append(client.push_tick("s", MINUTE, [item(1), item(2)], by="aws"))
            client.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(outcome.kind for outcome in outcomes) == ["duplicate"] * 7 + ["enqueued"]
        assert len({tuple(each.jid for each in outcome.jobs) for outcome in outcomes}) == 1
        assert len(queued(redis)) == 2


class TestLostReply:
    @pytest.mark.parametrize("how", [Lose(), Refuse()])
    def test_a_guarded_job_is_asked_for_again_and_pushed_once(self, proxy, redis, how):
        lose_first_script(proxy, how)

        [outcome] = Client(proxy.url).push_once([item(1)], ["event"])

        assert outcome.duplicate is False
        assert [payload["jid"] for payload in queued(redis)] == [outcome.jid]

    @pytest.mark.parametrize("how", [Lose(), Refuse()])
    def test_a_tick_is_asked_for_again_and_pushed_once(self, proxy, redis, how):
        lose_first_script(proxy, how)

        outcome = Client(proxy.url).push_tick("s", MINUTE, [item(1), item(2)], by="aws")

        assert outcome.kind == "enqueued"
        assert [payload["jid"] for payload in queued(redis)] == [each.jid for each in outcome.jobs]

    def test_with_a_job_that_has_no_guard_nothing_is_repeated(self, proxy, redis):
        lose_first_script(proxy, Lose())

        with pytest.raises(PushOutcomeUnknown) as lost:
            Client(proxy.url).push_once([item(1), item(2)], [None, "event"])

        assert queued(redis)[0]["jid"] == lost.value.jid
        assert len(queued(redis)) == 2

    def test_a_server_that_never_answers_is_unavailable(self, proxy, redis):
        proxy.decide = lambda command: Refuse() if command[0] in SCRIPTS else None

        with pytest.raises(RedisUnavailable):
            Client(proxy.url).push_once([item(1)], ["event"])

        assert sum(command[0] in SCRIPTS for command in proxy.commands) == 2
        assert keys(redis) == set()


class TestScripts:
    def test_a_server_that_forgot_the_script_is_taught_it_again(self, client, redis):
        client.push_once([item(1)], ["a"])
        client.push_tick("s", MINUTE, [item(1)], by="aws")
        redis.script_flush()

        client.push_once([item(2)], ["b"])
        client.push_tick("t", MINUTE, [item(2)], by="aws")

        assert len(queued(redis)) == 4
