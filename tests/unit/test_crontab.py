"""Crontab lines: the times that croniter finds, by the rules of Debian's cron; what is odd is refused."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kiqbridge.schedule.cron import parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import MACROS, parse_cron_line, parse_crontab

WEEKDAYS = ("sun", "MON", "tue", "wed", "THU", "fri", "sat")
MONTHS = ("jan", "FEB", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC")


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


SPRING = utc(2026, 3, 28)


def due(line, timezone="UTC", after=SPRING, count=5, read=parse_crontab):
    schedule, found = read(line, timezone), []
    while len(found) < count and (after := schedule.next_after(after)) is not None:
        found.append(after)
    return found


def field(low, high, names=()):
    """`*`, `*/n`, or a list; croniter and cron differ in a list that holds a `*`, and in a span 0-0."""
    number = st.integers(low, high).map(str)
    spans = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True).map(sorted)
    span = spans.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high - low).map(str)
    named = [st.sampled_from(names)] if names else []
    item = st.one_of(number, span, st.builds("{}/{}".format, span, step), *named)
    listed = st.lists(item, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), step.map("*/{}".format), listed)


lines = st.tuples(
    field(0, 59),
    field(0, 23),
    st.just("*") | field(1, 31),
    st.just("*") | field(1, 12, MONTHS),
    # croniter reads 7 at the end of a range otherwise than cron.
    st.just("*") | field(0, 6, WEEKDAYS),
).map(" ".join)


@settings(max_examples=150, deadline=None, database=None)
@given(lines, st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)))  # noqa: DTZ001 - walls
@example("0 0 1 * 1", datetime(2026, 1, 1))  # noqa: DTZ001
@example("0 0 */2 * 1", datetime(2026, 1, 1))  # noqa: DTZ001
@example("0 0 1,15 * */3", datetime(2026, 1, 1))  # noqa: DTZ001
@example("59 23 31 12 *", datetime(2026, 1, 1))  # noqa: DTZ001
def test_it_is_due_when_croniter_says(line, start):
    oracle = croniter(line, start, implement_cron_bug=True, max_years_between_matches=9)
    limit = start + timedelta(days=3000)
    wanted = list(
        itertools.islice(itertools.takewhile(lambda at: at < limit, oracle.all_next(datetime)), 5)
    )

    for read in (parse_crontab, parse_cron_line):
        found = due(line, after=start.replace(tzinfo=UTC), read=read)
        assert [at for at in found if at < limit.replace(tzinfo=UTC)] == [
            at.replace(tzinfo=UTC) for at in wanted
        ]


@pytest.mark.parametrize(
    ("line", "expression"),
    [
        ("0 3 * * *", "cron(0 3 * * ? *)"),
        ("*/5 9-17 * * 1-5", "cron(*/5 9-17 ? * MON-FRI *)"),
        ("0 0 * * 7", "cron(0 0 ? * SUN *)"),
        ("0 0 * * 5-7", "cron(0 0 ? * FRI-SUN *)"),
        ("0 0 * * fri-sun", "cron(0 0 ? * FRI-SUN *)"),
        ("0 0 * * sun-sun", "cron(0 0 ? * SUN *)"),
        ("0 0 31 * *", "cron(0 0 31 * ? *)"),
        ("0 0 1 jan *", "cron(0 0 1 1 ? *)"),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York"])
def test_it_is_due_as_the_same_of_eventbridge(line, expression, zone):
    there, after = parse(expression, zone), utc(2026, 1, 1)

    for found in due(line, zone, after=after, count=400):
        after = there.next_after(after)
        assert found == after


def test_the_clocks_go_by_scheduler_s_rule():
    assert due("30 2 * * *", "Europe/Paris", count=2) == [
        utc(2026, 3, 28, 1, 30),
        utc(2026, 3, 30, 0, 30),
    ]
    assert due("30 2 25 10 *", "Europe/Paris", count=1) == [utc(2026, 10, 25, 0, 30)]


@pytest.mark.parametrize("macro", MACROS)
def test_a_macro_is_its_line(macro):
    assert due(macro) == due(MACROS[macro])


@pytest.mark.parametrize(
    "line",
    [
        "CRON_TZ=Europe/Paris 0 3 * * *",
        "0 3 * * * Europe/Paris",
        "CRON_TZ=Europe/Paris 0 3 * * * /usr/bin/backup --all",
        "CRON_TZ=Europe/Paris 0 3 * * * bin/backup",
        "CRON_TZ=Europe/Paris @daily",
    ],
)
def test_a_line_may_name_its_zone_and_a_command(line):
    assert parse_crontab(line).timezone == "Europe/Paris"
    assert len(due(line)) == 5


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "is empty"),
        ("0 3 * *", "has 4 fields"),
        ("60 * * * *", "minute: '60' is out of range; allowed are 0-59"),
        ("* 24 * * *", "hour: '24' is out of range"),
        ("* * 0 * *", "day of month: '0' is out of range"),
        ("* * * 13 *", "month: '13' is out of range; allowed are 1-12 or JAN-DEC"),
        ("* * * * 8", "day of week: '8' is out of range"),
        ("* * * * FRI-MON", "runs backwards"),
        ("22-2 * * * *", "runs backwards"),
        ("5/10 * * * *", "write 5-59/10"),
        ("*/0 * * * *", "has a step which"),
        ("0 3 * * * a\n0 4 * * * b", "has 2 lines; give one of them"),
        ("a * * * *", "minute: 'A' cannot be read"),
        ("0 0 ? * 1", "day of month: '\\?' cannot be read"),
        ("0 0 L * *", "day of month: 'L' cannot be read"),
        ("0 0 3 * * *", "more than 5 fields: seconds and years"),
        ("@reboot", "@reboot is no time"),
        ("@often", "'@often' is none of @yearly"),
        ("TZ=Europe/Paris 0 3 * * *", "write CRON_TZ="),
        ("CRON_TZ=Europe/Pariss 0 3 * * *", "time zone 'Europe/Pariss' is unknown.*Europe/Paris"),
        ("0 3 * * * Europe/Pariss", "time zone 'Europe/Pariss' is unknown"),
    ],
)
def test_what_cannot_be_read_is_refused_by_field(line, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_crontab(line)


def test_a_step_beyond_its_range_leaves_the_first_value_as_in_cron():
    for read in (parse_crontab, parse_cron_line):
        found = read("*/100 */30 * * *").between(
            datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)
        )

        assert [each.isoformat() for each in found] == [
            "2026-01-02T00:00:00+00:00",
            "2026-01-03T00:00:00+00:00",
        ]
