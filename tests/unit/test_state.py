"""The state of a schedule beside its definition, as Redis keeps it."""

import pytest

from kiqbridge.schedule.state import SchedulePause, ScheduleState

PAUSE = SchedulePause(reason="a", by="b", at=1.5, until=9.0)


@pytest.mark.parametrize(
    "state",
    [
        ScheduleState(),
        ScheduleState(paused=SchedulePause()),
        ScheduleState(paused=PAUSE, skipped=(5, 60)),
    ],
)
def test_what_is_written_is_read_again(state):
    assert ScheduleState.from_text(state.to_text()) == state


def test_a_state_that_says_nothing_has_no_text():
    assert ScheduleState().to_text() == b""


def test_the_text_is_as_documented():
    assert ScheduleState(paused=PAUSE, skipped=(60,)).to_text() == (
        b'{"paused":{"reason":"a","by":"b","at":1.5,"until":9.0},"skipped":[60]}'
    )


@pytest.mark.parametrize(
    "text",
    [None, b"", b"x", b"[]", b'{"paused":1,"skipped":{}}', b'{"skipped":["1",true,1.5]}'],
)
def test_what_cannot_be_read_stops_nothing(text):
    assert ScheduleState.from_text(text) == ScheduleState()


def test_a_pause_is_over_at_its_end():
    state = ScheduleState(paused=PAUSE)

    assert state.pause_at(8.9) == PAUSE
    assert state.pause_at(9.0) is None
    assert ScheduleState(paused=SchedulePause(at=1.0)).pause_at(1e12) is not None
