"""Pushing jobs: what is in Redis afterwards."""

import asyncio
import datetime as dt
import time

import pytest
from hypothesis import HealthCheck, given, settings
from support.jobs import own_declarations
from support.proving import sized
from support.strategies import ARGUMENTS
from support.third_call import ThirdCallFails

from kiqbridge import Client, configure, job
from kiqbridge.client.default_client import default_client
from kiqbridge.errors import PayloadError, PushOutcomeUnknown, RedisRefused, RedisUnavailable
from kiqbridge.runtime.clock import use_clock
from kiqbridge.wire.json_text import loads

SOON = 1_900_000_000


@pytest.fixture
def echo(redis_url):
    with own_declarations():
        made = configure(redis_url)

        @job(name="EchoJob", queue="mailers")
        def declared(*args):
            return args

        yield declared
        made.close()


def queued(redis, name="default"):
    """Payloads of a queue, the next to run first."""
    return [loads(text) for text in reversed(redis.lrange(f"queue:{name}", 0, -1))]


def scheduled(redis):
    return [
        (score, loads(text)) for text, score in redis.zrange("schedule", 0, -1, withscores=True)
    ]


def keys(redis):
    return {key.decode() for key in redis.scan_iter()}


def now():
    return pytest.approx(time.time(), abs=5)


class TestOneJob:
    def test_enqueued_at_is_always_that_of_the_push_and_created_at_the_first(self, client, redis):
        client.push({"class": "EchoJob", "args": [], "created_at": 1.5, "enqueued_at": 2.5})

        [payload] = queued(redis)
        assert payload["created_at"] == 1.5
        assert payload["enqueued_at"] == now()

    def test_an_existing_redis_client_may_be_given(self, redis, redis_url):
        Client(redis=redis).push({"class": "EchoJob", "args": []})

        assert len(queued(redis)) == 1

    @settings(
        max_examples=sized(full=400, sample=20),
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(ARGUMENTS)
    def test_whatever_json_can_carry_arrives(self, client, redis, args):
        jid = client.push({"class": "EchoJob", "args": args})

        payload = loads(redis.lpop("queue:default"))
        assert (payload["jid"], payload["args"]) == (jid, args)

    def test_a_queue_of_the_wrong_type_is_told_with_the_servers_words(self, client, redis):
        redis.set("queue:default", "not a list")

        with pytest.raises(RedisRefused, match="WRONGTYPE"):
            client.push({"class": "EchoJob", "args": []})


class TestTheSetOfQueues:
    """A queue is put into it once a minute by each client (protocol §5.5)."""

    @pytest.fixture
    def moments(self):
        """What the clock of clients shows, the last one from then on."""
        moments = [SOON]
        former = use_clock(lambda: moments[-1])
        yield moments
        use_clock(former)

    @pytest.mark.parametrize("kind", ["one", "alike", "each"])
    def test_a_deleted_name_is_back_within_a_minute_of_pushes(self, client, redis, moments, kind):
        def push():
            if kind == "one":
                client.push({"class": "EchoJob", "args": []})
            elif kind == "alike":
                client.push_bulk({"class": "EchoJob", "args": [[1], [2]]})
            else:
                asyncio.run(client.apush({"class": "EchoJob", "args": []}))
            return redis.smembers("queues")

        assert push() == {b"default"}
        redis.delete("queues")
        moments.append(SOON + 59)
        assert push() == set()
        moments.append(SOON + 60)
        assert push() == {b"default"}
        redis.delete("queues")
        moments.append(SOON - 1)  # the clock was set back
        assert push() == {b"default"}

    @pytest.mark.usefixtures("moments")
    def test_it_is_put_there_again_after_an_error(self, client, redis):
        client.push({"class": "EchoJob", "args": []})
        redis.delete("queues")
        redis.set("queue:mail", "not a list")

        with pytest.raises(RedisRefused):
            client.push({"class": "EchoJob", "args": [], "queue": "mail"})
        client.push({"class": "EchoJob", "args": []})

        assert redis.smembers("queues") == {b"default", b"mail"}

    @pytest.mark.usefixtures("moments")
    def test_names_that_are_made_for_each_push_are_not_all_kept(self, client, redis):
        client.middleware.add(
            lambda _cls, item, _queue, _next: item | {"queue": f"of-{item['args'][0]}"}
        )

        client.push_bulk({"class": "EchoJob", "args": [[n] for n in range(2_500)]})

        assert len(client.writer._listed) == 500
        assert redis.scard("queues") == 2_500


class TestScheduled:
    @pytest.mark.parametrize("at", [0, -5.5])
    def test_a_raw_at_is_taken_as_it_is_however_small_or_past(self, client, redis, at):
        client.push({"class": "EchoJob", "args": [], "at": at})

        assert [score for score, _ in scheduled(redis)] == [at]

    def test_a_subclass_of_a_number_is_written_as_a_number(self, client, redis):
        class Float64(float):
            def __repr__(self):
                return f"np.float64({float(self)})"

        client.push({"class": "EchoJob", "args": [], "at": Float64(SOON + 0.5)})

        assert [score for score, _ in scheduled(redis)] == [SOON + 0.5]


class TestBulk:
    def test_jobs_run_in_the_order_of_their_arguments(self, client, redis):
        jids = client.push_bulk({"class": "EchoJob", "args": [[n] for n in range(2500)]})

        payloads = queued(redis)
        assert [payload["args"] for payload in payloads] == [[n] for n in range(2500)]
        assert [payload["jid"] for payload in payloads] == jids
        assert len(set(jids)) == 2500
        assert len({payload["created_at"] for payload in payloads}) == 1
        assert len({payload["enqueued_at"] for payload in payloads}) == 3  # of each thousand
        assert redis.smembers("queues") == {b"default"}

    @pytest.mark.parametrize(("interval", "width"), [(60, 60), (1, 5)])
    def test_spreading_gives_each_job_a_time_within_the_interval(
        self, client, redis, interval, width
    ):
        before = time.time()

        client.push_bulk(
            {"class": "EchoJob", "args": [[n] for n in range(50)], "spread_interval": interval}
        )

        times = [score for score, _ in scheduled(redis)]
        assert len(set(times)) == 50
        assert min(times) >= before
        assert max(times) <= time.time() + width
        assert max(times) - min(times) > width / 2
        assert "spread_interval" not in scheduled(redis)[0][1]

    def test_a_single_jobs_jid_is_drawn_anew(self, client, redis):
        [jid] = client.push_bulk({"class": "EchoJob", "args": [[1]], "jid": "mine"})

        assert jid != "mine"
        assert queued(redis)[0]["jid"] == jid

    def test_a_stopped_job_leaves_a_gap_in_the_answer(self, client, redis):
        client.middleware.add(
            lambda _class, payload, _queue, call_next: (
                None if payload["args"] == [1] else call_next()
            )
        )

        jids = client.push_bulk({"class": "EchoJob", "args": [[0], [1], [2]]})

        assert jids[1] is None
        assert [payload["jid"] for payload in queued(redis)] == [jids[0], jids[2]]


class TestMiddleware:
    def test_it_sees_class_payload_and_queue_and_may_change_the_payload(self, client, redis):
        seen = []

        def tenant(declared, payload, queue, call_next):
            seen.append((declared, payload["class"], queue))
            payload["tenant"] = "acme"
            return call_next()

        client.middleware.add(tenant)
        client.push({"class": "EchoJob", "args": []})

        assert seen == [("EchoJob", "EchoJob", "default")]
        [payload] = queued(redis)
        assert payload["tenant"] == "acme"
        assert list(payload)[-2:] == ["tenant", "enqueued_at"]

    def test_it_may_send_a_job_to_another_queue_or_time(self, client, redis):
        def later(_declared, payload, _queue, call_next):
            return call_next() | {"queue": "slow", "at": SOON}

        client.middleware.add(later)
        client.push({"class": "EchoJob", "args": []})

        [(score, payload)] = scheduled(redis)
        assert (score, payload["queue"]) == (SOON, "slow")
        assert "at" not in payload

    def test_for_many_jobs_it_is_called_for_each_with_its_own_payload(self, client, redis):
        seen = []

        def number(_class, payload, _queue, call_next):
            seen.append((payload["args"], payload.get("at")))
            payload["number"] = len(seen)
            return call_next()

        client.middleware.add(number)
        client.push_bulk({"class": "EchoJob", "args": [[1], [2]], "at": [SOON, SOON + 1]})

        assert seen == [([1], SOON), ([2], SOON + 1)]
        assert [(job["args"], job["number"]) for _, job in scheduled(redis)] == [([1], 1), ([2], 2)]

    def test_the_declared_job_is_what_it_sees_and_its_name_in_the_payload(self, echo, redis):
        seen, client = [], default_client()
        client.middleware.add(
            lambda declared, payload, queue, call_next: (
                seen.append((declared, payload["class"], queue)) or call_next()
            )
        )

        echo.set(queue="low").perform_in(60, 1)
        client.push_once([{"class": echo, "args": []}], ["event"])
        client.push_tick("s", SOON, [{"class": echo, "args": []}], by="test")

        assert seen == [(echo, "EchoJob", "low")] + [(echo, "EchoJob", "mailers")] * 2

    def test_an_error_of_it_is_the_callers_and_nothing_is_written(self, client, redis):
        def fail(*_args):
            raise LookupError("no tenant")

        client.middleware.add(fail)

        with pytest.raises(LookupError, match="no tenant"):
            client.push({"class": "EchoJob", "args": []})
        with pytest.raises(LookupError, match="no tenant"):
            client.push_bulk({"class": "EchoJob", "args": [[1], [2]]})
        assert keys(redis) == set()

    def test_stopping_a_push_writes_nothing_and_answers_none(self, client, redis):
        client.middleware.add(lambda *_: None)

        assert client.push({"class": "EchoJob", "args": []}) is None
        assert keys(redis) == set()

    @pytest.mark.parametrize(
        "change",
        [{"queue": ""}, {"queue": None}, {"args": "x"}, {"jid": None}, {"at": "soon"}, {"x": {1}}],
    )
    def test_what_it_makes_of_a_job_is_checked_too(self, client, redis, change):
        client.middleware.add(lambda _class, _payload, _queue, call_next: call_next() | change)

        with pytest.raises(PayloadError):
            client.push({"class": "EchoJob", "args": []})
        assert keys(redis) == set()


class TestRefused:
    @pytest.mark.parametrize(
        "item",
        [
            {"class": "EchoJob", "args": [object()]},
            {"class": "EchoJob", "args": [10**5000]},
            {"class": "EchoJob", "args": [], "tags": [dt.date(2030, 1, 1)]},
            {"class": "", "args": []},
            {"class": "EchoJob", "args": [], "at": 10**400},
            None,
        ],
    )
    def test_a_refused_job_leaves_redis_empty(self, client, redis, item):
        with pytest.raises(PayloadError):
            client.push(item)

        assert keys(redis) == set()

    @pytest.mark.parametrize(
        "bulk",
        [
            {"args": [[1], "x"]},
            {"args": [[1]] * 3 + [[object()]], "batch_size": 1},
            {"args": [[1]], "batch_size": 0},
            {"args": [[1]], "batch_size": True},
            {"args": [[1]], "spread_interval": "x"},
            {"args": [[1]], "queue": ""},
            {"args": {"a": 1}},
        ],
    )
    def test_one_wrong_job_of_many_leaves_redis_empty(self, client, redis, bulk):
        with pytest.raises(PayloadError):
            client.push_bulk({"class": "EchoJob", **bulk})

        assert keys(redis) == set()

    @pytest.mark.parametrize("kind", ["alike", "later", "middleware"])
    @pytest.mark.parametrize("fault", ["full", "lost"])
    def test_one_that_fails_on_its_way_says_which_jobs_are_in_redis(
        self, redis, redis_url, kind, fault
    ):
        pool = ThirdCallFails(redis_url, redis, fault)
        client = Client(pool=pool)
        bulk = {"class": "EchoJob", "args": [[n] for n in range(8)], "batch_size": 2}
        if kind == "later":
            bulk["at"] = SOON
        elif kind == "middleware":
            client.middleware.add(
                lambda _cls, item, _queue, call_next: item["args"][0] and call_next()
            )

        try:
            with pytest.raises(RedisUnavailable if fault == "full" else PushOutcomeUnknown) as told:
                client.push_bulk(bulk)
        finally:
            redis.config_set("maxmemory", 0)
            pool.close_all()

        error = told.value
        there = scheduled(redis) if kind == "later" else [(0, job) for job in queued(redis)]
        sent = {job["jid"]: job["args"][0] for _, job in there}
        in_doubt = {4, 5} if fault == "lost" else set()
        first = 1 if kind == "middleware" else 0  # the middleware stops the job of 0
        assert {jid: place for place, jid in {**error.pushed, **error.unknown}.items()} == sent
        assert set(error.pushed) == set(range(first, 4))
        assert set(error.unknown) == in_doubt
        assert set(error.not_pushed) == set(range(4, 8)) - in_doubt
        assert not set(error.not_pushed.values()) & set(sent)
        assert f"Of the {8 - first} jobs of this call {4 - first} are enqueued" in str(error)

    @pytest.mark.parametrize("item", [None, [], "EchoJob", 5])
    def test_a_bulk_that_is_no_object_is_refused(self, client, redis, item):
        with pytest.raises(PayloadError):
            client.push_bulk(item)


class TestSettings:
    def test_address_namespace_and_profile_come_from_the_environment(self, redis_url, monkeypatch):
        monkeypatch.setenv("MY_REDIS", redis_url)
        monkeypatch.setenv("REDIS_PROVIDER", "MY_REDIS")
        monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "env")
        monkeypatch.setenv("KIQBRIDGE_WIRE_PROFILE", "8")

        client = Client()

        assert repr(client) == f"Client({redis_url}, namespace='env:', profile='8')"

    def test_arguments_win_over_the_environment(self, redis_url, monkeypatch):
        monkeypatch.setenv("REDIS_URL", "redis://elsewhere:1/0")
        monkeypatch.setenv("KIQBRIDGE_NAMESPACE", "env")
        monkeypatch.setenv("KIQBRIDGE_WIRE_PROFILE", "8")

        client = Client(redis_url, namespace="", profile="7")

        assert repr(client) == f"Client({redis_url}, namespace='', profile='7')"

    def test_a_client_connects_when_it_first_pushes(self):
        assert repr(Client("redis://:s3cret@nowhere.invalid:6379/0")) == (
            "Client(redis://:***@nowhere.invalid:6379/0, namespace='', profile='7')"
        )
