"""Comparing old and new instants: clock changes are named, anything else is a difference."""

from datetime import UTC, datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.proving import sized

from kiqbridge.schedule.cron import parse
from kiqbridge.schedule.imports.events import write_all
from kiqbridge.schedule.imports.record import ImportedSchedule
from kiqbridge.schedule.imports.verification import COMES_TWICE, MADE_UP, verify

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


def test_an_interval_is_not_compared():
    assert "interval" in compare("* * * * *", "rate(1 minute)").not_compared


def test_what_is_no_line_of_five_fields_is_not_compared():
    assert "five fields" in compare("0 0 * * 1#2", "cron(0 0 ? * MON#2 *)").not_compared


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
