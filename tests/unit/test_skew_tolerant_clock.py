"""The time by which waiting jobs begin, while a clock is wrong."""

import logging

import pytest

from kiqbridge.engine.skew_tolerant_clock import SkewTolerantClock

HOUR = 3600.0


class Clocks:
    def __init__(self, wall_offset=0.0, redis_offset=0.0):
        self.true = 1_000_000.0
        self.wall_offset = wall_offset
        self.redis_offset = redis_offset
        self.time = SkewTolerantClock(
            wall=lambda: self.true + self.wall_offset, steady=lambda: self.true - 500.0
        )

    def error(self, *, wall=None, redis=None, after=10.0):
        """How wrong the clock is, after such jumps."""
        self.wall_offset = self.wall_offset if wall is None else wall
        self.redis_offset = self.redis_offset if redis is None else redis
        self.true += after
        self.time.observe(self.true + self.redis_offset)
        return self.time.now() - self.true


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
@pytest.mark.parametrize("whose", ["wall", "redis"])
def test_one_clock_that_jumps_is_outvoted_and_welcome_back(whose, jump):
    clocks = Clocks()

    assert clocks.error() == pytest.approx(0)
    assert clocks.error(**{whose: jump}) == pytest.approx(0)
    assert clocks.error(after=HOUR) == pytest.approx(0)
    assert clocks.error(**{whose: 0.0}) == pytest.approx(0)
    assert clocks.error(**{whose: -jump}) == pytest.approx(0)


def test_both_clocks_set_together_are_believed():
    clocks = Clocks()
    clocks.error()

    assert clocks.error(wall=HOUR, redis=HOUR) == pytest.approx(HOUR)


@pytest.mark.parametrize(("wall", "redis"), [(-HOUR, 0.0), (0.0, -HOUR)])
def test_a_clock_that_is_behind_from_the_beginning_holds_nothing_up(wall, redis):
    assert Clocks(wall, redis).error() == pytest.approx(0)


def test_small_differences_are_followed_so_that_nothing_drifts():
    clocks = Clocks()
    clocks.error()

    for step in range(1, 100):
        assert clocks.error(wall=step / 10, redis=step / 10 + 0.5) == pytest.approx(
            step / 10, abs=0.51
        )


def test_before_redis_was_observed_it_is_this_machines_time():
    clocks = Clocks(wall_offset=5.0)

    assert clocks.time.now() - clocks.true == pytest.approx(5.0)


def test_it_warns_once_for_each_disagreement(caplog):
    clocks = Clocks()
    with caplog.at_level(logging.WARNING, "kiqbridge.engine.skew_tolerant_clock"):
        for wall in (0.0, HOUR, HOUR, 0.0, -HOUR):
            clocks.error(wall=wall)

    assert [record.args for record in caplog.records] == [(HOUR,), (-HOUR,)]
    assert "set both by NTP" in caplog.text
