"""Unique, debounced and throttled jobs on a real server: what is pushed, and what is left out."""

import json
import time

import pytest
from support.waiting import wait_until

from kiqbridge import PayloadError, configure, job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.engine.outbox.effects import EffectContext
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.settle.ending import ending
from kiqbridge.errors import NotUnique, RedisRefused
from kiqbridge.flow import Debounce, Throttle, Unique, find_owner
from kiqbridge.store.locks import begin_lock, find_due_locks
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.locks import lock_of

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


@job(name="RuledReindex", debounce=Debounce(by=("key",), wait_s=600, max_wait_s=900))
def reindex(key, version=0):
    """Does nothing."""


@job(name="RuledPing", throttle=Throttle(limit=2, per_s=10 * 86_400, over="drop"))
def ping(key):
    """Does nothing."""


@job(name="RuledLater", throttle=Throttle(limit=2, per_s=10 * 86_400, over="later"))
def later(key):
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
    Outbox(EffectContext(Keys(), client), client.pool.connection()).look()


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
        return begin_lock(client.pool.connection(), Keys(), lock_of(payload), payload["jid"])

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
        placed = [client.prepare_placed({"class": bill, "args": [7], "at": 1.0}) for _ in range(2)]
        first, second = [json.loads(text) for _, text in placed]

        assert self.begin(client, first) == ""
        assert self.begin(client, first) == ""
        assert find_owner(bill, 7) == first["jid"]
        assert self.begin(client, second) == first["jid"]
        end(client, redis, second)
        assert find_owner(bill, 7) == first["jid"]
        end(client, redis, first)
        assert self.begin(client, second) == ""


class TestBesideAKey:
    """A job with a rule that is pushed with a dedupe key, or by a schedule: both count."""

    @pytest.fixture(params=["unique", "debounce", "throttle"])
    def item(self, request):
        throttle = Throttle(per_s=10 * 86_400)
        return {
            "unique": {"class": bill, "args": [7]},
            "debounce": {"class": reindex, "args": ["a"]},
            "throttle": {"class": ping, "args": ["a"], "throttle": throttle},
        }[request.param]

    def test_it_is_one_job_whichever_way_it_is_pushed(self, client, redis, item):
        for number in range(3):
            client.push(item)
            client.push_once([item], [f"event {number}"])
            client.push_tick("s", 4_000_000_000 + 60 * number, [item], by="test")

        assert redis.llen("queue:default") + redis.zcard("schedule") == 1
        assert redis.hlen("kb:guards") == redis.zcard("kb:ticks:s") == 3

    def test_a_repeated_delivery_is_answered_as_the_first_one(self, client, redis, item):
        jid = client.push(item)
        [first] = client.push_once([item], ["k"])
        redis.delete("kb:locks", "kb:flow:spans", "schedule")  # there would be room by now

        [again] = client.push_once([item], ["k"])

        assert redis.llen("queue:default") == (0 if item["class"] is reindex else 1)
        assert again.duplicate
        if item["class"] is reindex:
            assert (first.duplicate, again.jid) == (False, first.jid)
        elif item["class"] is bill:
            assert (first.left_out, first.jid, again.jid) == ("unique", jid, jid)
        else:
            assert (first.left_out, again.left_out) == ("throttle", "throttle")

    def test_what_a_schedule_leaves_out_has_an_end(self, client, redis):
        client.push({"class": bill, "args": [7]})
        items = [{"class": bill, "args": [number]} for number in (7, 8)]

        outcome = client.push_tick("s", 4_000_000_000, items, by="test")

        assert [each.left_out for each in outcome.jobs] == ["unique", ""]
        [end] = map(json.loads, redis.zrange("kb:ends:s", 0, -1))
        assert (end["outcome"], end["at"]) == ("skipped", 4_000_000_000)
        [entry] = map(json.loads, redis.zrange("kb:ticks:s", 0, -1))
        assert entry["jids"] == [end["jid"], outcome.jobs[1].jid]

    def test_of_jobs_that_shall_raise_nothing_is_pushed(self, client, redis):
        owner = once.perform_async("a")
        items = [{"class": once, "args": [key]} for key in "ba"]

        with pytest.raises(NotUnique, match=owner) as raised:
            client.push_once(items, ["k1", "k2"])
        with pytest.raises(NotUnique):
            client.push_tick("s", 4_000_000_000, items, by="test")

        assert list(raised.value.places) == [1]
        assert not redis.exists("kb:guards", "kb:ticks:s")
        assert redis.llen("queue:default") == 1

    def test_a_job_whose_lock_is_taken_finds_room_in_a_full_queue(self, client):
        bill.perform_async(7)

        [outcome] = client.push_once([{"class": bill, "args": [7]}], ["k"], limits={"default": 1})

        assert outcome.left_out == "unique"


class TestDebounce:
    def test_the_last_push_runs_once_no_more_come(self, redis):
        began = time.time()
        jids = [reindex.perform_async("a", version) for version in range(3)]
        other = reindex.perform_async("b")

        waiting = redis.zrange("schedule", 0, -1, withscores=True)
        first, second = [json.loads(text) for text, _ in waiting]
        assert {first["jid"], second["jid"]} == {jids[2], other}
        assert all(began + 600 <= at <= time.time() + 600.01 for _, at in waiting)
        assert "enqueued_at" not in first

    def test_it_runs_at_the_latest_after_its_longest_wait(self, redis):
        reindex.perform_async("a")
        [name] = redis.hkeys("kb:flow:spans")
        first, _, text = redis.hget("kb:flow:spans", name).partition(b" ")
        began = float(first) - 800
        redis.hset("kb:flow:spans", name, b"%.6f " % began + text)

        reindex.perform_async("a")

        [(_, at)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert at == pytest.approx(began + 900, abs=0.01)

    def test_once_the_job_was_taken_a_push_begins_anew(self, redis):
        reindex.perform_async("a")
        redis.delete("schedule")

        again = reindex.perform_async("a")

        [text] = redis.zrange("schedule", 0, -1)
        assert json.loads(text)["jid"] == again

    def test_it_takes_no_time_and_no_consequences_of_its_end(self):
        with pytest.raises(PayloadError, match="without a time"):
            reindex.perform_in(5, "a")
        with pytest.raises(PayloadError, match="batch"):
            reindex.set(attributes={"flow": {"bid": "b"}}).perform_async("a")

    def test_what_is_over_is_forgotten(self, client, redis):
        reindex.perform_async("a")
        redis.zadd("kb:flow:spans:until", {redis.hkeys("kb:flow:spans")[0]: 1})

        assert find_due_locks(client.pool.connection(), Keys(), most=10) == []

        assert not redis.exists("kb:flow:spans", "kb:flow:spans:until")
        assert redis.zcard("schedule") == 1


class TestThrottle:
    def test_what_is_too_much_is_left_out(self, redis):
        jids = [ping.perform_async("a") for _ in range(4)]

        assert [jid is None for jid in jids] == [False, False, True, True]
        assert ping.perform_async("b") is not None
        assert len(queued(redis)) == 3

    def test_or_is_scheduled_for_the_next_span_with_room(self, redis):
        jids = later.perform_bulk([["a"]] * 6)

        assert None not in jids
        assert [each["jid"] for each in queued(redis)] == jids[:2]
        assert all("enqueued_at" in each for each in queued(redis))
        waiting = redis.zrange("schedule", 0, -1, withscores=True)
        assert len(waiting) == 4
        assert len({at for _, at in waiting}) == 2
        assert all(at % (10 * 86_400) == 0 and at > time.time() for _, at in waiting)
        assert all("enqueued_at" not in json.loads(text) for text, _ in waiting)

    def test_a_job_for_later_counts_in_the_span_of_its_time(self, redis):
        for _ in range(3):
            ping.perform_in(30 * 86_400, "a")

        assert redis.zcard("schedule") == 2

    def test_a_span_ends(self, redis):
        ping_now = ping.set(throttle=Throttle(per_s=0.05))
        assert ping_now.perform_async("c") is not None

        wait_until(lambda: ping_now.perform_async("c") is not None)

        assert len(queued(redis)) == 2
