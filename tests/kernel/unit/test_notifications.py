"""The thread that calls error and death handlers."""

import sys
import threading

import pytest
from support.waiting import wait_until

from kiqbridge.engine.settle.notifications import Notifications


@pytest.fixture
def held():
    """An event that a handler waits for; set at the end in any case."""
    event = threading.Event()
    yield event
    event.set()


def test_calls_are_made_in_order_on_one_thread():
    notifications, heard = Notifications(), []

    for number in range(3):
        notifications.add(
            [lambda number=number: heard.append((number, threading.current_thread().name))]
        )
    notifications.stop(10)

    assert heard == [(number, "kiqbridge-handlers") for number in range(3)]


def test_whoever_adds_does_not_wait_for_a_handler(held):
    notifications, heard = Notifications(), []

    notifications.add([held.wait, lambda: heard.append("second")])

    assert notifications.waiting == 2
    assert heard == []
    held.set()
    wait_until(lambda: heard == ["second"])


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_handler_that_raises_ends_nothing(error, caplog):
    notifications, heard = Notifications(), []

    def fail():
        raise error

    notifications.add([fail, lambda: heard.append("next")])
    notifications.stop(10)

    assert heard == ["next"]
    assert "calling the handlers of a failed job failed" in caplog.text


def test_what_handlers_cannot_keep_up_with_is_dropped_and_counted(held, caplog):
    notifications, heard = Notifications(most=2), []
    begun = threading.Event()

    def wait():
        begun.set()
        held.wait()

    notifications.add([wait])
    assert begun.wait(10)
    for number in range(5):
        notifications.add([lambda number=number: heard.append(number)])

    assert notifications.dropped == 3
    assert caplog.text.count("too slow for the jobs that fail") == 1
    held.set()
    wait_until(lambda: heard == [0, 1])


def test_the_wait_for_a_handler_that_hangs_is_bounded(held, caplog):
    notifications, heard, begun = Notifications(), [], threading.Event()

    def wait():
        begun.set()
        held.wait()

    notifications.add([wait, lambda: heard.append("never")])
    assert begun.wait(10)

    notifications.stop(0.05)

    assert "2 calls were not made or are cut short" in caplog.text
    held.set()
    notifications.add([lambda: heard.append("too late")])
    assert notifications.dropped == 2
    assert heard == []


def test_the_error_of_a_call_is_not_kept_after_it():
    notifications = Notifications()
    token = object()
    before = sys.getrefcount(token)

    notifications.add([lambda token=token: None])

    wait_until(lambda: not notifications.waiting and sys.getrefcount(token) == before)
