"""The time by which waiting jobs begin, while a clock is wrong."""

import logging

import pytest

from kiqbridge.engine.skew_tolerant_clock import Look, SkewTolerantClock

HOUR = 3600.0


class Clocks:
    def __init__(self, wall_offset=0.0, redis_offset=0.0):
        self.true = 1_000_000.0
        self.wall_offset = wall_offset
        self.redis_offset = redis_offset
        self.time = SkewTolerantClock(
            wall=lambda: self.true + self.wall_offset, steady=lambda: self.true - 500.0
        )

    def error(self, *, wall=None, redis=None, after=10.0, look=None):
        """How wrong the clock is, after such jumps."""
        self.wall_offset = self.wall_offset if wall is None else wall
        self.redis_offset = self.redis_offset if redis is None else redis
        self.true += after
        self.time.observe(self.true + self.redis_offset, look)
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


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_a_machine_that_starts_with_a_wrong_clock_goes_by_that_of_redis(ahead):
    clocks = Clocks(ahead)

    assert clocks.error() == pytest.approx(0)
    assert clocks.error(after=HOUR) == pytest.approx(0)
    assert clocks.error(redis=-ahead) == pytest.approx(0), "the one before is known by now"


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
def test_the_last_look_of_a_leader_shows_that_the_clock_of_redis_is_wrong(ahead):
    clocks = Clocks(redis_offset=ahead)

    assert clocks.error(look=Look(-ahead, "web-1:7:aaa")) == pytest.approx(0)
    assert clocks.error() == pytest.approx(0)
    assert clocks.time.ahead_of_redis_s == pytest.approx(-ahead)


def test_a_look_is_read_as_it_was_written():
    look = Look(-3600.25, "web-1:7:aaa")

    assert Look.from_text(look.to_text().encode()) == look
    assert Look.from_text(None) is Look.from_text(b"x y") is None


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


def test_it_warns_once_for_each_disagreement_and_names_the_clock_that_is_wrong(caplog):
    clocks = Clocks()
    with caplog.at_level(logging.WARNING, "kiqbridge.engine.skew_tolerant_clock"):
        for wall in (0.0, HOUR, HOUR, 0.0, -HOUR, 0.0):
            clocks.error(wall=wall)
        clocks.error(redis=HOUR)

    assert [record.args[0] for record in caplog.records] == [
        "the clock of this machine is 60 min ahead",
        "the clock of this machine is 60 min behind",
        "the clock of Redis is 60 min ahead",
    ]
    assert "(they agreed until now); scheduled jobs" in caplog.text


@pytest.mark.parametrize(
    ("look", "redis", "said"),
    [
        (None, 0.0, "this machine is 3 h ahead (no leader has compared them before, so Redis'"),
        (Look(0.1, "a:1:b"), 0.0, "this machine is 3 h ahead (as a:1:b found them, which led last"),
        (Look(3 * HOUR, "a:1:b"), -3 * HOUR, "Redis is 3 h behind (as a:1:b found them, which led"),
    ],
)
def test_at_the_start_it_says_by_which_clock_it_goes(caplog, look, redis, said):
    clocks = Clocks(0.0 if redis else 3 * HOUR, redis)
    with caplog.at_level(logging.WARNING, "kiqbridge.engine.skew_tolerant_clock"):
        clocks.error(look=look)

    assert f"the clock of {said}" in caplog.text
