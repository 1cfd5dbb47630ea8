"""Jobs for which there is no room here: they wait in their queue, for whoever has room, and hold up no others."""

# ruff: noqa: PLR0917 - a test asks for its fixtures by name

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from support.engine import EngineProcess, in_flight
from support.jobs import own_declarations
from support.launched import launched
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.wire.queues import parse_queue

pytestmark = pytest.mark.any_server


class Jobs:
    """Declared jobs that end when the test says so."""

    def __init__(self):
        self.begun = []
        self.done = []
        self.may_end = threading.Event()
        self._lock = threading.Lock()

        @job(name="Holds")
        async def holds(number):
            self.begun.append(number)
            while not self.may_end.is_set():  # noqa: ASYNC110 - set on another thread
                await asyncio.sleep(0.005)
            self.done.append(number)

        @job(name="Short")
        async def short(number):
            await asyncio.sleep(0.005)
            self.done.append(number)

        @job(name="Plain")
        def plain(number):
            with self._lock:
                self.done.append(number)


@pytest.fixture
def jobs():
    with own_declarations():
        yield Jobs()


@pytest.fixture
def working(jobs, redis_url):
    @contextmanager
    def working(*queues, **settings):
        settings = {"concurrency": "3", "async_concurrency": "2", **settings}
        if queues:
            settings["queues"] = [parse_queue(each) for each in queues]
        with launched(redis_url, **settings) as launcher:
            try:
                yield launcher
            finally:
                jobs.may_end.set()

    return working


def push(client, name, numbers, **attributes):
    client.push_bulk({"class": name, "args": [[number] for number in numbers], **attributes})


def waiting(redis, queue="default"):
    """First arguments of the jobs of a queue, the next to run first."""
    texts = redis.lrange(f"queue:{queue}", 0, -1)[::-1]
    return [json.loads(text)["args"][0] for text in texts]


class TestJobsOfTheEventLoop:
    def test_what_cannot_begin_goes_back_in_its_order(self, working, jobs, client, redis):
        push(client, "Holds", range(12))

        with working(concurrency="1"):
            wait_until(lambda: jobs.begun == [0, 1])
            wait_until(lambda: waiting(redis) == list(range(2, 12)), what="the others wait there")
            assert len(in_flight(redis)) == 2
            jobs.may_end.set()
            wait_until(lambda: sorted(jobs.done) == list(range(12)))
            wait_until(lambda: not in_flight(redis))

    def test_an_idle_process_takes_what_another_has_no_room_for(self, working, jobs, client, redis):
        with working():
            push(client, "Holds", range(4))
            wait_until(lambda: len(jobs.begun) == len(waiting(redis)) == 2)
            with working():
                wait_until(lambda: sorted(jobs.begun) == [0, 1, 2, 3])
                jobs.may_end.set()
                wait_until(lambda: sorted(jobs.done) == [0, 1, 2, 3])
                wait_until(lambda: not in_flight(redis))

    @pytest.mark.parametrize("fetch", ["reliable", "basic"])
    @pytest.mark.parametrize("queue", ["higher", "lower"])
    def test_plain_jobs_of_other_queues_do_not_wait_for_them(
        self, working, jobs, client, redis, queue, fetch
    ):
        push(client, "Holds", range(20))

        with working("higher", "default", "lower", fetch=fetch):
            wait_until(lambda: len(jobs.begun) == 2)
            push(client, "Plain", range(100, 150), queue=queue)
            wait_until(lambda: sorted(jobs.done) == list(range(100, 150)), 20)

            assert len(jobs.begun) == 2
            wait_until(lambda: len(waiting(redis)) == 18)
            jobs.may_end.set()
            wait_until(lambda: len(jobs.done) == 70, 20)

    def test_plain_jobs_in_front_of_them_run(self, working, jobs, client, redis):
        push(client, "Holds", range(4))
        with working():
            wait_until(lambda: len(jobs.begun) == len(waiting(redis)) == 2)
            left = waiting(redis)
            texts = redis.lrange("queue:default", 0, -1)
            redis.delete("queue:default")
            push(client, "Plain", [100, 101])
            redis.lpush("queue:default", *texts[::-1])  # behind them

            wait_until(lambda: sorted(jobs.done) == [100, 101])
            wait_until(lambda: waiting(redis) == left)

    def test_a_class_that_is_spelled_in_another_way_holds_up_nobody_either(
        self, working, jobs, client, redis
    ):
        push(client, "Holds", range(2))
        with working("default", "lower"):
            wait_until(lambda: len(jobs.begun) == 2)
            text = json.dumps({"class": "Holds", "args": [2], "jid": "j2", "retry": True})
            odd = text.replace("Holds", "\\u0048olds")
            redis.lpush("queue:default", odd)
            push(client, "Plain", range(100, 120), queue="lower")

            wait_until(lambda: len(jobs.done) == 20)
            jobs.may_end.set()
            wait_until(lambda: len(jobs.done) == 23)
            wait_until(lambda: not in_flight(redis))

    def test_many_short_jobs_go_through_few_places(self, working, jobs, client, redis):
        push(client, "Short", range(400))

        with working(async_concurrency="20"):
            wait_until(lambda: len(jobs.done) == 400, 30)
            wait_until(lambda: not in_flight(redis))

        assert sorted(jobs.done) == list(range(400))
        assert redis.get("stat:processed") == b"400"


@pytest.fixture
def claimer(redis_url):
    with EngineProcess(redis_url) as process:
        yield process.claimer()


def texts(*names):
    return [json.dumps({"class": name, "n": n}).encode() for n, name in enumerate(names)]


def claimed(chunk):
    return None if chunk is None else (chunk.queue, list(chunk.waiting)[::-1])


class TestClaimingWithout:
    def test_the_jobs_before_the_first_of_such_a_class_are_taken(self, redis, claimer):
        jobs = texts("Plain", "Other", "Held", "Plain")
        redis.lpush("queue:default", *jobs)

        chunk = claimer.claim(["default"], 10, ["Held"])

        assert claimed(chunk) == ("default", jobs[:2])
        assert redis.lrange("queue:default", 0, -1) == jobs[:1:-1]

    def test_a_queue_whose_next_job_is_of_such_a_class_is_passed_over(self, redis, claimer):
        held, plain = texts("Held", "Plain")
        redis.lpush("queue:default", held, plain)
        redis.lpush("queue:low", plain)

        assert claimed(claimer.claim(["default", "low"], 10, ["No", "Held"])) == ("low", [plain])
        assert claimer.claim(["default", "low"], 10, ["Held"]) is None
        assert claimed(claimer.claim(["default", "low"], 10)) == ("default", [held, plain])

    @pytest.mark.parametrize(
        "text",
        [
            b'{"class":"Held"}',
            b'{ "class" :\t"Held" }',
            b'{"args":[{"class":"Plain"}],"class":"Held"}',
        ],
    )
    def test_however_the_text_is_laid_out(self, redis, claimer, text):
        redis.lpush("queue:default", text)

        assert claimer.claim(["default"], 10, ["Held"]) is None

    def test_another_class_whose_name_begins_alike_is_taken(self, redis, claimer):
        [text] = texts("HeldNot")
        redis.lpush("queue:default", text)

        assert claimed(claimer.claim(["default"], 10, ["Held"])) == ("default", [text])

    def test_a_repeated_claim_answers_the_same_chunk(self, redis, claimer):
        plain, held = texts("Plain", "Held")
        redis.lpush("queue:default", plain, held)
        claimer.connection.lose = {1}

        with pytest.raises(Exception, match="the reply was lost"):
            claimer.claim(["default"], 10, ["Held"])

        assert claimed(claimer.claim(["default"], 10, ["Held"])) == ("default", [plain])
