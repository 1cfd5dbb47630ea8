"""Writes that are repeated until Redis has confirmed them, and what is logged of an outage."""

import logging

import pytest

from kiqbridge.engine.inflight.outage import RETRY_S, SETTLING, Outage, retry_until_written
from kiqbridge.errors import RedisRefused, RedisUnavailable, Shutdown
from kiqbridge.runtime import threads
from kiqbridge.runtime.role import Troubles

AWAY = RedisUnavailable("Redis at somewhere cannot be reached")


class Attempts:
    """A write that ends as the test says, time after time; then it is written."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.count = 0

    def __call__(self):
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)
        return "written"


class Waits:
    """What waits between two attempts; it says to give up after so many times."""

    def __init__(self, most=100, meanwhile=lambda: None):
        self.most = most
        self.meanwhile = meanwhile
        self.seconds = []

    def __call__(self, seconds):
        self.seconds.append(seconds)
        self.meanwhile()
        return len(self.seconds) >= self.most


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.INFO, "kiqbridge")
    return lambda: [record.getMessage() for record in caplog.records]


def test_it_is_repeated_every_second_until_redis_is_back_and_else_waits_for_nothing(log):
    waits = Waits()
    assert retry_until_written(Attempts(), outage=Outage(), wait=waits) == "written"
    assert (waits.seconds, log()) == ([], [])
    write = Attempts(AWAY, AWAY, AWAY)
    assert retry_until_written(write, outage=Outage(), wait=waits) == "written"
    assert write.count == 4
    assert waits.seconds == [RETRY_S] * 3
    first, last = log()
    assert first == f"{AWAY}; trying again every second, running jobs go on"
    assert last.startswith("Redis is back after")


def test_an_outage_is_logged_once_for_all_who_write(log):
    outage = Outage()
    other = Attempts(AWAY, AWAY)

    def write_too():
        retry_until_written(other, outage=outage, wait=Waits())

    retry_until_written(
        Attempts(AWAY), outage=outage, wait=Waits(meanwhile=lambda: outage.report(AWAY, SETTLING))
    )
    assert len(log()) == 2
    write_too()

    assert [line.partition(";")[0].partition(" after")[0] for line in log()] == [
        str(AWAY),
        "Redis is back",
    ] * 2


def test_what_redis_refuses_is_repeated_too_and_is_a_trouble_until_it_is_written(log):
    write = Attempts(RedisRefused("WRONGTYPE retry"), RedisRefused("WRONGTYPE retry"))
    troubles, seen = Troubles(), []
    waits = Waits(meanwhile=lambda: seen.append(list(troubles)))

    assert retry_until_written(write, outage=Outage(troubles), wait=waits) == "written"

    told = f"{SETTLING} fails: WRONGTYPE retry"
    assert seen == [[told]] * 2
    assert list(troubles) == []
    assert log() == [
        f"{told}; it is tried again, and until then this worker is not ready",
        f"{SETTLING} works again",
    ]


def test_what_is_refused_to_one_is_not_over_when_another_one_succeeds():
    troubles = Troubles()
    outage = Outage(troubles)

    outage.report(RedisRefused("NOPERM"), "taking jobs of mail")
    outage.over("taking jobs of low")
    assert list(troubles) == ["taking jobs of mail fails: NOPERM"]
    outage.over("taking jobs of mail")

    assert list(troubles) == []


def test_it_is_given_up_when_the_process_ends_and_another_error_passed_on():
    for write, waits, error in (
        (Attempts(*[AWAY] * 5), Waits(most=2), Shutdown),
        (Attempts(AWAY, MemoryError()), Waits(), MemoryError),
    ):
        with pytest.raises(error):
            retry_until_written(write, outage=Outage(), wait=waits)
        assert write.count == 2


def test_a_thread_that_repeats_a_write_counts_as_alive():
    beats = []

    with threads.watched("writer") as state:
        retry_until_written(
            Attempts(AWAY, AWAY),
            outage=Outage(),
            wait=Waits(meanwhile=lambda: beats.append(state.beat_at)),
        )

    assert len(beats) == 2
    assert None not in beats
    assert beats[0] < beats[1]
