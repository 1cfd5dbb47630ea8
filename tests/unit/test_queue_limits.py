"""`KIQBRIDGE_QUEUE_LIMITS`: its form, and which entry is about a queue."""

import pytest

from kiqbridge.config.queue_limits import DepthAction, QueueLimit, limit_of, parse_queue_limits
from kiqbridge.errors import ConfigError


def test_entries_are_read_in_their_order():
    assert parse_queue_limits("default=100000:reject, low=50:delay:60,m*=0:spill,", "HERE") == (
        QueueLimit(queues="default", most=100_000, action=DepthAction.REJECT),
        QueueLimit(queues="low", most=50, action=DepthAction.DELAY, delay_s=60),
        QueueLimit(queues="m*", most=0, action=DepthAction.SPILL),
    )


def test_nothing_is_no_limit():
    assert parse_queue_limits("", "HERE") == ()


@pytest.mark.parametrize(
    "wrong",
    [
        "default",
        "default=1",
        "default=x:reject",
        "default=-1:reject",
        "default=1:drop",
        "=1:reject",
        "default=1:delay",
        "default=1:delay:0",
        "default=1:delay:soon",
        "default=1:reject:60",
        "default=1:spill:60",
        "default = 1:reject",
    ],
)
def test_another_form_is_refused_with_the_right_one(wrong):
    with pytest.raises(
        ConfigError, match=r"(?s)queue_limits: .*\(from HERE\); write QUEUE=NUMBER:reject"
    ):
        parse_queue_limits(f"low=1:reject,{wrong}", "HERE")


def test_the_first_that_matches_counts():
    limits = parse_queue_limits("mail=1:reject,m*=2:reject", "HERE")

    assert [getattr(limit_of(limits, name), "most", None) for name in ("mail", "more", "low")] == [
        1,
        2,
        None,
    ]
