"""Times on the command line."""

from argparse import ArgumentTypeError
from datetime import UTC, datetime

import pytest

from kiqbridge.commands.arguments import moment
from kiqbridge.wire.amounts import count_text, instant_text, oldest_text, span_text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-28T00:30:00Z", datetime(2026, 3, 28, 0, 30, tzinfo=UTC)),
        ("2026-03-28T00:30+01:00", datetime(2026, 3, 27, 23, 30, tzinfo=UTC)),
        ("2026-03-28", datetime(2026, 3, 28, tzinfo=UTC)),
    ],
)
def test_what_is_read(text, expected):
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("soon", "'soon' is no ISO 8601 time"),
        (
            "0001-01-01T00:00+14:00",
            "'0001-01-01T00:00.14:00' is not in the years 1971-2198",
        ),
        ("9999-12-31", "is not in the years 1971-2198"),
        ("2026-03-28T00:30", "'2026-03-28T00:30' has no time zone"),
    ],
)
def test_what_is_refused(text, reason):
    with pytest.raises(ArgumentTypeError, match=reason):
        moment(text)


def test_instants():
    assert instant_text(datetime(2026, 3, 28, 0, 30, tzinfo=UTC)) == "2026-03-28T00:30:00Z"
    assert instant_text(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 s"),
        (-45, "45 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2 h"),
        (2 * 86_400, "2 days"),
        (365 * 86_400, "365 days"),
    ],
)
def test_spans(seconds, expected):
    assert span_text(seconds) == expected


@pytest.mark.parametrize(
    ("latency_s", "expected"),
    [
        (720, "the oldest for 12 min"),
        (-0.9, "the oldest for 0 s"),
        (-300, "the oldest is enqueued in 5 min"),
    ],
)
def test_what_waits_from_the_future_on_says_so(latency_s, expected):
    assert oldest_text(latency_s) == expected


def test_counts():
    assert count_text(1, "firing") == "1 firing"
    assert count_text(0, "firing") == "0 firings"
    assert count_text(2000, "firing") == "2,000 firings"
