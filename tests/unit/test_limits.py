"""Ending jobs on threads that run longer than they may."""

import contextlib
import threading
import time

import pytest

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.limits import Timekeeper


def wait_in_python(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        threading.Event().wait(0.001)


@pytest.fixture
def timekeeper():
    return Timekeeper()


def test_what_ends_in_time_is_left_alone(timekeeper):
    with timekeeper.limit(5):
        result = 42

    assert result == 42


def test_what_takes_longer_is_ended_and_told_why(timekeeper):
    began = time.monotonic()

    with pytest.raises(JobTimeout, match=r"longer than its timeout_s of 0\.05 s"):  # noqa: SIM117
        with timekeeper.limit(0.05):
            wait_in_python(30)

    assert time.monotonic() - began < 10


def test_each_thread_has_its_own(timekeeper):
    outcomes = {}

    def run(name, limit, takes):
        try:
            with timekeeper.limit(limit):
                wait_in_python(takes)
            outcomes[name] = "done"
        except JobTimeout:
            outcomes[name] = "late"

    threads = [
        threading.Thread(target=run, args=args)
        for args in (("short", 20, 0.01), ("late", 0.05, 20), ("later", 0.1, 20))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert outcomes == {"short": "done", "late": "late", "later": "late"}


def test_a_timeout_that_comes_at_the_last_instant_hits_no_later_job(timekeeper):
    for _ in range(200):
        with contextlib.suppress(JobTimeout), timekeeper.limit(0.002):
            wait_in_python(0.0019)
        wait_in_python(0.0005)  # the next job, without a limit: nothing may be raised here


def test_the_jobs_own_timeout_keeps_its_words(timekeeper):
    with pytest.raises(JobTimeout, match=r"^mine$"), timekeeper.limit(5):
        raise JobTimeout("mine")
