"""What another thread has found out for one that looks for something again and again."""

import pytest

from kiqbridge.runtime.hints import Hint


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def hint(now):
    return Hint(lasts_s=8, monotonic=lambda: now[0])


def test_a_hint_that_there_is_nothing_counts_for_some_seconds_or_until_another(hint, now):
    assert (hint.is_fresh, hint.says_nothing) == (False, False)
    hint.give(is_some=False)
    now[0] += 7.9
    assert (hint.is_fresh, hint.says_nothing) == (True, True)
    assert repr(hint) == "<Hint nothing>"
    now[0] += 0.2
    assert (hint.is_fresh, hint.says_nothing) == (False, False)
    hint.give(is_some=False)
    hint.give(is_some=True)
    assert (hint.is_fresh, hint.says_nothing) == (True, False)
    assert repr(hint) == "<Hint look>"
