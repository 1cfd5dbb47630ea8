"""A job with a rule that is pushed with a dedupe key, or by a schedule: both count."""

import json

import pytest

from kiqbridge import ConfigError, configure, job
from kiqbridge.client.default_client import own_default_client
from kiqbridge.errors import NotUnique
from kiqbridge.flow import Debounce, Throttle, Unique


@job(name="BesideKeysBill", unique=Unique(by=("user_id",)))
def bill(user_id, amount=0):
    """Does nothing."""


@job(name="BesideKeysOnce", unique=Unique(on_conflict="raise"))
def once(key):
    """Does nothing."""


@job(name="BesideKeysLatest", unique=Unique(on_conflict="replace", until="start"))
def latest(key):
    """Does nothing."""


@job(name="BesideKeysReindex", debounce=Debounce(by=("key",), wait_s=600, max_wait_s=900))
def reindex(key, version=0):
    """Does nothing."""


@job(name="BesideKeysPing", throttle=Throttle(limit=2, per_s=10 * 86_400, over="drop"))
def ping(key):
    """Does nothing."""


@job(name="BesideKeysLater", throttle=Throttle(limit=2, per_s=10 * 86_400, over="later"))
def later(key):
    """Does nothing."""


@pytest.fixture(autouse=True)
def client(redis_url):
    with own_default_client():
        yield configure(redis_url)


def queued(redis):
    return [json.loads(text) for text in redis.lrange("queue:default", 0, -1)[::-1]]


class TestBesideAKey:
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
            [by_name] = client.push_once([{"class": "BesideKeysPing", "args": ["a"]}], ["k"])
            assert by_name.left_out == "throttle"  # an event names a class, and knows no rule

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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unique": Throttle(per_s=1)}, r"unique: .* is not a kiqbridge.flow.Unique\(…\)"),
        (
            {"unique": Unique(), "throttle": Throttle(per_s=1)},
            "throttle and unique: a job can have one of them",
        ),
    ],
)
def test_a_job_has_one_rule_under_its_own_name(options, message):
    with pytest.raises(ConfigError, match=message):
        job(name="BesideKeysTwice", **options)(lambda: None)
