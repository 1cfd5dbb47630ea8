"""Next, previous and between of random expressions are those of a brute-force walk, in all time zones."""

import bisect
import random
from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from support.brute_force import (
    due_by_brute_force,
    eventbridge_days,
    line_days,
    random_crontab_line,
    random_eventbridge,
    random_line,
)
from support.proving import sized

from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.expression import parse_expression

EXPRESSIONS = sized(full=1000, sample=40)
QUESTIONS = sized(full=100, sample=40)
YEARS = 5
SEED = 20_261_122
# Half an hour, two hours, a day that is left out, changes for Ramadan, a zone without whole hours or minutes.
ODD_ZONES = (
    *("Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "Pacific/Kwajalein"),
    *("Africa/Casablanca", "Asia/Kolkata", "Asia/Kathmandu", "Africa/Monrovia", "Europe/Dublin"),
    *("America/Caracas", "America/New_York", "Europe/Paris", "America/St_Johns", "Asia/Pyongyang"),
    *("Asia/Tehran", "America/Sao_Paulo", "Europe/Lisbon", "Antarctica/Casey", "UTC"),
)


@pytest.mark.parametrize(
    ("draw", "days_of", "read"),
    [
        (random_eventbridge, eventbridge_days, parse_expression),
        (random_line, line_days, parse_expression),
        (random_crontab_line, line_days, parse_crontab),
    ],
    ids=["eventbridge", "sidekiq-cron", "crontab"],
)
def test_next_previous_and_between_are_those_of_a_brute_force_walk(draw, days_of, read, tell):
    rng = random.Random(SEED)
    every_zone = sorted(available_timezones() - {"localtime"})
    occurrences = questions = empty = 0
    zones = set()
    for _ in range(EXPRESSIONS):
        text = draw(rng)
        zone = rng.choice((rng.choice(ODD_ZONES), rng.choice(every_zone)))
        year = rng.choice((rng.randint(1970, 2190), rng.randint(2008, 2030)))
        start = datetime(year, rng.randint(1, 12), 1, tzinfo=UTC)
        end = start + timedelta(days=YEARS * 365.25)

        expected = list(due_by_brute_force(*days_of(text), zone, start, end))
        parsed = read(text, zone)

        assert list(parsed.between(start, end)) == expected, (text, zone, start)
        for _ in range(QUESTIONS):
            instant = instant_in(rng, expected, start, end)
            questions += count_equal_around(parsed, expected, instant, (text, zone, instant))
        zones.add(zone)
        occurrences += len(expected)
        empty += not expected
    tell(
        f"brute force: {EXPRESSIONS} expressions in {len(zones)} zones over {YEARS} years each,"
        f" {occurrences} occurrences and {questions} questions for next and previous, all equal"
        f" ({empty} were never due)"
    )
    assert empty < EXPRESSIONS / 2


def instant_in(rng, expected, start, end):
    """Any instant, or one on or beside an occurrence."""
    if expected and rng.random() < 0.5:
        beside = (timedelta(0), timedelta.resolution, -timedelta.resolution, timedelta(minutes=-1))
        return min(max(rng.choice(expected) + rng.choice(beside), start), end)
    return start + rng.random() * (end - start)


def count_equal_around(parsed, expected, instant, case):
    """How many of next and previous there are within the years walked; both are as expected."""
    place = bisect.bisect_right(expected, instant)
    if place < len(expected):
        assert parsed.next_after(instant) == expected[place], case
    if place:
        assert parsed.latest_at_or_before(instant) == expected[place - 1], case
    return (place < len(expected)) + (place > 0)
