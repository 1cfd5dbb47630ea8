"""Several expressions of one schedule."""

from datetime import UTC, datetime

from kiqbridge.schedule.cron import Bounds, Union, parse
from kiqbridge.schedule.crontab import parse_crontab

PARTS = tuple(parse(text, "Europe/Paris") for text in ("cron(0 0 13 * ? *)", "cron(0 0 ? * FRI *)"))
EITHER = Union(text="13th or Friday", timezone="Europe/Paris", bounds=Bounds(), parts=PARTS)
LINE = parse_crontab("0 0 13 * 5", "Europe/Paris")
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2031, 1, 1, tzinfo=UTC)


def test_it_is_due_once_where_two_parts_are():
    due = list(EITHER.between(START, END))

    assert due == list(LINE.between(START, END))
    assert len(due) == len(set(due))


def test_next_and_latest_are_those_of_all_parts():
    for instant in LINE.between(START, datetime(2026, 6, 1, tzinfo=UTC)):
        assert EITHER.next_after(instant) == LINE.next_after(instant)
        assert EITHER.latest_at_or_before(instant) == instant


def test_parts_that_are_over_give_nothing():
    parts = (parse("at(2026-01-01T00:00:00)"), parse("at(2026-02-01T00:00:00)"))
    over = Union(text="twice", timezone="UTC", bounds=Bounds(), parts=parts)

    assert over.next_after(END) is None
    assert over.latest_at_or_before(datetime(2025, 1, 1, tzinfo=UTC)) is None
