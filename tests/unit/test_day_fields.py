"""The days of a month that two day fields name together."""

from kiqbridge.schedule.cron_fields import weekdays_of_month
from kiqbridge.schedule.crontab import DayFields

FEBRUARY_2026 = weekdays_of_month(2026, 2)  # begins on a Sunday


def test_without_restrictions_each_day_is_due():
    assert DayFields()(FEBRUARY_2026) == list(range(1, 29))


def test_both_or_either():
    both = DayFields(dates=(1, 2), weekdays=(2,))
    either = DayFields(dates=(1, 2), weekdays=(2,), joined="either")

    assert both(FEBRUARY_2026) == [2]
    assert either(FEBRUARY_2026) == [1, 2, 9, 16, 23]


def test_days_from_the_end_and_nth_weekdays():
    assert DayFields(dates=(31,), from_end=(1, 3))(FEBRUARY_2026) == [26, 28]
    nth = DayFields(weekdays=(), nth=((1, 2), (7, -1), (7, 5), (7, -5)))
    assert nth(FEBRUARY_2026) == [8, 28]
