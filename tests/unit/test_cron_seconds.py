"""Lines with a field of seconds, against a walk second by second."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from kiqbridge.schedule.expression import parse_expression

SECOND = timedelta(seconds=1)


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def walked(seconds, minutes, zone, start, end):
    """Each second after `start` up to `end` whose wall clock matches, at its first coming."""
    found, instant = [], start.replace(microsecond=0)
    while (instant := instant + SECOND) <= end:
        wall = instant.astimezone(zone)
        if wall.second in seconds and wall.minute in minutes and not wall.fold:
            found.append(instant)
    return found


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("UTC", utc(2026, 5, 4)),
        ("Europe/Paris", utc(2026, 3, 29, 1)),
        ("Europe/Paris", utc(2026, 10, 25, 1)),
        ("Australia/Lord_Howe", utc(2026, 4, 4, 15)),
    ],
)
def test_it_is_due_at_the_seconds_of_a_walk(zone, around, tell):
    rng, compared = random.Random(5), 0
    for _ in range(6):
        seconds = sorted(rng.sample(range(60), rng.randint(1, 4)))
        minutes = sorted(rng.sample(range(60), rng.randint(1, 9)))
        start = around - timedelta(seconds=rng.randrange(4000))
        end = around + timedelta(seconds=rng.randrange(4000))
        line = f"{','.join(map(str, seconds))} {','.join(map(str, minutes))} * * * *"
        schedule = parse_expression(line, zone)

        expected = walked(set(seconds), set(minutes), ZoneInfo(zone), start, end)

        assert list(schedule.between(start, end)) == expected
        for before, tick in zip([start, *expected], expected, strict=False):
            assert schedule.next_after(before) == tick
            assert schedule.latest_at_or_before(tick) == tick
            latest = schedule.latest_at_or_before(tick - timedelta.resolution)
            assert before in {latest, start}
        compared += len(expected)
    assert compared > 0
    tell(f"seconds in {zone}: {compared} times compared with a walk, second by second")


def test_seconds_of_zero_are_minutes():
    assert parse_expression("0 */5 * * * *").seconds == (0,)


def test_bounds_are_included():
    start, end = utc(2026, 1, 1, 0, 0, 20), utc(2026, 1, 1, 0, 0, 40)
    schedule = parse_expression("*/10 * * * * *", start=start, end=end)

    assert schedule.next_after(utc(2025, 1, 1)) == start
    assert [at.second for at in schedule.between(utc(2025, 1, 1), utc(2027, 1, 1))] == [20, 30, 40]
    assert schedule.latest_at_or_before(utc(2027, 1, 1)) == end
    assert schedule.latest_at_or_before(start - SECOND) is None
    assert schedule.next_after(end) is None


def test_what_never_comes_is_none():
    schedule = parse_expression("*/10 0 0 30 2 *")

    assert schedule.next_after(utc(2026, 1, 1)) is None
    assert schedule.latest_at_or_before(utc(2026, 1, 1)) is None
