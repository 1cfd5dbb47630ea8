"""Limits in bytes: of one job's text, and of what is held at once; a text that is long is never parsed."""

import json
import random
import tracemalloc

import pytest
from support.bad_payloads import raw_of
from support.engine import EngineProcess, poller_on, put_back
from support.proxy import InterceptingRedis
from support.runners import make_runner
from support.waiting import wait_until

from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.client.client import Client
from kiqbridge.client.inline import prepare_inline
from kiqbridge.client.registry import Registry
from kiqbridge.config.merge import merge
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.errors import ConfigError, PayloadError, RedisUnavailable
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.batches import BATCH_BYTES

NOW = 1_700_000_000.5
LONG = "x" * 1000
REFUSED = r"has 1,\d\d\d bytes, more than the 1,000 that max_payload_bytes allows.*S3.*key"


def text_of(number, data="", **attributes):
    payload = {"class": "Nop", "args": [number, data], "jid": f"jid-{number}", "queue": "default"}
    return json.dumps({**payload, "retry": True, "created_at": 1.5, **attributes}).encode()


def bomb(levels=400_000, **attributes):
    """1.2 MB that are more than 25 MB as Python objects."""
    text = text_of("bomb", **attributes)
    return text.replace(b'""', b"[" + b"[]," * levels + b"[]]", 1)


def peak_of(function):
    """Bytes that Python held at once for it, at most, and what it returned."""
    tracemalloc.start()
    try:
        result = function()
        return tracemalloc.get_traced_memory()[1], result
    finally:
        tracemalloc.stop()


class TestAtPush:
    @pytest.mark.parametrize(
        "push",
        [
            lambda client: client.push({"class": "Nop", "args": [LONG]}),
            lambda client: client.push({"class": "Nop", "args": [LONG], "at": 9e9}),
            lambda client: client.push_bulk({"class": "Nop", "args": [[1], [LONG]]}),
            lambda client: client.push_bulk({"class": "Nop", "args": [[LONG]], "jid": "j"}),
            lambda client: client.push_once([{"class": "Nop", "args": [LONG]}], ["key"]),
            lambda client: client.push_tick("s", 0, [{"class": "Nop", "args": [LONG]}], by="me"),
            lambda client: prepare_inline(client, {"class": "Nop", "args": [LONG]}),
        ],
    )
    def test_a_text_that_is_too_long_is_refused_by_every_way_to_push(self, redis, pool, push):
        with pytest.raises(PayloadError, match=REFUSED):
            push(Client(pool=pool, max_payload_bytes=1000))

        assert redis.dbsize() == 0
        push(Client(pool=pool, max_payload_bytes=0))

    def test_the_environment_sets_the_limit_of_clients(self, pool, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_MAX_PAYLOAD_BYTES", "1000")

        with pytest.raises(PayloadError, match=REFUSED):
            Client(pool=pool).push({"class": "Nop", "args": [LONG]})

    def test_it_is_10_mb_where_nothing_sets_it(self, pool):
        with pytest.raises(PayloadError, match="10,000,000"):
            Client(pool=pool).push({"class": "Nop", "args": ["x" * 10_000_000]})

    @pytest.mark.parametrize("value", ["many", "-1", "1.5"])
    def test_what_is_no_number_of_bytes_is_refused(self, pool, monkeypatch, value):
        monkeypatch.setenv("KIQBRIDGE_MAX_PAYLOAD_BYTES", value)

        with pytest.raises(ConfigError, match=f"max_payload_bytes: '{value}' is not a whole"):
            Client(pool=pool)
        with pytest.raises(ConfigError, match="max_payload_bytes"):
            merge(environ={"KIQBRIDGE_MAX_PAYLOAD_BYTES": value}, flags={})

    def test_the_enqueue_function_refuses_it_as_well(self, redis, redis_url):
        environ = {
            "REDIS_URL": redis_url,
            "KIQBRIDGE_ALLOWED_CLASSES": "*",
            "KIQBRIDGE_ALLOWED_QUEUES": "*",
            "KIQBRIDGE_MAX_PAYLOAD_BYTES": "1000",
        }

        with pytest.raises(PayloadError, match=REFUSED):
            Enqueuer.from_environment(environ).handle(
                {"class": "Nop", "args": [LONG]}, now=NOW
            ).answer_or_raise()

    @pytest.mark.parametrize("shared", [{}, {"jid": None}, {"at": 9e9}])
    def test_a_bulk_of_long_texts_goes_in_calls_of_a_megabyte(self, server, redis, shared):
        data = "x" * 100_000
        with InterceptingRedis(server.port) as proxy:
            client = Client(proxy.url)
            jids = client.push_bulk(
                {"class": "Nop", "args": [[number, data] for number in range(35)], **shared}
            )
            client.close()
            sizes = [sum(map(len, command)) for command in proxy.commands]

        key = "schedule" if "at" in shared else "queue:default"
        read = redis.zrange if "at" in shared else redis.lrange
        payloads = [json.loads(text) for text in read(key, 0, -1)]
        assert sorted(payload["jid"] for payload in payloads) == sorted(jids)
        assert len({payload["args"][0] for payload in payloads}) == 35
        assert max(sizes) < BATCH_BYTES + 10_000


class TestWhenFetched:
    @staticmethod
    def runner(max_payload_bytes):
        return make_runner(Registry(), wall_now=lambda: NOW, max_payload_bytes=max_payload_bytes)

    def test_it_goes_to_dead_unparsed_and_whole(self):
        text = bomb()

        peak, settlement = peak_of(lambda: self.runner(1_000_000).read(text, "mail"))

        assert settlement.target is Target.DEAD
        assert not settlement.counted
        assert raw_of(settlement.text) == text
        kept = json.loads(settlement.text)
        assert (kept["jid"], kept["queue"]) == ("jid-bomb", "mail")
        assert kept["error_class"] == "kiqbridge.errors.PayloadError"
        assert "more than the 1,000,000 that max_payload_bytes allows" in kept["error_message"]
        assert peak < 15 * len(text)  # parsed it takes more than 20 times

    def test_one_that_has_grown_by_its_failures_is_still_read(self):
        text = text_of(1, "x" * 900, error_message="y" * 10_000, **{"class": "Unknown"})

        assert isinstance(self.runner(1000).read(text, "mail"), Execution)


class TestWhenDue:
    def test_members_are_read_and_moved_a_megabyte_at_a_time(self, server, redis):
        members = [text_of(number, "x" * 60_000) for number in range(80)]  # 5 MB
        redis.zadd("schedule", dict.fromkeys(members, 1.0))
        with InterceptingRedis(server.port) as proxy:
            pool = RedisPool(proxy.url)
            poller = poller_on(pool)

            peak, moved = peak_of(lambda: poller.move_due("schedule", NOW))

            pool.close_all()
            sizes = [sum(map(len, command)) for command in proxy.commands]

        assert moved == redis.llen("queue:default") == len(members)
        assert max(sizes) < 2 * BATCH_BYTES + 100_000  # each as it was read, and as it is pushed
        assert peak < 40_000_000  # the proxy's memory included

    def test_one_that_is_longer_than_a_batch_goes_alone(self, redis, pool):
        members = [text_of(number, "x" * 10) for number in range(3)]
        members.insert(1, text_of("long", "x" * 2 * BATCH_BYTES))
        for score, member in enumerate(members):
            redis.zadd("retry", {member: score})

        assert poller_on(pool).move_due("retry", NOW) == 4

        pushed = [json.loads(text)["jid"] for text in redis.lrange("queue:default", 0, -1)]
        assert pushed == ["jid-2", "jid-1", "jid-long", "jid-0"]

    def test_small_ones_still_go_a_thousand_at_a_time(self, server, redis):
        redis.zadd("schedule", {text_of(number): 1.0 for number in range(2500)})
        with InterceptingRedis(server.port) as proxy:
            pool = RedisPool(proxy.url)

            assert poller_on(pool).move_due("schedule", NOW) == 2500

            pool.close_all()
            scripts = [each for each in proxy.commands if each[0] == b"EVALSHA"]
        assert len(scripts) <= 10  # 4 that read, 3 that move, and what the server did not know yet

    def test_one_that_is_too_long_goes_to_dead_unparsed_and_whole(self, redis, pool):
        text = bomb()
        redis.zadd("schedule", {text: 1.0, text_of(1): 2.0})

        poller = poller_on(pool, max_payload_bytes=1_000_000)
        peak, moved = peak_of(lambda: poller.move_due("schedule", NOW))

        assert moved == 2
        [kept] = redis.zrange("dead", 0, -1)
        assert raw_of(kept) == text
        assert "max_payload_bytes" in json.loads(kept)["error_message"]
        assert redis.llen("queue:default") == 1
        assert peak < 17 * len(text)

    @pytest.mark.slow
    def test_a_long_one_is_moved_without_being_parsed(self, redis, pool):
        text = bomb(enqueued_at=1.5, retry_for=60, tags=["a"])
        redis.zadd("retry", {text: 1.0})

        peak, moved = peak_of(lambda: poller_on(pool).move_due("retry", NOW))

        assert moved == 1
        assert peak < 15 * len(text)
        [pushed] = redis.lrange("queue:default", 0, -1)
        assert json.loads(pushed) == {**json.loads(text), "enqueued_at": NOW}

    def test_a_long_one_that_lacks_something_gets_it(self, redis, pool):
        text = json.dumps({"class": "Nop", "args": ["x" * 1_100_000, {"queue": "no"}]}).encode()
        redis.zadd("retry", {text: 1.0})

        assert poller_on(pool).move_due("retry", NOW) == 1

        [pushed] = redis.lrange("queue:default", 0, -1)
        payload = json.loads(pushed)
        assert payload.pop("jid")
        assert payload == {
            **json.loads(text), "queue": "default", "retry": True, "enqueued_at": NOW,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("wrong", "reason"),
        [
            ({"class": 5}, "keys class and args"),
            ({"args": {}}, "keys class and args"),
            ({"queue": ""}, "queue: "),
            ({"at": 5}, "at: "),
        ],
    )
    def test_a_long_one_that_is_no_job_goes_to_dead_whole(self, redis, pool, wrong, reason):
        text = text_of(1, **{"padding": "x" * 1_100_000, **wrong})
        redis.zadd("retry", {text: 1.0})

        assert poller_on(pool).move_due("retry", NOW) == 1

        [kept] = redis.zrange("dead", 0, -1)
        assert raw_of(kept) == text
        assert json.loads(kept)["error_message"].startswith((reason, "job: "))
        assert reason in json.loads(kept)["error_message"]


class TestWhenClaimed:
    @pytest.mark.parametrize("seed", range(4))
    def test_chunks_of_a_megabyte_at_most_come_in_the_order_of_the_queue(
        self, redis, process, seed
    ):
        rng = random.Random(seed)
        sizes = [rng.choice((10, 2000, 30_000, 400_000)) for _ in range(200)] + [2 * BATCH_BYTES]
        rng.shuffle(sizes)
        jobs = [b"%d " % number + b"x" * size for number, size in enumerate(sizes)]
        for job in jobs:
            redis.lpush("queue:default", job)
        claimer = process.claimer()

        claimed = []
        while (chunk := claimer.claim(["default"], 100)) is not None:
            assert chunk.size == 1 or sum(map(len, chunk.waiting)) <= BATCH_BYTES
            claimed += [chunk.take() for _ in range(chunk.size)]

        assert claimed == jobs

    def test_short_ones_are_claimed_as_many_as_were_asked_for(self, redis, process):
        redis.lpush("queue:default", *(text_of(number) for number in range(250)))
        claimer = process.claimer()

        assert [claimer.claim(["default"], most).size for most in (1, 100, 7, 100)] == [
            1, 100, 7, 100,
        ]  # fmt: skip
        assert claimer.claim(["default"], 100).size == 42


class TestWhenSettled:
    @pytest.fixture
    def process(self, proxy):
        with EngineProcess(proxy.url) as process:
            yield process

    @staticmethod
    def sizes(proxy):
        return [sum(map(len, command)) for command in proxy.commands]

    def test_many_long_jobs_are_given_back_a_megabyte_at_a_time_and_in_order(
        self, redis, process, proxy
    ):
        claimer = process.claimer()
        jobs = [text_of(number, "x" * 90_000) for number in range(11)]
        redis.lpush("queue:default", *jobs)
        before = redis.lrange("queue:default", 0, -1)
        chunk = claimer.claim(["default"], 100)
        connection = process.connect()
        connection.most_bytes = 300_000
        proxy.commands.clear()

        assert put_back(connection, process.keys, chunk) == chunk.size == 11

        assert redis.lrange("queue:default", 0, -1) == before
        assert max(self.sizes(proxy)) < 310_000

    def test_failures_of_a_chunk_are_written_a_megabyte_at_a_time(self, redis, process, proxy):
        settler = Settler(process.keys)
        redis.lpush("queue:default", *(text_of(number, "x" * 90_000) for number in range(10)))
        chunk = process.claimer().claim(["default"], 100)
        notified = []
        while (text := chunk.take()) is not None:
            then = lambda text=text: notified.append(text)  # noqa: E731
            settlement = Settlement(
                target=Target.RETRY, score=1.0, text=text, counted=True, notify=then
            )
            chunk.end(settlement)
        connection = process.connect()
        connection.most_bytes = 400_000
        connection.lose = {2}
        proxy.commands.clear()

        with pytest.raises(RedisUnavailable), chunk.writing:
            settler.write_ended(connection, chunk)
        with chunk.writing:
            thens = settler.write_ended(connection, chunk)
        for then in thens:
            then()

        assert redis.zcard("retry") == 10
        assert chunk.ended == ()
        # As ever, those whose reply was lost are taken for somebody else's; all others are reported.
        assert len(notified) == 8
        assert max(self.sizes(proxy)) < 420_000

    def test_the_bookkeeper_acknowledges_and_settles_a_megabyte_at_a_time(
        self, redis, process, proxy
    ):
        redis.lpush("queue:default", *(text_of(number, "x" * 90_000) for number in range(10)))
        chunk = process.claimer().claim(["default"], 100)
        connection = process.connect()
        connection.most_bytes = 300_000
        bookkeeper = Bookkeeper(
            connection,
            process.keys,
            Settler(process.keys),
            Outage(),
            Notifications(),
        )
        proxy.commands.clear()
        for number, text in enumerate(chunk.waiting):
            failed = Settlement(target=Target.RETRY, score=1.0, text=text, counted=True)
            bookkeeper.ended(chunk, text, failed if number % 2 else None)

        bookkeeper.start()
        wait_until(lambda: not redis.exists(chunk.list_key), 30)
        bookkeeper.stop(10)

        assert redis.zcard("retry") == 5
        assert max(self.sizes(proxy)) < 310_000
