"""Pushes of many tasks at the same time: one round trip, and each task gets its own answer."""

import asyncio
import json
import threading
from collections.abc import Sequence

import pytest

from kiqbridge import Client
from kiqbridge.errors import (
    PayloadError,
    PushNotReplicated,
    PushOutcomeUnknown,
    RedisRefused,
    RedisUnavailable,
)
from kiqbridge.store.replies import NotReplicated, ReplyLost

PLENTY_S = 60


class Pool:
    """Stands for the connections: keeps each round trip, waits while it is held, and fails as it is told."""

    def __init__(self) -> None:
        self.trips: list[list[list]] = []
        self.go_on = threading.Event()
        self.begun = threading.Event()
        self.error: Exception | None = None

    def run(self, *commands: Sequence, **_options: object) -> list:
        self.trips.append([list(command) for command in commands])
        self.begun.set()
        assert self.go_on.wait(PLENTY_S)
        if self.error is not None and len(self.trips) > 1:
            raise self.error
        return [1] * len(commands)

    def texts(self, trip: int) -> list[bytes]:
        return [
            text for command in self.trips[trip] if command[0] == "LPUSH" for text in command[2:]
        ]


@pytest.fixture
def pool():
    return Pool()


@pytest.fixture
def client(pool):
    client = Client("redis://nowhere.invalid:1/0", profile="7", max_payload_bytes=500)
    client.writer.pool = pool
    return client


def push_while_one_is_written(client, pool, items, *, cancel=()):
    """Push the first, and the others while its round trip is under way; what became of each."""

    async def push_all():
        tasks = [asyncio.create_task(client.apush({"class": "First", "args": []}))]
        await asyncio.to_thread(pool.begun.wait, PLENTY_S)
        tasks += [asyncio.create_task(client.apush(item)) for item in items]
        await asyncio.sleep(0)  # all of them wait now
        for place in cancel:
            tasks[1 + place].cancel()
        pool.go_on.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(push_all())


def jobs(count, args=lambda number: [number]):
    return [{"class": f"Nop{number % 2}", "args": args(number)} for number in range(count)]


def test_what_is_pushed_while_a_round_trip_is_under_way_goes_in_the_next_one(client, pool):
    outcomes = push_while_one_is_written(client, pool, jobs(100))

    payloads = [json.loads(text) for text in pool.texts(1)]
    assert len(pool.trips) == 2
    assert [payload["args"] for payload in payloads] == [[number] for number in range(100)]
    assert outcomes[1:] == [payload["jid"] for payload in payloads]
    assert all(payload["enqueued_at"] >= payload["created_at"] for payload in payloads)
    assert pool.trips[0][0] == ["SADD", "queues", "default"]
    assert [command[0] for command in pool.trips[1]] == ["LPUSH"]


def test_a_job_that_is_refused_before_redis_is_an_error_of_its_own_task(client, pool):
    outcomes = push_while_one_is_written(
        client, pool, jobs(3, lambda number: ["x" * 600 * (number == 1)])
    )

    assert len(pool.texts(1)) == 2
    assert isinstance(outcomes[2], PayloadError)
    assert all(isinstance(outcomes[place], str) for place in (0, 1, 3))


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (ReplyLost("no reply"), PushOutcomeUnknown),
        (NotReplicated("0 of 1 replicas", [1, 1]), PushNotReplicated),
    ],
)
def test_a_doubt_names_the_job_of_each_task(client, pool, cause, kind):
    pool.error = cause

    first, *outcomes = push_while_one_is_written(client, pool, jobs(3))

    assert isinstance(first, str)
    assert [type(each) for each in outcomes] == [kind] * 3
    assert [each.jid for each in outcomes] == [json.loads(text)["jid"] for text in pool.texts(1)]
    assert "more" not in str(outcomes[0])


def test_an_outage_is_an_error_of_each_task(client, pool):
    pool.error = RedisUnavailable("Redis is away")

    _, *outcomes = push_while_one_is_written(client, pool, jobs(3))

    assert [str(each) for each in outcomes] == ["Redis is away"] * 3
    assert len({id(each) for each in outcomes}) == 3  # each has a traceback of its own


@pytest.mark.usefixtures("own_jobs")
@pytest.mark.parametrize(("refused", "failed"), [([2], [1, 3]), ([0], [0, 1, 2, 3])])
def test_what_the_server_refuses_of_one_queue_concerns_its_jobs_alone(
    client, pool, refused, failed
):
    from kiqbridge import job

    @job(queue="low")
    def tidy() -> None: ...

    pool.error = RedisRefused("WRONGTYPE")
    pool.error.refused = refused
    items = [{"class": each, "args": []} for each in ("Nop", tidy) * 2]

    _, *outcomes = push_while_one_is_written(client, pool, items)

    assert [
        place for place, each in enumerate(outcomes) if isinstance(each, RedisRefused)
    ] == failed
    assert all(isinstance(each, str | RedisRefused) for each in outcomes)


def test_a_task_that_is_cancelled_while_it_waits_pushes_nothing(client, pool):
    outcomes = push_while_one_is_written(client, pool, jobs(4), cancel=[1, 2])

    assert [json.loads(text)["args"] for text in pool.texts(1)] == [[0], [3]]
    _, first, *cancelled, last = outcomes
    assert first and last
    assert [type(each) for each in cancelled] == [asyncio.CancelledError] * 2


def test_what_may_wait_for_more_than_a_round_trip_is_pushed_on_a_thread(client, pool):
    threads = []
    client.middleware.add(
        lambda _declared, _payload, _queue, call: (
            threads.append(threading.current_thread()) or call()
        )
    )
    pool.go_on.set()

    asyncio.run(client.apush({"class": "Nop", "args": []}))

    assert threads[0] is not threading.current_thread()
    assert len(pool.trips) == 1


def test_each_event_loop_has_a_line_of_its_own(client, pool):
    pool.go_on.set()

    for number in range(3):
        assert asyncio.run(client.apush({"class": "Nop", "args": [number]}))

    assert [json.loads(pool.texts(trip)[0])["args"] for trip in range(3)] == [[0], [1], [2]]
