"""What another thread has found out for one that looks for something again and again."""

import pytest

from kiqbridge.runtime.hints import Hint


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def hint(now):
    return Hint(lasts_s=8, monotonic=lambda: now[0])


def test_without_a_hint_a_look_is_needed(hint):
    assert not hint.is_fresh
    assert not hint.says_nothing


def test_a_hint_that_there_is_nothing_counts_for_some_seconds(hint, now):
    hint.give(is_some=False)

    now[0] += 7.9
    assert hint.is_fresh
    assert hint.says_nothing
    assert repr(hint) == "<Hint nothing>"
    now[0] += 0.2
    assert not hint.is_fresh
    assert not hint.says_nothing


def test_the_last_hint_counts(hint):
    hint.give(is_some=False)
    hint.give(is_some=True)

    assert hint.is_fresh
    assert not hint.says_nothing
    assert repr(hint) == "<Hint look>"
