"""The log level of one job, beside threads and tasks that keep the worker's."""

import asyncio
import logging
import threading
from functools import partial

import pytest
from support.jobs import at_level
from support.waiting import at_once

from kiqbridge.runtime.logs.log_level import are_active, parse_level


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        if record.name.startswith("test_log_level."):  # threads of other tests may log, too
            self.lines.append(record.getMessage())


@pytest.fixture
def heard():
    """What the root's handler gets, with the root at info."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    handler = Heard()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    yield handler.lines
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def own_level():
    """A logger with a level of its own."""
    logger = logging.getLogger("test_log_level.own")
    yield logger
    logger.setLevel(logging.NOTSET)


APP = logging.getLogger("test_log_level.app")


def test_a_level_is_a_name_or_rubys_number():
    names = {"debug": 10, "INFO": 20, "warn": 30, "warning": 30, "error": 40, "fatal": 50}
    for value, level in {**names, 0: 10, 1: 20, 4: 50}.items():
        assert parse_level(value) == level
    for value in (5, -1, True, "loud", None, []):
        assert parse_level(value) is None


def test_a_lower_level_lets_any_logger_say_more_and_a_higher_less(heard):
    with at_level(logging.DEBUG):
        APP.debug("within")
    with at_level(logging.ERROR):
        APP.warning("warning")
        APP.error("error")
    APP.debug("after")
    APP.info("info after")
    assert heard == ["within", "error", "info after"]


def test_another_thread_keeps_the_usual_level(heard):
    with at_level(logging.DEBUG):
        at_once(lambda: (APP.debug("other"), APP.info("other's info")))
    assert heard == ["other's info"]


def test_two_jobs_at_once_have_each_their_own(heard):
    both = threading.Barrier(2)

    def job(level):
        with at_level(level):
            both.wait()
            APP.debug("debug at %d", level)
            APP.error("error at %d", level)
            both.wait()

    at_once(partial(job, 10), partial(job, 50))
    assert sorted(heard) == ["debug at 10", "error at 10"]


def test_tasks_on_one_loop_have_each_their_own(heard):
    async def job(level, mine, other):
        with at_level(level):
            mine.set()
            await other.wait()
            APP.debug("debug at %d", level)

    async def run():
        first, second = asyncio.Event(), asyncio.Event()
        await asyncio.gather(job(10, first, second), job(30, second, first))

    asyncio.run(run())

    assert heard == ["debug at 10"]


def test_a_logger_with_a_level_of_its_own_keeps_it_and_goes_on_elsewhere(heard, own_level):
    own_level.setLevel(logging.WARNING)
    with at_level(logging.DEBUG):
        own_level.info("chatter")
    own_level.setLevel(logging.DEBUG)
    with at_level(logging.DEBUG):
        at_once(lambda: own_level.debug("as usual"))
    own_level.debug("after")
    assert heard == ["as usual", "after"]


def test_nothing_remains_afterwards_but_a_level_that_somebody_sets_meanwhile(heard):
    root = logging.getLogger()

    def job(meanwhile):
        with at_level(logging.DEBUG):
            assert are_active()
            root.setLevel(meanwhile)
            _ = 1 / 0

    for level in (logging.INFO, logging.ERROR):
        with pytest.raises(ZeroDivisionError):
            job(level)
        assert root.level == level
        assert root.handlers[0].filters == []
        assert not are_active()
