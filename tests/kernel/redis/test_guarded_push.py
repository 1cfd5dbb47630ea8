"""Pushes under a guard: once, however often they are asked for."""

import re
import time
from contextlib import closing
from pathlib import Path

import pytest
import redis as redis_py
from support.jobs import own_declarations
from support.proxy import Lose, Refuse
from support.servers import embedded_server
from support.waiting import at_once

from kiqbridge import Client, RedisUnavailable
from kiqbridge.client.job import job
from kiqbridge.errors import PayloadError, PushOutcomeUnknown, QueueTooDeep, RedisRefused
from kiqbridge.store.forgetting import FORGET_AT_ONCE, FORGET_ROUNDS, forget_what_is_over
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.active_job import OLD_WRAPPER
from kiqbridge.wire.bulk import BATCH_SIZE
from kiqbridge.wire.guards import (
    DAY_S,
    LONGEST_FIELD,
    Identity,
    Source,
    event_identity,
    guard_field,
)
from kiqbridge.wire.json_text import dumps, loads
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import TICK_HORIZON_S
from kiqbridge.wire.tick_mark import MAX_NAME

SOON = 1_900_000_000
MINUTE = int(time.time()) // 60 * 60
SCRIPTS = {b"EVALSHA", b"EVAL"}


@pytest.fixture(autouse=True)
def minute():
    """The clock of the machine may have been set since this file was imported."""
    globals()["MINUTE"] = int(time.time()) // 60 * 60


@pytest.fixture
def own_jobs():
    """A declared job."""
    with own_declarations():
        yield job(name="Declared")(lambda: None)


def item(*args, **more):
    return {"class": "EchoJob", "args": list(args), **more}


def queued(redis, name="default"):
    return [loads(text) for text in reversed(redis.lrange(f"queue:{name}", 0, -1))]


def guard(redis, name):
    """Until when a guard is remembered (epoch seconds), and the jid that it names."""
    until, jid = redis.hget("kb:guards", name).split(b" ")
    assert redis.zscore("kb:guards:until", name) == int(until)
    return int(until), jid.decode()


def ends_of(redis):
    """Guard → until when it is remembered (epoch seconds)."""
    return {name: int(value.split()[0]) for name, value in redis.hgetall("kb:guards").items()}


def end_guards(redis, *names):
    """Let their time be over: no test waits for it."""
    for name in names:
        _, jid = guard(redis, name)
        redis.hset("kb:guards", name, f"1000 {jid}")
        redis.zadd("kb:guards:until", {name: 1000})


def keys(redis):
    return {key.decode() for key in redis.scan_iter()}


def lose_first_script(proxy, how, times=1):
    """The first scripts that are really run end this way (one that only loads it does not)."""
    left = [how] * times

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
        until, jid = guard(redis, "key:7:EchoJob:event#0")
        assert jid == outcome.jid
        assert until == pytest.approx(time.time() + 17 * DAY_S, abs=5)
        assert redis.smembers("queues") == {b"default"}

    def test_a_given_jid_that_meets_itself_is_a_duplicate(self, client, redis):
        client.push_once([item(1, jid="mine")], ["event#0"])

        [second] = client.push_once([item(1, jid="mine")], ["event#0"])

        assert (second.duplicate, second.jid) == (True, "mine")

        client.push_once([item(2)], ["other"], jids=["drawn"])
        [again] = client.push_once([item(2)], ["other"], jids=["drawn"])
        assert (again.jid, again.duplicate) == ("drawn", False)  # a caller that repeats a call
        assert [payload["jid"] for payload in queued(redis)] == ["mine", "drawn"]

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
        assert redis.hkeys("kb:guards") == [b"key:7:EchoJob:event#1"]
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
            ("kb:guards", "list"),
            ("kb:guards:until", "string"),
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


class TestHowLong:
    """A guard is kept for as long as its source may deliver again, and not much longer."""

    def test_the_documentation_has_the_days_of_each(self):
        text = (Path(__file__).parents[3] / "docs" / "reference" / "events.md").read_text(
            encoding="utf-8"
        )
        rows = re.findall(r"^\| (`[^|]+`) \| [^|]+ \| (\d+) \|", text, re.MULTILINE)

        days = {name: int(count) for names, count in rows for name in re.findall(r"`(\w+)`", names)}
        assert days == {str(source): source.keep_s // DAY_S for source in Source}

    @pytest.mark.parametrize("source", Source)
    def test_none_is_over_before_a_dead_letter_queue_is(self, source):
        assert 14 * DAY_S < source.keep_s < 45 * DAY_S
        if "fifo" in source:  # the 14 days begin anew in the dead-letter queue
            assert source.keep_s > 28 * DAY_S

    def test_jobs_of_several_sources_have_each_its_own_end_unless_the_caller_says_when(
        self, client, redis
    ):
        identities = [Identity(source, ("same",)) for source in Source]

        client.push_once([item(1)] * len(identities), identities)

        ends = {name.split(b":")[0].decode(): until for name, until in ends_of(redis).items()}
        for source in Source:
            assert ends[source] == pytest.approx(time.time() + source.keep_s, abs=60)

        client.push_once([item(1)], [Identity(Source.SQS, ("another",))], ttl_s=60)
        assert min(ends_of(redis).values()) == pytest.approx(time.time() + 60, abs=30)


class TestLimits:
    """A queue at its limit takes nothing more; one call is refused as a whole."""

    @pytest.fixture(autouse=True)
    def full(self, redis):
        redis.rpush("queue:full", *range(3))

    def test_at_its_limit_it_refuses_and_nothing_is_written(self, client, redis):
        redis.rpush("queue:other", "x")
        before = keys(redis)

        with pytest.raises(QueueTooDeep, match=r"full \(3 jobs\), other \(1 jobs\)") as caught:
            client.push_once(
                [item(1), item(2, queue="full"), item(3, queue="full"), item(4, queue="other")],
                ["a", "b", "c", "d"],
                limits={"full": 3, "other": 1},
            )

        assert caught.value.queues == {"full": 3, "other": 1}
        assert caught.value.places == {1: 3, 2: 3, 3: 1}
        assert keys(redis) == before
        assert redis.llen("queue:full") == 3

        client.push_once([item(1, queue="full")], [None], limits={"full": 4})
        assert redis.llen("queue:full") == 4

    def test_what_is_known_already_or_runs_later_passes(self, client, redis):
        client.push_once([item(1, queue="full")], ["a"])

        first, second = client.push_once(
            [item(1, queue="full"), item(2, queue="full", at=SOON)],
            ["a", "b"],
            limits={"full": 1},
        )

        assert (first.duplicate, second.duplicate) == (True, False)
        assert redis.zcard("schedule") == 1

    def test_places_are_those_of_the_items_also_when_middleware_stops_one(self, client, redis):
        client.middleware.add(
            lambda _class, payload, _queue, call_next: call_next() if payload["args"] else None
        )

        with pytest.raises(QueueTooDeep) as caught:
            client.push_once([item(), item(1, queue="full")], [None, None], limits={"full": 0})

        assert caught.value.places == {1: 3}

    def test_a_tick_is_refused_as_a_whole_and_enqueued_later(self, client, redis):
        items = [item(1), item(2, queue="full")]

        with pytest.raises(QueueTooDeep, match="full") as caught:
            client.push_tick("s", MINUTE, items, by="test", limits={"full": 3})
        assert caught.value.places == {1: 3}
        assert not redis.exists("queue:default", "kb:ticks:s")

        for kind in ("enqueued", "duplicate"):
            later = client.push_tick("s", MINUTE, items, by="test", limits={"full": 4})
            assert later.kind == kind


class TestScope:
    """What a guard is about: where its name comes from, and the class of the job."""

    def test_an_events_id_says_nothing_about_the_same_text_as_a_key(self, client):
        outcomes = [
            client.push_once([item(1)], [key])[0].duplicate
            for key in ("e", event_identity("e").of_job(0), event_identity("e", "again").of_job(0))
        ]

        assert outcomes == [False, False, False]

    def test_a_job_of_rails_goes_by_its_own_class_and_not_by_that_of_its_wrapper(self, client):
        def pushed(name):
            wrapped = {"class": OLD_WRAPPER, "args": [{"job_class": name}]}
            return client.push_once([wrapped], ["order-5"])[0].duplicate

        assert [pushed("Mail"), pushed("Bill"), pushed("Mail")] == [False, False, True]

    def test_a_declared_job_and_its_name_are_one_class(self, client, own_jobs):
        [first] = client.push_once([item() | {"class": own_jobs}], ["k"])

        [second] = client.push_once([item() | {"class": "Declared"}], ["k"])

        assert (second.duplicate, second.jid) == (True, first.jid)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (("b", "A:a"), ("A:a:b", "A")),
            (("a:b", "A"), ("b", "A:a")),
            (("x", "1:A"), ("A:x", "1")),
            (("x", "key:1"), ("1:x", "key")),
            ((event_identity("1:e").of_job(0), "A"), (event_identity("e").of_job(1), "A")),
            ((event_identity("e", "r").of_job(0), "A"), (event_identity("e:r").of_job(0), "A")),
            (
                (event_identity("e:1", "r").of_job(0), "A"),
                (event_identity("e", "1:r").of_job(0), "A"),
            ),
            (("k" * 5000, "A"), ("k" * 5001, "A")),
            (("k", "A", "low"), ("k", "A")),
            (("k", "A", "low"), ("1:A:k", "low")),
            (("k", "A:1", "low"), ("k", "1", "low:A")),
        ],
    )
    def test_no_separator_in_a_name_makes_two_guards_one(self, one, other):
        assert guard_field(*one) != guard_field(*other)

    def test_a_guard_takes_bounded_memory_however_long_its_key(self, client, redis):
        [first] = client.push_once([item()], ["k" * 100_000])

        [second] = client.push_once([item()], ["k" * 100_000])

        assert (second.duplicate, second.jid) == (True, first.jid)
        assert len(redis.hkeys("kb:guards")[0]) <= LONGEST_FIELD
        # What could be taken for a digest is a key like others.
        assert guard_field(redis.hkeys("kb:guards")[0].decode(), "A").startswith("key:")

    def test_a_key_that_is_no_text_of_json_is_refused_before_redis(self, client, redis):
        with pytest.raises(PayloadError, match="dedupe_key"):
            client.push_once([item()], ["\ud800"])

        assert keys(redis) == set()


class TestForgetting:
    def test_a_guard_that_is_over_lets_the_job_through_and_is_set_anew(self, client, redis):
        [first] = client.push_once([item(1)], ["k"])
        end_guards(redis, "key:7:EchoJob:k")

        [second] = client.push_once([item(2)], ["k"])

        assert second.duplicate is False
        until, jid = guard(redis, "key:7:EchoJob:k")
        assert (jid, until > time.time()) == (second.jid, True)
        assert jid != first.jid

    def test_a_push_forgets_some_of_those_that_are_over_and_no_other(self, client, redis):
        client.push_once([item(n) for n in range(30)], [f"old{n}" for n in range(30)])
        end_guards(redis, *redis.hkeys("kb:guards"))

        client.push_once([item()], ["new"])

        assert redis.hlen("kb:guards") == redis.zcard("kb:guards:until") == 31 - 12
        assert redis.hexists("kb:guards", "key:7:EchoJob:new")

    def test_the_rest_is_forgotten_a_bounded_number_at_a_time(self, client, redis, redis_url):
        most = FORGET_AT_ONCE * FORGET_ROUNDS
        names = [f"key:1:A:{n}" for n in range(most + 1)]
        redis.hset("kb:guards", mapping=dict.fromkeys(names, "1000 j"))
        redis.zadd("kb:guards:until", dict.fromkeys(names, 1000))
        client.push_once([item()], [None])
        connection = RedisPool(redis_url).connection()

        assert forget_what_is_over(connection, Keys()) is False
        assert redis.hlen("kb:guards") == 1
        assert forget_what_is_over(connection, Keys()) is True
        assert keys(redis) == {"queues", "queue:default"}
        connection.close()

    def test_it_frees_memory_when_there_is_none_left(self):
        with (
            embedded_server(maxmemory_policy="noeviction") as server,
            closing(Client(server.url)) as pusher,
        ):
            connection = RedisPool(server.url).connection()
            pusher.push_once([item()], ["k"])
            connection.call("ZADD", "kb:guards:until", 1000, "key:7:EchoJob:k")
            connection.call("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(RedisUnavailable):
                pusher.push_once([item()], ["k"])

            assert forget_what_is_over(connection, Keys())

            assert connection.call("EXISTS", "kb:guards", "kb:guards:until") == 0
            connection.close()


class TestEviction:
    def test_neither_guards_nor_ticks_are_what_a_full_server_evicts(self):
        """With `volatile-lru`, the default of ElastiCache, only keys with a TTL are chosen."""
        with (
            embedded_server(maxmemory_policy="volatile-lru") as server,
            closing(Client(server.url)) as pusher,
            redis_py.Redis.from_url(server.url) as raw,
        ):
            pusher.push_once([item()], ["k"])
            pusher.push_tick("s", MINUTE, [item()], by="aws")
            assert {key for key in raw.scan_iter() if raw.ttl(key) != -1} == set()

            fill(raw)

            assert pusher.push_once([item()], ["k"])[0].duplicate
            assert pusher.push_tick("s", MINUTE, [item()], by="b").kind == "duplicate"


def fill(raw):
    """Write until the server has evicted what it may and refuses more; then give it room again."""
    raw.config_set("maxmemory", raw.info("memory")["used_memory"] + 1_000_000)
    for number in range(1000):
        try:
            raw.set(f"cache:{number}", "x" * 10_000)
        except redis_py.exceptions.OutOfMemoryError:
            raw.config_set("maxmemory", 0)
            return
    raise AssertionError("the server's memory never was full")


class TestTick:
    def test_its_jobs_are_pushed_once_and_noted_in_the_ledger(self, client, redis):
        outcome = client.push_tick("stack/Nightly", MINUTE, [item(1), item(2, at=SOON)], by="aws")

        assert outcome.kind == "enqueued"
        [entry] = redis.zrangebyscore("kb:ticks:stack/Nightly", MINUTE, MINUTE)
        noted = loads(entry)
        assert noted["jids"] == [each.jid for each in outcome.jobs]
        assert (noted["at"], noted["by"]) == (MINUTE, "aws")
        assert [payload["jid"] for payload in queued(redis)] == noted["jids"][:1]
        assert redis.zcard("schedule") == 1
        assert redis.zscore("kb:ledgers", "stack/Nightly") == MINUTE + TICK_HORIZON_S + 3600

        second = client.push_tick("stack/Nightly", MINUTE, [item(1), item(2)], by="fleet")
        assert second.kind == "duplicate"
        assert [each.jid for each in second.jobs if each.duplicate] == noted["jids"]
        assert (len(queued(redis)), redis.zcard("schedule")) == (1, 1)

    def test_other_instants_and_other_schedules_are_other_ticks(self, client, redis):
        for schedule, instant in [("s", MINUTE), ("s", MINUTE - 60), ("t", MINUTE)]:
            assert client.push_tick(schedule, instant, [item()], by="aws").kind == "enqueued"

        assert len(queued(redis)) == 3

    @pytest.mark.parametrize(
        ("off_s", "bounds", "kind"),
        [(-3600, {"horizon_s": 1800}, "stale"), (3600, {"ahead_s": 60}, "future")],
    )
    def test_one_out_of_bounds_enqueues_nothing_and_is_not_counted(
        self, client, redis, off_s, bounds, kind
    ):
        outcome = client.push_tick("s", MINUTE + off_s, [item()], by="aws", **bounds)

        assert outcome.kind == kind
        assert keys(redis) == set()

    def test_a_tick_ahead_of_its_time_is_remembered_until_it_would_be_stale(self, client, redis):
        ahead = MINUTE + 20 * 86_400
        client.push_tick("yearly", ahead, [item()], by="aws")

        # The ledger itself never ends, and it is listed as over only after the instant's horizon.
        assert redis.ttl("kb:ticks:yearly") == -1
        assert redis.zscore("kb:ledgers", "yearly") >= ahead + TICK_HORIZON_S
        client.push_tick("yearly", MINUTE, [item()], by="aws")
        assert redis.zscore("kb:ledgers", "yearly") >= ahead + TICK_HORIZON_S
        assert client.push_tick("yearly", ahead, [item()], by="again").kind == "duplicate"

    def test_a_ledger_with_a_ttl_of_an_earlier_version_loses_it(self, client, redis):
        client.push_tick("s", MINUTE, [item()], by="aws")
        redis.expire("kb:ticks:s", 1000)

        client.push_tick("s", MINUTE - 60, [item()], by="aws")

        assert redis.ttl("kb:ticks:s") == -1

    def test_each_job_says_which_tick_it_belongs_to_whatever_else_is_said(self, client, redis):
        forged = {"schedule": "other", "at": 1}

        @client.middleware.add
        def forge(_class, payload, _queue, call_next):
            payload["tick"] = forged
            return call_next()

        items = [item(1), item(2, tick=forged)]
        client.push_tick("s", MINUTE, items, by="aws", overlap="skip", max_age_s=60)

        mark = {"schedule": "s", "at": MINUTE, "overlap": "skip", "max_age_s": 60}
        assert [payload["tick"] for payload in queued(redis)] == [mark, mark]

    def test_further_deliveries_are_counted(self, client, redis):
        client.push_tick("s", MINUTE, [item(1)], by="aws")
        assert not redis.exists("kb:attempts:s")
        for _ in range(3):
            client.push_tick("s", MINUTE, [item(1)], by="aws")
        client.push_tick("s", MINUTE - 60, [item(1)], by="aws")

        assert redis.hgetall("kb:attempts:s") == {str(MINUTE).encode(): b"4"}

    def test_what_would_be_stale_is_forgotten_with_its_attempts_and_ends(self, client, redis):
        for hours in (5, 1, 0):
            for _ in range(2):
                client.push_tick("s", MINUTE - hours * 3600, [item()], by="a", horizon_s=21600)
            redis.zadd("kb:ends:s", {f"end {hours}": MINUTE - hours * 3600})

        client.push_tick("s", MINUTE - 60, [item()], by="aws", horizon_s=1800)

        kept = [MINUTE - 3600, MINUTE]
        entries = redis.zrange("kb:ticks:s", 0, -1, withscores=True)
        assert [score for _, score in entries] == sorted([*kept, MINUTE - 60])
        assert sorted(int(field) for field in redis.hkeys("kb:attempts:s")) == kept
        assert redis.zrange("kb:ends:s", 0, -1) == [b"end 1", b"end 0"]

    def test_all_of_a_schedule_that_is_no_more_is_forgotten(self, client, redis, redis_url):
        for name in ("gone", "lives"):
            for _ in range(2):
                client.push_tick(name, MINUTE, [item()], by="aws")
            redis.zadd(f"kb:ends:{name}", {"end": MINUTE})
        redis.zadd("kb:ledgers", {"gone": MINUTE - 10})
        connection = RedisPool(redis_url).connection()

        assert forget_what_is_over(connection, Keys())
        connection.close()

        left = {name for name in keys(redis) if "gone" in name or "lives" in name}
        assert left == {"kb:ticks:lives", "kb:attempts:lives", "kb:ends:lives"}

        assert redis.zrange("kb:ledgers", 0, -1) == [b"lives"]
        assert client.push_tick("lives", MINUTE, [item()], by="b").kind == "duplicate"

    @pytest.mark.parametrize("key", ["kb:attempts:s", "kb:ends:s"])
    def test_what_has_no_place_keeps_no_tick_from_being_enqueued(self, client, redis, key):
        redis.set(key, "not what it should be")

        kinds = [client.push_tick("s", MINUTE, [item()], by="aws").kind for _ in range(2)]

        assert kinds == ["enqueued", "duplicate"]

    @pytest.mark.parametrize(
        "key",
        ["queue:default", "schedule", "queues", "kb:ticks:s", "kb:ledgers", "kb:schedules:state"],
    )
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
        def ask():
            with closing(Client(redis_url)) as client:
                return client.push_tick("s", MINUTE, [item(1), item(2)], by="aws")

        outcomes = at_once(*[ask] * 8)

        assert sorted(outcome.kind for outcome in outcomes) == ["duplicate"] * 7 + ["enqueued"]
        assert len({tuple(each.jid for each in outcome.jobs) for outcome in outcomes}) == 1
        assert len(queued(redis)) == 2


class TestTickOfOtherJobs:
    """A tick claims an occurrence for the classes and queues that the schedule's definition or ledger names."""

    def define(self, redis, *jobs):
        redis.hset("kb:schedules", "s", dumps({"expression": "* * * * *", "jobs": list(jobs)}))

    def tick(self, client, *items, at=None):
        outcome = client.push_tick("s", at or MINUTE, list(items), by="aws", overlap="skip")
        return outcome.kind

    @pytest.mark.parametrize(
        "other",
        [
            {"class": "Other", "args": [1]},
            item(1, queue="low"),
        ],
        ids=["of another class", "in another queue"],
    )
    def test_jobs_that_nothing_names_are_enqueued_apart_once(self, client, redis, other):
        self.define(redis, item(2))

        kinds = [self.tick(client, each) for each in (other, other, item(1), item(1), other)]

        assert kinds == ["enqueued", "duplicate", "enqueued", "duplicate", "duplicate"]
        jobs = [
            loads(text)
            for key in ("low", "default")
            for text in redis.lrange(f"queue:{key}", 0, -1)
        ]
        assert sorted(job["tick"]["schedule"] == "s" for job in jobs) == [False, True]
        assert redis.zcard("kb:ticks:s") == 1
        assert redis.hgetall("kb:attempts:s") == {str(MINUTE).encode(): b"2"}

    @pytest.mark.parametrize("entry", ["no JSON", "[]"])
    def test_an_entry_that_cannot_be_read_names_nothing_and_stops_no_tick(
        self, client, redis, entry
    ):
        self.define(redis, item(2))
        redis.zadd("kb:ticks:s", {entry: MINUTE - 60})

        assert self.tick(client, {"class": "Other", "args": [1]}) == "enqueued"

    @pytest.mark.parametrize("kind", ["paused", "skipped"])
    def test_what_stops_the_schedule_stops_them(self, client, redis, kind):
        self.define(redis, item())
        set_state(redis, **{kind: {"paused": {"until": None}, "skipped": [MINUTE]}[kind]})
        other = {"class": "Other", "args": []}

        assert self.tick(client, other) == kind
        assert queued(redis) == []
        by_hand = client.push_tick("s", MINUTE, [other], by="cli", ignore_pause=True)
        assert by_hand.kind == "enqueued"

    def test_only_all_jobs_of_a_definition_claim_its_occurrence(self, client, redis):
        self.define(redis, item(), {"class": "Bill", "args": []})

        assert self.tick(client, item()) == "enqueued"
        assert self.tick(client, item(), {"class": "Bill", "args": []}) == "enqueued"
        assert redis.zcard("kb:ticks:s") == 1

    def test_without_a_definition_the_first_says_nothing_about_other_jobs(self, client, redis):
        kinds = [self.tick(client, item(each)) for each in (1, 2)]
        other = {"class": "Other", "args": []}
        kinds += [self.tick(client, other) for _ in range(2)]

        assert kinds == ["enqueued", "duplicate"] * 2
        assert redis.zcard("kb:ticks:s") == 1

    def test_jobs_of_the_ledger_are_the_schedules_own_while_a_deployment_changes_them(
        self, client, redis
    ):
        """The old Input still arrives when the definition is new, and again after a rollback."""
        self.define(redis, item())
        self.tick(client, item(), at=MINUTE - 120)
        renamed = {"class": "Renamed", "args": []}
        self.define(redis, renamed)

        for at, each in ((MINUTE - 60, item()), (MINUTE, renamed), (MINUTE + 60, item())):
            assert self.tick(client, each, at=at) == "enqueued"

        assert redis.zcard("kb:ticks:s") == 4

    def test_of_an_entry_that_says_nothing_any_delivery_is_a_duplicate(self, client, redis):
        """Entries of an earlier version, and of what the fleet places."""
        redis.zadd(
            "kb:ticks:s", {f'{{"at":{MINUTE},"jids":["x"],"by":"aws","enqueued_at":1}}': MINUTE}
        )

        assert self.tick(client, item()) == "duplicate"

    def test_a_long_name_is_cut(self, client, redis):
        name = "s" * 250
        redis.hset("kb:schedules", name, dumps({"expression": "* * * * *", "jobs": [item()]}))

        client.push_tick(name, MINUTE, [{"class": "Other", "args": []}], by="aws")

        [job] = queued(redis)
        assert len(job["tick"]["schedule"]) <= MAX_NAME
        assert redis.exists(f"kb:ticks:{job['tick']['schedule']}")

    @pytest.mark.parametrize(
        "text", ["{", "[]", "5", '{"jobs":5}', '{"jobs":["x"]}', '{"jobs":[{}]}']
    )
    def test_a_definition_that_cannot_be_read_stops_no_tick(self, client, redis, text):
        redis.hset("kb:schedules", "s", text)

        assert self.tick(client, item()) == "enqueued"
        assert redis.exists("kb:ticks:s")


class TestPausedTick:
    @pytest.mark.parametrize("for_s", [None, 7200, 7200.5])
    def test_a_paused_schedule_enqueues_nothing_and_remembers_the_tick(self, client, redis, for_s):
        until = None if for_s is None else MINUTE + for_s
        set_state(redis, paused={"reason": "moving", "by": "eva", "at": 1, "until": until})

        outcome = client.push_tick("s", MINUTE, [item()], by="aws")
        set_state(redis)
        second = client.push_tick("s", MINUTE, [item()], by="aws")

        assert (outcome.kind, outcome.jobs) == ("paused", [])
        assert (second.kind, second.first, second.jobs) == ("duplicate", "paused", [])
        assert queued(redis) == []
        [entry] = redis.zrange("kb:ticks:s", 0, -1)
        assert (loads(entry)["jids"], loads(entry)["paused"]) == ([], True)
        assert redis.hgetall("kb:attempts:s") == {str(MINUTE).encode(): b"2"}

    def test_a_pause_that_is_over_stops_nothing(self, client, redis):
        set_state(redis, paused={"until": MINUTE - 3600})

        assert client.push_tick("s", MINUTE, [item()], by="aws").kind == "enqueued"

    def test_whoever_fires_by_hand_passes_a_pause(self, client, redis):
        set_state(redis, paused={"until": None}, skipped=[MINUTE])

        outcome = client.push_tick("s", MINUTE, [item()], by="cli:eva", ignore_pause=True)

        assert (outcome.kind, len(queued(redis))) == ("enqueued", 1)

    def test_only_the_instants_that_are_to_be_skipped_are(self, client, redis):
        set_state(redis, skipped=[MINUTE])

        kinds = [
            client.push_tick("s", instant, [item()], by="aws").kind
            for instant in (MINUTE - 60, MINUTE, MINUTE + 60)
        ]

        assert kinds == ["enqueued", "skipped", "enqueued"]
        assert client.push_tick("t", MINUTE, [item()], by="aws").kind == "enqueued"

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"paused":true}', '{"skipped":"1"}'])
    def test_a_state_that_says_nothing_stops_nothing(self, client, redis, text):
        redis.hset("kb:schedules:state", "s", text)

        assert client.push_tick("s", MINUTE, [item()], by="aws").kind == "enqueued"

    def test_a_lost_reply_is_no_second_delivery(self, proxy, redis):
        set_state(redis, paused={"until": None})
        lose_first_script(proxy, Lose())

        outcome = Client(proxy.url).push_tick("s", MINUTE, [item(1)], by="aws")

        assert (outcome.kind, outcome.jobs) == ("paused", [])
        assert not redis.exists("kb:attempts:s")


def set_state(redis, **state):
    redis.hset("kb:schedules:state", "s", dumps(state))


class TestLostReply:
    @pytest.mark.parametrize("how", [Lose(), Refuse()])
    @pytest.mark.parametrize("is_tick", [True, False])
    def test_a_guarded_job_or_tick_is_asked_for_again_and_pushed_once(
        self, proxy, redis, how, is_tick
    ):
        lose_first_script(proxy, how)
        client = Client(proxy.url)

        if is_tick:
            jobs = client.push_tick("s", MINUTE, [item(1), item(2)], by="aws").jobs
        else:
            jobs = client.push_once([item(1), item(2)], ["a", "b"])

        assert not any(each.duplicate for each in jobs)
        assert [payload["jid"] for payload in queued(redis)] == [each.jid for each in jobs]

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

    @pytest.mark.parametrize("is_tick", [True, False])
    def test_who_repeats_a_call_whose_replies_were_lost_gets_the_first_jids(
        self, proxy, redis, is_tick
    ):
        client = Client(proxy.url)

        def push():
            if is_tick:
                return client.push_tick("s", MINUTE, [item(1), item(2)], by="aws").jobs
            return client.push_once([item(1), item(2)], ["a", "b"])

        push()
        redis.flushdb()
        losses = [Lose()] * 2
        proxy.decide = lambda command: losses.pop() if command[0] in SCRIPTS and losses else None
        with pytest.raises(RedisUnavailable):
            push()
        jobs = push()

        assert all(each.duplicate for each in jobs)
        assert [payload["jid"] for payload in queued(redis)] == [each.jid for each in jobs]
