"""How many jobs are claimed at once."""

import math
import threading
from types import SimpleNamespace

import pytest

from kiqbridge.engine.perform import look_ahead
from kiqbridge.engine.perform.fetch import CHUNK_S, SHORT_S, next_size
from kiqbridge.engine.perform.look_ahead import SHARE_FOR_S, WAITED_S, PrefetchRevoker
from kiqbridge.engine.perform.wakeup import IdleGate


@pytest.mark.parametrize(
    ("size", "chunk_s", "longest_s", "full", "expected"),
    [
        (1, 0.001, 0.001, True, 2),
        (2, 0.001, 0.001, True, 4),
        (64, 0.001, 0.0001, True, 100),
        (100, 0.001, 0.0001, True, 100),
        (8, 0.001, 0.001, False, 8),
        (2, 0.021, 0.011, True, 4),
        (4, 0.042, 0.011, True, 4),
        (8, 0.031, 0.004, True, 8),
        (8, 0.061, 0.008, True, 4),
        (8, 0.061, 0.008, False, 4),
        (1, 0.061, 0.015, True, 1),
        (64, 0.030, 0.021, True, 1),
        (100, 5.0, 5.0, False, 1),
        (1, 0.0, 0.0, False, 1),
    ],
)
def test_the_next_size_follows_from_how_the_last_chunk_went(
    size, chunk_s, longest_s, full, expected
):
    assert next_size(size, chunk_s=chunk_s, longest_s=longest_s, full=full, limit=100) == expected


def test_a_job_of_just_twenty_milliseconds_is_short_and_a_limit_of_one_holds():
    assert next_size(4, chunk_s=CHUNK_S, longest_s=SHORT_S, full=True, limit=100) == 4
    assert next_size(4, chunk_s=0.021, longest_s=0.0201, full=True, limit=100) == 1
    assert next_size(1, chunk_s=0.0, longest_s=0.0, full=True, limit=1) == 1


@pytest.mark.parametrize(
    ("waiting", "runs_for_s", "after_s", "shares"),
    [
        (1, WAITED_S * 2, 0.0, True),
        (1, WAITED_S * 2, SHARE_FOR_S + 1, False),
        (1, WAITED_S / 2, 0.0, False),
        (0, WAITED_S * 2, 0.0, False),
        (1, -math.inf, 0.0, False),  # it waits for the run lock
    ],
)
def test_threads_share_for_a_while_after_a_job_has_waited_behind_a_long_one(
    monkeypatch, waiting, runs_for_s, after_s, shares
):
    revoker = PrefetchRevoker(None, None, None, None)
    gate = IdleGate(shares=lambda: revoker.shares)
    gate._idle = [threading.Lock(), threading.Lock()]
    chunk = SimpleNamespace(has_waiting=waiting, has_ended=True, returning=[])
    assert gate.sharers() == 0

    monkeypatch.setattr(look_ahead, "lease_now", lambda: 1000.0)
    revoker._look_at(SimpleNamespace(chunk=chunk, began_at=1000.0 - runs_for_s))
    monkeypatch.setattr(look_ahead, "lease_now", lambda: 1000.0 + after_s)

    assert gate.sharers() == 2 * shares
    gate._idle = []
    assert gate.sharers() == 0
