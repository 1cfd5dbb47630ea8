"""Unique jobs on a real server: what is pushed, what is left out, and what begins."""

import json
import time

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session
from support.third_call import ThirdCallFails

from kiqbridge import Client, configure, job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.client.prepare import prepare
from kiqbridge.contrib.sqlalchemy import after_commit
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.settle.ending import ending
from kiqbridge.errors import NotUnique, PushOutcomeUnknown, RedisRefused, RedisUnavailable
from kiqbridge.features.unique.locks import ask_lock
from kiqbridge.features.unique.mark import lock_of
from kiqbridge.flow import Unique, find_owner
from kiqbridge.store.begin import begin
from kiqbridge.wire.keys import Keys

HOUR = 3600


@job(name="RuledBill", unique=Unique(by=("user_id",)))
def bill(user_id, amount=0):
    """Does nothing."""


@job(name="RuledOnce", unique=Unique(on_conflict="raise"))
def once(key):
    """Does nothing."""


@job(name="RuledLatest", unique=Unique(on_conflict="replace", until="start"))
def latest(key):
    """Does nothing."""


@job(name="RuledNot")
def plain(key):
    """Does nothing."""


@pytest.fixture(autouse=True)
def client(redis_url):
    with own_default_client():
        yield configure(redis_url)


def queued(redis):
    return [json.loads(text) for text in redis.lrange("queue:default", 0, -1)[::-1]]


def end(client, redis, payload):
    """What a worker does with the end of a job."""
    effect, *_ = ending(Keys(), payload, "done", time.time())
    redis.zadd("kb:flow:ends", {effect.args[1]: 0})
    Outbox(client, client.pool.connection()).look()


class TestUnique:
    def test_the_second_job_is_left_out_until_the_first_has_ended(self, client, redis):
        first = bill.perform_async(7, 1)

        assert bill.perform_async(7, 2) is None
        assert bill.perform_async(8) is not None
        assert find_owner(bill, 7, client=client) == first
        [payload, _] = queued(redis)
        assert payload["flow"] == {"lock": lock_of(payload).name, "until": "done"}

        end(client, redis, payload)
        assert find_owner(bill, 7) is None
        assert bill.perform_async(7) is not None
        assert redis.hlen("kb:locks") == redis.zcard("kb:locks:look") == 2

    def test_a_scheduled_job_holds_it_as_well_and_for_its_time_longer(self, redis):
        first = bill.perform_in(50 * HOUR, 7)

        assert bill.perform_async(7) is None
        assert redis.zcard("schedule") == 1
        [value] = redis.hvals("kb:locks")
        until, jid = value.split()
        assert jid.decode() == first
        assert int(until) > time.time() + 30 * 86_400 + 49 * HOUR

    def test_pushing_again_with_the_same_jid_does_nothing_while_it_has_the_lock(self, redis):
        assert bill.set(jid="mine").perform_async(7) == "mine"
        assert bill.set(jid="mine").perform_async(7) == "mine"
        assert len(queued(redis)) == 1

    def test_a_lock_whose_time_is_over_is_free(self, client, redis):
        bill.perform_async(7)
        [name] = redis.hkeys("kb:locks")
        redis.hset("kb:locks", name, f"{int(time.time()) - 1} old")

        assert find_owner(bill, 7) is None
        assert bill.perform_async(7) is not None

    def test_a_bulk_pushes_the_first_of_each_kind(self, redis):
        jids = bill.perform_bulk([[1], [2], [1, 5], [3]])

        assert [jid is None for jid in jids] == [False, False, True, False]
        assert [each["args"][0] for each in queued(redis)] == [1, 2, 3]

    def test_of_a_bulk_that_shall_raise_nothing_is_pushed(self, redis):
        with pytest.raises(NotUnique) as raised:
            once.perform_bulk([["a"], ["b"], ["a"]])

        assert list(raised.value.places) == [2]
        assert not redis.exists("queue:default", "kb:locks")

        first = once.perform_async("a")
        with pytest.raises(NotUnique, match=first):
            once.perform_async("a")

    def test_without_a_rule_for_one_push_it_is_pushed_and_takes_no_lock(self, redis):
        bill.perform_async(7)

        assert bill.set(unique=None).perform_async(7) is not None
        assert ["flow" in each for each in queued(redis)] == [True, False]

    def test_a_key_of_another_type_refuses_the_push_as_a_whole(self, redis):
        redis.set("kb:locks", "foreign")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            bill.perform_async(7)
        assert not redis.exists("queue:default")


class TestBeginning:
    def begin(self, client, payload):
        [answer] = begin(client.pool.connection(), [ask_lock(Keys(), payload).part])
        return "".join(answer.more)

    def test_a_replaced_job_does_not_begin_and_the_later_one_does(self, client, redis):
        latest.perform_in(HOUR, "a")
        latest.perform_async("a")
        [old] = [json.loads(text) for text in redis.zrange("schedule", 0, -1)]
        [new] = queued(redis)

        assert self.begin(client, new) == ""
        assert find_owner(latest, "a") is None
        assert self.begin(client, old) == "replaced"
        assert self.begin(client, old) == "replaced"

        end(client, redis, old)
        assert not redis.exists("kb:replaced")

    def test_a_job_that_a_schedule_has_placed_takes_its_lock_when_it_begins(self, client, redis):
        item = {"class": bill, "args": [7], "at": 1.0}
        placed = [prepare(item, 0.0, client.middleware, client.wire_profile) for _ in range(2)]
        first, second = [json.loads(client.writer.text(job, 0.0)) for job in placed]

        assert self.begin(client, first) == ""
        assert self.begin(client, first) == ""
        assert find_owner(bill, 7) == first["jid"]
        assert self.begin(client, second) == first["jid"]
        end(client, redis, second)
        assert find_owner(bill, 7) == first["jid"]
        end(client, redis, first)
        assert self.begin(client, second) == ""


@pytest.mark.parametrize("fault", ["full", "lost"])
def test_a_bulk_that_fails_on_its_way_says_which_jobs_are_in_redis(redis, redis_url, fault):
    pool = ThirdCallFails(redis_url, redis, fault)
    bulk = {"class": "Any", "args": [[n] for n in range(8)], "batch_size": 2, "unique": Unique()}

    try:
        with pytest.raises(RedisUnavailable if fault == "full" else PushOutcomeUnknown) as told:
            Client(pool=pool).push_bulk(bulk)
    finally:
        redis.config_set("maxmemory", 0)
        pool.close_all()

    error, sent = told.value, {each["jid"]: each["args"][0] for each in queued(redis)}
    in_doubt = {4, 5} if fault == "lost" else set()
    assert {jid: place for place, jid in {**error.pushed, **error.unknown}.items()} == sent
    assert (set(error.pushed), set(error.unknown)) == (set(range(4)), in_doubt)


def test_one_that_waits_for_a_commit_takes_its_lock_when_it_is_pushed(redis, caplog):
    with Session(create_engine("sqlite://")) as session, session.begin():
        later = after_commit(session, bill)
        first, second = later.perform_async(1), later.perform_async(1)
        after_commit(session, plain).perform_async(2)
        refused = later.set(unique=Unique(by=("user_id",), on_conflict="raise")).perform_async(1)
        jids = later.perform_bulk([[3], [3]])
        assert find_owner(bill, 1) is None

    assert find_owner(bill, 1) == first != second
    assert [each["args"] for each in queued(redis)] == [[2], [1], [3]]
    assert queued(redis)[2]["jid"] == jids[0]
    assert f"RuledBill {refused}" in caplog.text and f"RuledBill {second}" not in caplog.text
