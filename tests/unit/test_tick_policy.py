"""The policies that a tick may have."""

import math
from typing import get_args

import pytest

from kiqbridge.schedule.definition import Missed
from kiqbridge.wire.tick_mark import policy_faults

PLAIN = {"schedule": "shop/A", "at": "2026-11-20T02:00:00Z"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"missed": "alert"},
        {"missed": "last", "grace_s": 0, "max_age_s": 1.5, "overlap": "cancel"},
        {"missed": "all", "on_stale": "ignore"},
    ],
)
def test_these_are_some(more):
    assert list(policy_faults(PLAIN | more)) == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"missed": "newest"}, "missed: 'newest' is none of alert, last, all"),
        ({"overlap": None}, "overlap: None is none of allow, skip, cancel"),
        ({"grace_s": -1}, "grace_s: -1 is no number of seconds from 0"),
        ({"max_age_s": True}, "max_age_s: True is no number of seconds from 0"),
        ({"max_age_s": math.inf}, "max_age_s: inf is no number of seconds from 0"),
        ({"missed": []}, "missed: [] is none of alert, last, all"),
    ],
)
def test_what_is_none_is_named_with_what_is_allowed(more, says):
    assert list(policy_faults(PLAIN | more)) == [says]


def test_a_definition_has_the_same_policies():
    assert get_args(Missed) == ("alert", "last", "all")
