"""The thread that acknowledges and settles jobs which have ended on an event loop, on a real server."""

import threading

import pytest
from support.engine import in_flight
from support.waiting import wait_until

from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.settle.bookkeeping import Bookkeeper
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.engine.settle.settling import Settler

JOBS = [b'{"class":"Mail","jid":"%d"}' % number for number in range(4)]


@pytest.fixture
def notifications():
    notifications = Notifications()
    yield notifications
    notifications.stop(10)


@pytest.fixture
def connection(process):
    return process.connect()


@pytest.fixture
def bookkeeper(process, connection, notifications):
    settler = Settler(process.keys)
    bookkeeper = Bookkeeper(connection, process.keys, settler, Outage(), notifications)
    yield bookkeeper
    bookkeeper.stop(10)


@pytest.fixture
def freed():
    return threading.Event()


@pytest.fixture
def chunk(redis, process, freed):
    """All jobs of it were handed over to the event loop, and its thread has left it."""
    redis.lpush("queue:default", *JOBS)
    chunk = process.claimer().claim(["default"], len(JOBS))
    chunk.share(freed.set)
    while chunk.take() is not None:
        chunk.hold()
        chunk.hand_over()
    chunk.leave()
    return chunk


def settlement(target, text, **details):
    return Settlement(target=target, score=1.0, text=text, counted=True, **details)


def test_jobs_that_succeeded_are_acknowledged_together_and_free_their_claimer(
    redis, chunk, connection, bookkeeper, freed
):
    for text in JOBS:
        bookkeeper.ended(chunk, text, None)
    before = connection.scripts
    bookkeeper.start()

    assert freed.wait(30)
    assert in_flight(redis) == []
    assert connection.scripts == before + 1


def test_a_claimer_is_not_free_while_one_of_its_jobs_runs(redis, chunk, bookkeeper, freed):
    for text in JOBS[1:]:
        bookkeeper.ended(chunk, text, None)
    bookkeeper.start()

    wait_until(lambda: in_flight(redis) == JOBS[:1])
    assert not freed.is_set()
    bookkeeper.ended(chunk, JOBS[0], None)
    assert freed.wait(30)


def test_handlers_are_called_after_the_failure_is_written(redis, chunk, bookkeeper):
    seen = []

    def notify():
        seen.append((redis.zrange("retry", 0, -1), in_flight(redis)))

    bookkeeper.ended(chunk, JOBS[0], settlement(Target.RETRY, JOBS[0], notify=notify))
    bookkeeper.start()

    wait_until(lambda: seen)
    assert seen == [([JOBS[0]], JOBS[1:])]


@pytest.mark.parametrize("target", [Target.RETRY, Target.DEAD, Target.SCHEDULE, Target.DISCARD])
def test_each_that_failed_is_settled_and_gone(redis, chunk, bookkeeper, freed, target):
    for text in JOBS:
        bookkeeper.ended(chunk, text, settlement(target, text))
    bookkeeper.start()

    assert freed.wait(30)
    kept = [] if target is Target.DISCARD else JOBS
    assert redis.zrange(target.value, 0, -1) == kept
    assert in_flight(redis) == []


def test_a_job_that_cannot_go_on_goes_back_to_its_queue_before_its_notification(
    redis, chunk, bookkeeper
):
    queues = []
    bookkeeper.start()

    bookkeeper.give_back(
        chunk, JOBS[0], lambda: queues.append(redis.lrange("queue:default", 0, -1))
    )

    wait_until(lambda: queues)
    assert queues == [[JOBS[0]]]
    assert in_flight(redis) == JOBS[1:]


def test_what_redis_does_not_take_is_written_once_it_is_back(
    redis, chunk, connection, bookkeeper, freed
):
    connection.down = True
    bookkeeper.start()
    for text in JOBS[:2]:
        bookkeeper.ended(chunk, text, None)
    for text in JOBS[2:]:
        bookkeeper.ended(chunk, text, settlement(Target.RETRY, text))

    assert not freed.wait(0.1)
    assert in_flight(redis) == JOBS
    connection.down = False

    assert freed.wait(30)
    assert redis.zrange("retry", 0, -1) == JOBS[2:]


def test_a_stop_while_redis_is_away_leaves_the_jobs_in_flight(
    redis, chunk, connection, bookkeeper, freed
):
    connection.down = True
    bookkeeper.start()
    bookkeeper.ended(chunk, JOBS[0], None)

    bookkeeper.stop(10)

    assert not bookkeeper.alive
    assert in_flight(redis) == JOBS
    assert not freed.is_set()


def test_a_stop_writes_what_has_ended_before(redis, chunk, bookkeeper):
    bookkeeper.start()
    for text in JOBS:
        bookkeeper.ended(chunk, text, None)

    bookkeeper.stop(10)

    assert in_flight(redis) == []


def test_an_error_that_nobody_expected_gives_back_the_jobs_that_it_concerns(
    redis, chunk, connection, bookkeeper, caplog
):
    errors = iter([RuntimeError("ours")])

    def fail_once():
        for error in errors:
            raise error

    connection.before_script = fail_once
    bookkeeper.start()

    bookkeeper.ended(chunk, JOBS[0], settlement(Target.RETRY, JOBS[0]))

    wait_until(lambda: redis.lrange("queue:default", 0, -1) == [JOBS[0]])
    assert redis.zcard("retry") == 0
    assert "what became of 1 jobs could not be written; they are given back" in caplog.text
