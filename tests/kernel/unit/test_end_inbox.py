"""The inbox of the main loop: signals, requests and calls."""

import os
import pty
import signal
import sys

import pytest

from kiqbridge.dev.end_inbox import EndInbox


@pytest.fixture
def inbox():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = {number: signal.getsignal(number) for number in numbers}
    inbox = EndInbox()
    inbox.trap()
    yield inbox
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_ends_wakes_the_loop(inbox):
    os.kill(os.getpid(), signal.SIGTERM)

    inbox.wait(30)

    assert inbox.ending
    assert not inbox.take_request()


def test_usr1_asks_for_the_tables_once(inbox):
    os.kill(os.getpid(), signal.SIGUSR1)

    inbox.wait(30)

    assert inbox.take_request()
    assert not inbox.take_request()
    assert not inbox.ending


@pytest.mark.parametrize("open_ends", [os.pipe, pty.openpty])
def test_nobody_presses_a_key_of_a_pipe_or_of_a_terminal_that_is_not_ours(
    inbox, monkeypatch, open_ends
):
    ends = open_ends()
    reading, writing = ends if open_ends is os.pipe else reversed(ends)
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert not inbox.listen()
