"""Schedule expressions of EventBridge, examples with known dates; what is refused: tests/features/imports/test_eventbridge.py."""

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.cron import parse
from kiqbridge.schedule.cron_fields import ExpressionError


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def days_of(fields, year, month=None):
    """(month, day) of each day of the year (or days of its month) on which noon is due."""
    ticks = parse(f"cron(0 12 {fields})").between(utc(year, 1, 1), utc(year + 1, 1, 1))
    return [(t.month, t.day) if month is None else t.day for t in ticks if month in {None, t.month}]


def times_of(minutes, hours):
    """hh:mm of one day."""
    ticks = parse(f"cron({minutes} {hours} * * ? *)").between(
        utc(2026, 5, 3, 23, 59), utc(2026, 5, 4, 23, 59)
    )
    return clock(ticks)


def clock(ticks):
    return " ".join(f"{t:%H:%M}" for t in ticks)


class TestFields:
    def test_a_step_goes_on_to_the_end_of_the_field_and_ranges_may_wrap_and_years_be_a_list(self):
        """Examples; test_cron_oracle.py compares all forms with a second reading."""
        assert times_of("1/10", "7") == "07:01 07:11 07:21 07:31 07:41 07:51"
        assert times_of("0", "21-4/3") == "00:00 03:00 21:00"
        fridays_to_mondays = [day for day in range(1, 32) if day % 7 in {1, 2, 3, 4}]
        assert days_of("? * FRI-MON *", 2026, 5) == fridays_to_mondays
        assert days_of("1 NOV-FEB ? *", 2026) == [(1, 1), (2, 1), (11, 1), (12, 1)]
        years = parse("cron(0 0 1 1 ? 2026,2030-2031,2190/5)")
        ticks = years.between(utc(2020, 1, 1), utc(2300, 1, 1))
        assert [t.year for t in ticks] == [2026, 2030, 2031, 2190, 2195]

    def test_weekdays_count_from_one_for_sunday_and_names_have_any_case(self):
        assert days_of("? * 1 *", 2026, 5) == days_of("? * SUN *", 2026, 5) == [3, 10, 17, 24, 31]
        saturdays = [2, 9, 16, 23, 30]
        for text in ("7", "SAT", "L"):
            assert days_of(f"? * {text} *", 2026, 5) == saturdays
        assert days_of("? may Mon-wED *", 2026) == days_of("? MAY 2-4 *", 2026) != []


class TestDays:
    @pytest.mark.parametrize(
        ("fields", "days"),
        [
            ("L 1,3-4 ? *", [(1, 31), (3, 31), (4, 30)]),
            ("? 1-3 6L *", [(1, 30), (2, 27), (3, 27)]),
            ("? 1-3 FRIL *", [(1, 30), (2, 27), (3, 27)]),
            ("? 1-3 6#2 *", [(1, 9), (2, 13), (3, 13)]),
            ("? 1-3 FRI#2 *", [(1, 9), (2, 13), (3, 13)]),
            ("? * FRI#5 *", [(1, 30), (5, 29), (7, 31), (10, 30)]),
            ("LW 1-5 ? *", [(1, 30), (2, 27), (3, 31), (4, 30), (5, 29)]),
            ("15W 2 ? *", [(2, 16)]),  # a Sunday
            ("15W 8 ? *", [(8, 14)]),  # a Saturday
            ("1W 8 ? *", [(8, 3)]),  # never in another month
            ("31W 5 ? *", [(5, 29)]),
            ("31W 1-4 ? *", [(1, 30), (3, 31)]),
            ("1,15W,L 2 ? *", [(2, 1), (2, 16), (2, 28)]),
            ("? 2 1L,6L *", [(2, 22), (2, 27)]),
        ],
    )
    def test_special_days(self, fields, days):
        assert days_of(fields, 2026) == days

    def test_february_29_waits_for_a_leap_year(self):
        assert days_of("L 2 ? *", 2028) == [(2, 29)]
        assert parse("cron(0 0 29 2 ? *)").next_after(utc(2096, 3, 1)) == utc(2104, 2, 29)


class TestWhenThereIsNoneAnyMore:
    def test_a_date_that_never_comes_or_is_far_costs_little(self):
        began = time.thread_time()
        schedule = parse("cron(0 0 30 2 ? *)")
        assert schedule.next_after(utc(2026, 1, 1)) is None
        assert schedule.latest_at_or_before(utc(2026, 1, 1)) is None
        assert parse("cron(0 0 29 2 ? 2196)").next_after(utc(2026, 1, 1)) == utc(2196, 2, 29)
        assert time.thread_time() - began < 4

    def test_a_year_that_has_passed_has_a_latest_but_no_next(self):
        schedule = parse("cron(30 8 1 1 ? 2020)")

        assert schedule.next_after(utc(2026, 1, 1)) is None
        assert schedule.latest_at_or_before(utc(2026, 1, 1)) == utc(2020, 1, 1, 8, 30)

    @pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
    @pytest.mark.parametrize(
        "text", ["cron(0 0 * * ? *)", "rate(2 days)", "at(2150-06-01T00:00:00)"]
    )
    def test_the_ends_of_the_calendar_may_be_asked_about(self, text, zone):
        schedule = parse(text, zone, start=utc(2026, 1, 1))

        assert schedule.latest_at_or_before(datetime.min.replace(tzinfo=UTC)) is None
        assert schedule.next_after(datetime.max.replace(tzinfo=UTC)) is None
        assert schedule.next_after(datetime.min.replace(tzinfo=UTC)) < utc(2151, 1, 1)
        assert schedule.latest_at_or_before(datetime.max.replace(tzinfo=UTC)) > utc(2150, 1, 1)


class TestInstants:
    def test_between_leaves_out_its_start_and_includes_its_end_in_any_zone(self):
        ticks = parse("cron(0 * * * ? *)").between(utc(2026, 5, 4, 6), utc(2026, 5, 4, 8))
        assert list(ticks) == [utc(2026, 5, 4, 7), utc(2026, 5, 4, 8)]
        plus_two = timezone(timedelta(hours=2))
        tick = parse("cron(0 12 * * ? *)").next_after(datetime(2026, 5, 4, 13, tzinfo=plus_two))
        assert (tick, tick.tzinfo) == (utc(2026, 5, 4, 12), UTC)

    def test_naive_datetimes_are_refused_everywhere(self):
        naive = datetime(2026, 5, 4)  # noqa: DTZ001 - naive on purpose
        schedule = parse("cron(0 12 * * ? *)")

        for refused in (
            lambda: schedule.next_after(naive),
            lambda: schedule.latest_at_or_before(naive),
            lambda: schedule.between(naive, utc(2026, 5, 5)),
            lambda: schedule.between(utc(2026, 5, 4), naive),
            lambda: parse("rate(1 day)", start=naive),
            lambda: parse("rate(1 day)", end=naive),
        ):
            with pytest.raises(ExpressionError, match="has no time zone; pass an aware datetime"):
                refused()

    def test_equal_declarations_are_equal_and_keep_their_text_and_zone(self):
        schedule = parse("  cron( 5 6  * * ? * ) ", "Asia/Tokyo")
        assert (schedule.text, schedule.timezone) == ("  cron( 5 6  * * ? * ) ", "Asia/Tokyo")
        assert schedule.next_after(utc(2026, 5, 4)) == utc(2026, 5, 4, 21, 5)
        assert len({parse("cron(0 12 L * ? *)"), parse("cron(0 12 L * ? *)")}) == 1
        assert parse("cron(0 12 L * ? *)") != parse("cron(0 12 LW * ? *)")


class TestDaylightSaving:
    """The clocks of Paris go forward on 2026-03-29 at 02:00 and back on 2026-10-25 at 03:00."""

    @pytest.mark.parametrize(
        ("text", "start", "expected"),
        [
            # It keeps its hour; it does not exist on one day; it comes twice.
            ("cron(0 9 * * ? *)", utc(2026, 3, 28), [utc(2026, 3, 28, 8), utc(2026, 3, 29, 7)]),
            ("cron(30 2 * * ? *)", utc(2026, 3, 28, 12), [utc(2026, 3, 30, 0, 30)]),
            ("cron(30 2 * * ? *)", utc(2026, 10, 24, 12), [utc(2026, 10, 25, 0, 30)]),
        ],
    )
    def test_what_is_skipped_never_fires_and_what_is_repeated_fires_first(
        self, text, start, expected
    ):
        ticks = parse(text, "Europe/Paris").between(start, start + timedelta(hours=37))
        assert list(ticks) == expected


class TestRate:
    def test_without_a_start_it_knows_its_period_and_not_when_it_is_due(self):
        texts = ["rate(1 minute)", "rate(5 minutes)", "rate(1 hour)", "rate(2 days)"]
        assert [parse(text).period_s for text in texts] == [60, 300, 3600, 172_800]
        schedule = parse("rate(5 minutes)", end=utc(2030, 1, 1))
        for question in (
            lambda: schedule.next_after(utc(2026, 1, 1)),
            lambda: schedule.latest_at_or_before(utc(2026, 1, 1)),
            lambda: schedule.between(utc(2026, 1, 1), utc(2026, 1, 2)),
        ):
            with pytest.raises(
                ExpressionError, match=r"rate\(5 minutes\).*needs a StartDate.*no phase"
            ):
                question()


class TestAt:
    def test_a_single_time_is_read_on_the_wall_of_its_zone(self):
        schedule = parse("at(2027-01-31T09:00:30)", "America/New_York")
        due = utc(2027, 1, 31, 14, 0, 30)
        assert schedule.latest_at_or_before(due - timedelta.resolution) is None
        assert list(schedule.between(due - timedelta(days=1), due)) == [due]
        assert list(schedule.between(due, due + timedelta(days=1))) == []

    @pytest.mark.parametrize(
        ("time", "due"),
        [("2026-03-29T02:30:00", None), ("2026-10-25T02:30:00", utc(2026, 10, 25, 0, 30))],
    )
    def test_one_that_does_not_exist_never_comes_and_of_two_it_is_the_first(self, time, due):
        assert parse(f"at({time})", "Europe/Paris").next_after(utc(2026, 1, 1)) == due


class TestBounds:
    @pytest.mark.parametrize(
        ("text", "first", "last"),
        [
            ("cron(0 12 * * ? *)", utc(2026, 5, 4, 12), utc(2026, 5, 6, 12)),
            ("rate(1 day)", utc(2026, 5, 4, 12), utc(2026, 5, 6, 12)),
            ("at(2026-05-04T12:00:00)", utc(2026, 5, 4, 12), utc(2026, 5, 4, 12)),
        ],
    )
    def test_start_and_end_are_included_and_bound_every_kind(self, text, first, last):
        schedule = parse(text, start=first, end=last)

        assert schedule.next_after(utc(2020, 1, 1)) == first
        assert schedule.latest_at_or_before(utc(2030, 1, 1)) == last
        assert schedule.next_after(last) is None
        assert schedule.latest_at_or_before(first - timedelta.resolution) is None

    @pytest.mark.parametrize("text", ["cron(0 12 * * ? *)", "at(2026-05-04T12:00:00)"])
    def test_nothing_is_due_outside(self, text):
        for start, end in (
            (utc(2026, 5, 4, 12, 1), utc(2026, 5, 5, 11, 59)),
            (utc(2026, 5, 3, 12, 1), utc(2026, 5, 4, 11, 59)),
        ):
            schedule = parse(text, start=start, end=end)

            assert schedule.next_after(utc(2020, 1, 1)) is None
            assert schedule.latest_at_or_before(utc(2030, 1, 1)) is None

    @pytest.mark.parametrize(
        ("bounds", "told"),
        [
            ({"start": utc(2027, 1, 1), "end": utc(2026, 1, 1)}, "lies after the end"),
            ({"start": utc(1900, 1, 1)}, "not in the years 1970-2199"),
        ],
    )
    def test_bounds_that_cannot_be_are_refused(self, bounds, told):
        with pytest.raises(ExpressionError, match=told):
            parse("rate(1 day)", **bounds)


class TestErrors:
    def test_every_error_is_a_config_error_and_quotes_the_expression_or_the_zone(self):
        with pytest.raises(
            ConfigError, match=r"^schedule expression 'cron\(61 12 \* \* \? \*\)': minutes"
        ):
            parse("cron(61 12 * * ? *)")
        with pytest.raises(ConfigError, match=r"zone 'Europe/Pris' is unknown.*Europe/Paris"):
            parse("rate(1 day)", "Europe/Pris")

    @pytest.mark.parametrize("zone", ["", "Europe", "../etc/passwd", "/etc/passwd", "Mars/Olympus"])
    def test_what_is_no_zone_name_is_refused(self, zone):
        with pytest.raises(ExpressionError, match="is unknown; write a name of the IANA database"):
            parse("cron(0 12 * * ? *)", zone)
