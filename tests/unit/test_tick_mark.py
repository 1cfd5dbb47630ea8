"""What a job says about its schedule, and how its end is kept."""

import math

import pytest

from kiqbridge.wire.tick_mark import JobEnd, TickMark, policy_faults, tick_mark_of

PLAIN = {"schedule": "shop/A", "at": "2026-11-20T02:00:00Z"}


@pytest.mark.parametrize(
    "mark",
    [
        TickMark(schedule="shop/Nightly", at=1_700_000_000),
        TickMark(schedule="n", at=0, overlap="skip", max_age_s=600.0),
    ],
)
def test_a_mark_is_read_as_it_was_written(mark):
    assert tick_mark_of({"class": "A", "tick": mark.to_attribute()}) == mark


@pytest.mark.parametrize(
    "tick",
    [
        None, 7, "x", [], {}, {"schedule": "a"}, {"schedule": "", "at": 1}, {"schedule": "a", "at": 1.5},
        {"schedule": "a", "at": True}, {"schedule": "a" * 257, "at": 1}, {"schedule": 3, "at": 1},
        {"schedule": "a", "at": -1},
    ],
)  # fmt: skip
def test_what_is_no_mark_is_none(tick):
    assert tick_mark_of({"tick": tick}) is None


def test_a_mark_with_odd_options_is_a_plain_one():
    mark = tick_mark_of({"tick": {"schedule": "a", "at": 1, "overlap": "no", "max_age_s": "x"}})

    assert mark == TickMark(schedule="a", at=1)
    assert mark.is_plain


@pytest.mark.parametrize(
    "end",
    [
        JobEnd(at=1_700_000_000, jid="b4a5", outcome="done", ended_at=1_700_000_003.25, took_s=3.1),
        JobEnd(at=0, jid="j", outcome="dead", ended_at=5.0, error="OSError", retries=25),
    ],
)
def test_an_end_is_read_as_it_was_written(end):
    assert JobEnd.from_text(end.to_text()) == end


@pytest.mark.parametrize("text", [b"[]", b"{}", b"7", b"{", b'{"at":1,"jid":"a"}'])
def test_what_is_no_end_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        JobEnd.from_text(text)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"missed": "alert"},
        {"missed": "last", "grace_s": 0, "max_age_s": 1.5, "overlap": "cancel"},
        {"missed": "all", "on_stale": "ignore"},
    ],
)
def test_these_are_policies(more):
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
def test_what_is_no_policy_is_named_with_what_is_allowed(more, says):
    assert list(policy_faults(PLAIN | more)) == [says]
