"""Jobs whose time is over while they are in a function of ours."""

import time

from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.interruption import PENDING, Timekeeper
from support.stacks import running_threads

TIMEOUT_S = 0.1
LONG_S = 20.0


def again_and_again(call):
    until = time.monotonic() + LONG_S
    while time.monotonic() < until:
        call()


def is_ended(call):
    """Assert that a job which makes this call for `LONG_S` is ended soon after `TIMEOUT_S`."""

    def work():
        with Timekeeper().limit(TIMEOUT_S):
            call()

    began = time.monotonic()
    with running_threads() as run:
        state = run(work)
        state.thread.join(2 * LONG_S)

    assert type(state.error) is JobTimeout
    assert time.monotonic() - began < LONG_S / 2
    assert PENDING == {}
