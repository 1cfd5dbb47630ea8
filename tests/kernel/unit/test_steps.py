"""The list of steps on the way to an end: nothing that one does keeps the others from being taken."""

import logging

import pytest

from kiqbridge.runtime.steps import Steps


@pytest.mark.parametrize("error", [ValueError("away"), SystemExit(3), KeyboardInterrupt()])
def test_each_step_is_taken_whatever_the_ones_before_raised(caplog, error):
    def fail():
        raise error

    taken, steps = [], Steps(logging.getLogger("test"))

    steps.take(
        ("the first", lambda: taken.append(1)),
        ("the second", fail),
        ("the third", lambda: taken.append(3)),
    )

    assert taken == [1, 3]
    assert steps.failed == ["the second"]
    assert "the second failed, the process goes on" in caplog.text


def test_a_step_that_fails_again_and_again_is_logged_once_a_minute(caplog):
    steps = Steps(logging.getLogger("test"))
    for _ in range(100):
        steps.take(("looking", lambda: 1 // 0))
    assert caplog.text.count("looking failed") == 1
    assert steps.failed == ["looking"]
