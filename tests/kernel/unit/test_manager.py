"""How all who perform jobs are stopped: in time, and with every job where somebody finds it."""

import threading
import time

import pytest
from support.jobs import own_declarations
from support.one_chunk import KEYS, Stand
from support.scripted_connection import ScriptedConnection
from support.waiting import wait_until

from kiqbridge.client.job import job
from kiqbridge.engine.manager import Manager
from kiqbridge.engine.settle.notifications import Notifications


class Busy:
    """A processor that runs `Waits`, with `Fails` before and `Runs` behind it."""

    def __init__(self):
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.ran = []

        @job(name="Waits")
        def waits():
            self.begun.set()
            self.may_end.wait(30)
            self.ran.append("Waits")

        @job(name="Fails")
        def fails():
            raise ValueError("no luck")

        @job(name="Runs")
        def runs():
            self.ran.append("Runs")

        self.stand = Stand("Fails", "Waits", "Runs")
        self.connection = ScriptedConnection()
        self.manager = Manager([self.stand.processor], [], self.connection, KEYS, Notifications())
        self.manager.start()
        assert self.begun.wait(30)


@pytest.fixture
def busy():
    with own_declarations():
        busy = Busy()
        yield busy
        busy.may_end.set()
        busy.stand.end()


def stop(busy, deadline):
    stopping = threading.Thread(target=busy.manager.stop, args=(deadline,), daemon=True)
    stopping.start()
    return stopping


def test_a_job_that_ends_in_time_is_waited_for_and_what_waits_behind_it_goes_back(busy):
    stopping = stop(busy, time.monotonic() + 60)
    busy.may_end.set()
    stopping.join(30)

    assert not stopping.is_alive()
    assert busy.ran == ["Waits"]
    fails, _, runs = busy.stand.texts
    assert busy.stand.connection.calls == [("give_back", [runs]), ("settle", [fails])]
    assert busy.connection.calls == []


def test_at_the_deadline_jobs_go_back_in_order_and_failures_are_written_before_all_is_acknowledged(
    busy,
):
    stopping = stop(busy, time.monotonic())
    wait_until(busy.stand.fetcher.acknowledged.is_set)
    fails, waits, runs = busy.stand.texts

    assert busy.connection.calls == [("give_back", [runs, waits]), ("settle", [fails])]
    busy.may_end.set()
    stopping.join(30)
    assert not stopping.is_alive()
    assert busy.ran in ([], ["Waits"])  # it was interrupted, unless it ended in that moment


def test_while_redis_is_away_everything_stays_in_flight(busy, caplog):
    busy.connection.down = busy.stand.connection.down = True

    stopping = stop(busy, time.monotonic())
    wait_until(lambda: "its jobs stay in flight" in caplog.text)
    busy.may_end.set()
    stopping.join(30)
    busy.stand.processor.join(30)

    assert not busy.stand.fetcher.acknowledged.is_set()
    assert busy.ran in ([], ["Waits"])
    assert not busy.stand.chunk.may_be_left()


def test_who_is_in_a_hurry_waits_for_no_deadline(busy):
    stopping = stop(busy, time.monotonic() + 600)

    busy.manager.hurry()
    wait_until(busy.stand.fetcher.acknowledged.is_set)
    busy.may_end.set()
    stopping.join(30)

    assert not stopping.is_alive()


def test_a_thread_that_does_not_come_back_is_replaced_and_its_jobs_go_back(busy):
    other = Stand("Runs")

    busy.manager.let_go(busy.stand.processor, other.processor)
    wait_until(other.fetcher.acknowledged.is_set)

    fails, waits, runs = busy.stand.texts
    assert busy.connection.calls == [("give_back", [runs, waits]), ("settle", [fails])]
    assert busy.stand.fetcher.acknowledged.is_set()
    assert busy.manager.processors == [other.processor]
    assert busy.ran == ["Runs"]
    other.end()


def test_an_operator_sees_how_many_are_busy(busy):
    assert repr(busy.manager) == "<Manager running, 1 of 1 busy>"
    busy.manager.quiet()
    assert repr(busy.manager) == "<Manager quiet, 1 of 1 busy>"
