"""Comparing old and new instants of imported schedules, above all where the clocks change."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.proving import sized
from support.template_rules import rule

from kiqbridge.dev.firing import ZoneCalendar, describe
from kiqbridge.features.imports.events import write_all
from kiqbridge.features.imports.gems import read_sidekiq_cron_file, read_sidekiq_scheduler
from kiqbridge.features.imports.record import ImportedSchedule, Reading
from kiqbridge.features.imports.verification import COMES_TWICE, MADE_UP, source_instants, verify
from kiqbridge.schedule.cron import parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.zone_changes import next_change

START = datetime(2026, 2, 1, tzinfo=UTC)


def imported(expression, zone="UTC", dialect="cron"):
    return ImportedSchedule(
        name="A",
        line=1,
        source=expression,
        expression=expression,
        timezone=zone,
        job={"class": "A", "args": []},
        dialect=dialect,
    )


def compare(old, new, zone="UTC", dialect="cron", days=400):
    parsed = [parse(text, zone) for text in ([new] if isinstance(new, str) else new)]
    return verify(imported(old, zone, dialect), parsed, start=START, days=days)


def test_the_same_instants_are_faithful():
    found = compare("30 9 * * 1-5", "cron(30 9 ? * MON-FRI *)", "Asia/Tokyo")

    assert (found.old, found.new, found.differences, found.is_faithful) == (285, 285, (), True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("30 9 * * 1-5", "cron(30 9 ? * 1-5 *)"),
        ("0 0 1 * *", "cron(0 0 2 * ? *)"),
        ("0 0 * * *", "cron(0 1 * * ? *)"),
        ("0 0 1 * 1", ["cron(0 0 ? * MON *)"]),
        ("0 22 * * *", []),
    ],
)
def test_other_instants_are_no_clock_change(old, new):
    assert not compare(old, new).is_faithful


def test_two_events_of_a_schedule_in_one_minute_are_enqueued_once():
    found = compare("0 0 1 * 1", ["cron(0 0 1 * ? *)", "cron(0 0 ? * MON *)"])

    assert found.is_faithful
    assert found.old == found.new


def test_clock_changes_are_named_by_their_rule():
    spring = compare("30 2 * * *", "cron(30 2 * * ? *)", "Europe/Paris")
    autumn = compare("*/20 2 * * *", "cron(*/20 2 * * ? *)", "Europe/Paris")

    assert [each.reason for each in spring.differences] == [MADE_UP]
    assert [each.reason for each in autumn.differences] == [COMES_TWICE] * 3
    assert spring.is_faithful
    assert autumn.is_faithful


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("* * * * *", "rate(1 minute)", "interval"),
        ("0 0 * * 1#2", "cron(0 0 ? * MON#2 *)", "day of week: '1#2' cannot be read"),
    ],
)
def test_what_is_not_compared(old, new, reason):
    assert reason in compare(old, new).not_compared


@pytest.mark.parametrize(
    ("text", "count"),
    [("@daily", 30), ("every 5 minutes", 8640), ("every monday at 9:00", 5)],
)
def test_macros_and_words_of_the_gems_are_compared_too(text, count):
    [schedule] = read_sidekiq_cron_file(f"a: {{cron: {text!r}, class: A}}", Reading()).schedules

    found = verify(schedule, [parse_expression(schedule.expression)], start=START, days=30)

    assert (found.not_compared, found.old, found.is_faithful) == ("", count, True)


@pytest.mark.parametrize(
    ("time", "reason"),
    [
        ("cron: '30 0 9 * * *'", "'30 0 9 * * *' has seconds; only whole minutes are compared"),
        ("at: '2027/01/02 10:00'", "it is due once, at the time that the source names"),
        ("every: 5m", "an interval counts from its own start on either side"),
    ],
)
def test_what_the_gems_say_otherwise_is_left_out_with_its_own_reason(time, reason):
    text = f"schedule: {{a: {{{time}, class: A}}}}"
    [schedule] = read_sidekiq_scheduler(text, Reading()).schedules
    parsed = [parse_expression(schedule.expression, schedule.timezone)]

    assert verify(schedule, parsed, start=START, days=30).not_compared == reason


FIELD = {
    "minute": st.sampled_from(["0", "*/15", "5,35", "10-50/20", "59"]),
    "hour": st.sampled_from(["*", "0", "1", "2", "3", "*/6", "9-17", "22,23"]),
    "date": st.sampled_from(["*", "1", "1,15", "28-31", "31", "1-7", "*/2", "13", "29"]),
    "month": st.sampled_from(["*", "1-3", "2", "*/4", "jun"]),
    "weekday": st.sampled_from(["*", "1-5", "0", "7", "mon,thu", "6", "*/2"]),
}
ZONES = st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Australia/Lord_Howe"])


@settings(max_examples=sized(full=1500, sample=40), deadline=None)
@given(st.tuples(*FIELD.values()).map(" ".join), ZONES)
def test_every_line_that_is_accepted_fires_as_before(line, zone):
    schedule = imported(line, zone)
    written, refused = write_all([schedule], is_dynamic=False)
    assume(not refused)

    found = verify(schedule, written[0].parsed, start=START, days=400)

    assert found.not_compared == ""
    assert found.is_faithful, found.differences
    offsets = {each.at for each in found.differences}
    assert all(instant.month in (3, 4, 10, 11) for instant in offsets)


@settings(max_examples=sized(full=600, sample=20), deadline=None)
@given(st.tuples(*FIELD.values()).map(" ".join), ZONES)
def test_every_line_fires_as_before_as_a_dynamic_schedule(line, zone):
    schedule = imported(line, zone)
    written, refused = write_all([schedule], is_dynamic=True)

    assert refused == []
    assert verify(schedule, written[0].parsed, start=START, days=400).is_faithful


def test_only_the_source_is_excused_by_a_clock_change():
    # 01:30 UTC is the second 02:30 of that night in Paris, at which Scheduler never fires.
    extra = parse("cron(30 1 25 10 ? 2026)", "UTC")
    right = parse("cron(0 12 1 1 ? *)", "Europe/Paris")
    schedule = imported("0 12 1 1 *", "Europe/Paris")

    assert verify(schedule, [right], start=START, days=400).is_faithful
    assert not verify(schedule, [right, extra], start=START, days=400).is_faithful


PARIS = "Europe/Paris"
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)


def fires(text, day, dialect="cron", zone=PARIS):
    window = day - timedelta(minutes=1), day + timedelta(hours=5)
    found = source_instants(text, zone, dialect, *window)
    return [f"{each:%H:%M}" for each in found]


EACH_HOUR = ["00:30", "01:30", "02:30", "03:30", "04:30"]


@pytest.mark.parametrize(
    ("text", "dialect", "spring", "autumn"),
    [
        ("30 2 * * *", "cron", ["01:00"], ["00:30"]),
        ("0,30 2 * * *", "cron", ["01:00", "01:00"], ["00:00", "00:30"]),
        ("0 3 * * *", "cron", ["01:00"], ["02:00"]),
        ("30 * * * *", "cron", EACH_HOUR, EACH_HOUR),
        ("*/30 2 * * *", "cron", [], ["00:00", "00:30", "01:00", "01:30"]),
        ("30 2 * * *", "fugit", [], ["00:30", "01:30"]),
    ],
)
def test_clock_changes_go_by_the_rule_of_the_program(text, dialect, spring, autumn):
    assert fires(text, SPRING, dialect) == spring
    assert fires(text, AUTUMN, dialect) == autumn


def test_half_an_hour_skipped_is_made_up_for():
    # Lord Howe: at 02:00 the clocks skip to 02:30, on 4 October 2026.
    day = datetime(2026, 10, 3, 13, tzinfo=UTC)

    assert fires("15 2 * * *", day, zone="Australia/Lord_Howe") == ["15:30"]


@pytest.mark.parametrize(
    ("text", "cron", "fugit"),
    [("0 0 1 * 1", 6, 6), ("0 0 */2 * 1", 2, 18), ("0 0 1-31/2 * 1", 18, 18)],
)
def test_both_day_fields_go_by_the_rule_of_the_program(text, cron, fugit):
    start = datetime(2026, 10, 31, 12, tzinfo=UTC)  # 1 November, and 30 days
    end = start + timedelta(days=30)

    def count(dialect):
        return len(source_instants(text, "UTC", dialect, start, end))

    assert (count("cron"), count("fugit")) == (cron, fugit)


def test_local_time_is_that_of_the_zone():
    end = SPRING + timedelta(days=3)
    found = source_instants("0 3 * * *", "Asia/Kolkata", "cron", SPRING, end)

    assert {each.astimezone(ZoneInfo("Asia/Kolkata")).hour for each in found} == {3}
    assert len(found) == 3


@pytest.mark.parametrize("text", ["0 0 L * *", "0 0 * * 1#2", "61 * * * *", "5-1 * * * *", "* * *"])
def test_other_fields_are_not_guessed(text):
    with pytest.raises(ExpressionError):
        source_instants(text, "UTC", "cron", SPRING, AUTUMN)


SUMMER = datetime(2026, 7, 1, tzinfo=UTC)
WINTER = datetime(2026, 1, 1, tzinfo=UTC)


def hour(change):
    return f"{change.before:%H:%M} {change.names[0]} is {change.after:%H:%M} {change.names[1]}"


class TestTheNextChange:
    @pytest.mark.parametrize(
        ("zone", "since", "instant", "hours"),
        [
            ("Europe/Paris", SUMMER, "2026-10-25T01:00:00", "03:00 CEST is 02:00 CET"),
            ("Europe/Paris", WINTER, "2026-03-29T01:00:00", "02:00 CET is 03:00 CEST"),
            ("America/New_York", SUMMER, "2026-11-01T06:00:00", "02:00 EDT is 01:00 EST"),
            ("Australia/Lord_Howe", SUMMER, "2026-10-03T15:30:00", "02:00 +1030 is 02:30 +11"),
        ],
    )
    def test_is_found_to_the_second(self, zone, since, instant, hours):
        change = next_change(zone, since)

        assert change.instant == datetime.fromisoformat(instant).replace(tzinfo=UTC)
        assert hour(change) == hours

    def test_lies_after_the_instant_and_is_none_where_the_clocks_stay(self):
        first = next_change("Europe/Paris", SUMMER)
        assert next_change("Europe/Paris", first.instant).instant.year == 2027
        for zone in ("UTC", "Asia/Tokyo"):
            assert next_change(zone, SUMMER) is None


class TestTheText:
    def test_names_the_rules_that_are_left_out_in_spring(self):
        rules = [
            rule("cron(30 2 * * ? *)", "Nightly", timezone="Europe/Paris"),
            rule("cron(0/20 * * * ? *)", "Often", timezone="Europe/Paris"),
            rule("cron(0 3 * * ? *)", "After", timezone="Europe/Paris"),
            rule("cron(30 2 * * ? *)", "Elsewhere"),
            rule("rate(10 minutes)", "Rate", timezone="Europe/Paris"),
            rule("cron(30 2 * * ? *)", "Disabled", timezone="Europe/Paris", enabled=False),
        ]

        assert describe(next_change("Europe/Paris", WINTER), rules) == (
            "Sun 2026-03-29 02:00 CET becomes 03:00 CEST: 02:00 to 03:00 does not exist; "
            "not due: Nightly (02:30), Often (3 times)"
        )

    def test_names_the_rules_that_come_once_in_autumn_or_that_there_are_none(self):
        change = next_change("Europe/Paris", SUMMER)
        rules = [rule("cron(0,30 2 * * ? *)", "Nightly", timezone="Europe/Paris")]
        assert describe(change, rules) == (
            "Sun 2026-10-25 03:00 CEST becomes 02:00 CET: 02:00 to 03:00 comes twice; "
            "due once, at the first coming: Nightly (02:00 and 02:30)"
        )
        text = describe(change, [rule("cron(30 2 * * ? *)")])
        assert text.endswith("comes twice; concerns no rule")


class TestTheCalendar:
    def test_has_each_change_once(self):
        calendar = ZoneCalendar(["Europe/Paris", "America/New_York", "Europe/Paris", "UTC"], SUMMER)
        end = datetime(2026, 11, 2, tzinfo=UTC)
        assert calendar.due(SUMMER) == []
        assert calendar.next_instant() == datetime(2026, 10, 25, 1, tzinfo=UTC)
        zones = [change.timezone for change in calendar.due(end)]
        assert zones == ["Europe/Paris", "America/New_York"]
        assert calendar.due(end) == []
        assert calendar.next_instant().month == 3
        spring = calendar.due(end + timedelta(days=160))
        assert [change.instant.month for change in spring] == [3, 3]

    def test_says_which_ones_are_near(self):
        calendar = ZoneCalendar(["Europe/Paris", "America/New_York"], SUMMER)

        near = calendar.near(datetime(2026, 10, 24, 1, tzinfo=UTC))

        assert [change.timezone for change in near] == ["Europe/Paris"]
        assert calendar.near(datetime(2026, 10, 24, tzinfo=UTC)) == []
