"""A schedule of another form as EventBridge's expressions, and what AWS takes and refuses."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.proving import sized

from kiqbridge.features.imports.eventbridge import LONGEST_TEXT, eventbridge_expressions
from kiqbridge.schedule.cron import parse
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_crontab
from kiqbridge.schedule.expression import parse_expression


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def texts(text, timezone="UTC"):
    return eventbridge_expressions(parse_expression(text, timezone))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 3 * * *", "cron(0 3 * * ? *)"),
        ("0 3 * * 1-5", "cron(0 3 ? * MON-FRI *)"),
        ("*/5 9-17 * * *", "cron(*/5 9-17 * * ? *)"),
        ("*/7 * * * *", "cron(*/7 * * * ? *)"),
        ("10-50/10 8-18/2 * * *", "cron(10/10 8-18/2 * * ? *)"),
        ("0 0 1,15 */3 *", "cron(0 0 1,15 */3 ? *)"),
        ("0 0 31 DEC *", "cron(0 0 31 12 ? *)"),
        ("0 0 * * 0", "cron(0 0 ? * SUN *)"),
        ("0 0 * * 7", "cron(0 0 ? * SUN *)"),
        ("0 0 * * 6,0", "cron(0 0 ? * SUN,SAT *)"),
        ("0 0 * * 1,2,3,5", "cron(0 0 ? * MON-WED,FRI *)"),
        ("@hourly", "cron(0 * * * ? *)"),
        ("0 0 1-31 * 1", "cron(0 0 * * ? *)"),
        ("0 0 L * *", "cron(0 0 L * ? *)"),
        ("0 0 * * mon#2", "cron(0 0 ? * MON#2 *)"),
        ("0 0 * * fri#L", "cron(0 0 ? * FRIL *)"),
        ("0 5 1-7 * 1&", "cron(0 5 ? * MON#1 *)"),
        ("0 22-2 * * 5-7", "cron(0 0-2,22,23 ? * SUN,FRI,SAT *)"),
        ("every weekday at 9:30", "cron(30 9 ? * MON-FRI *)"),
        ("2027-01-31 09:00", "at(2027-01-31T09:00:00)"),
        ("2027-01-31T09:00:00+02:00", "at(2027-01-31T07:00:00)"),
        ("every 7m", "rate(7 minutes)"),
        ("every 60 seconds", "rate(1 minute)"),
        ("every 1h", "rate(1 hour)"),
        ("every 90m", "rate(90 minutes)"),
        ("every 1w", "rate(7 days)"),
        ("rate(120 minutes)", "rate(2 hours)"),
        (" cron(0 3 L * ? *) ", "cron(0 3 L * ? *)"),
        ("at(2027-01-31T09:00:00)", "at(2027-01-31T09:00:00)"),
    ],
)
def test_one_rule_says_the_same(text, expected):
    assert texts(text) == [expected]
    at = "at(2027-07-01T09:00:00)"
    assert texts(at, "Europe/Paris") == [at]  # on the wall


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("0 5 1-7 * 1", ["cron(0 5 ? * MON *)", "cron(0 5 1-7 * ? *)"]),
        ("0 0 13 * 5", ["cron(0 0 ? * FRI *)", "cron(0 0 13 * ? *)"]),
        ("0 0 1,2,10 * 1", ["cron(0 0 ? * MON *)", "cron(0 0 1,2,10 * ? *)"]),
    ],
)
def test_either_day_field_becomes_two_rules(line, expected):
    assert texts(line) == expected
    rules = [parse(text) for text in expected]
    assert_same(parse_crontab(line), rules, utc(2026, 1, 1), utc(2056, 1, 1))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every 30s", "seconds: a rate of 30 seconds is no number of whole minutes"),
        ("*/10 * * * * *", "seconds: it is due within a minute"),
        ("0 0 -2 * *", "day of month: '-2' counts from the end"),
        ("0 0 * * mon#-2", "day of week: 'MON#-2' counts from the end"),
        ("0 0 1-8 * 1&", "a day must be in both fields"),
        ("2026-10-25T01:30:00Z", "show this time twice, and the second one is meant"),
        ("0 0 */2 * 1", "a day must be in both fields, and EventBridge takes one of them"),
        ("at(2026-03-29T02:30:00)", "the clocks of Europe/Paris skip this time"),
    ],
)
def test_what_eventbridge_cannot_say_is_refused_with_its_reason(text, reason):
    with pytest.raises(ExpressionError, match=reason) as raised:
        texts(text, "Europe/Paris")

    assert text in str(raised.value)


def field(low, high):
    number = st.integers(low, high).map(str)
    spans = st.lists(st.integers(low, high), min_size=2, max_size=2, unique=True).map(sorted)
    span = spans.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high - low).map(str)
    item = st.one_of(number, span, st.builds("{}/{}".format, span, step))
    listed = st.lists(item, min_size=1, max_size=3).map(",".join)
    return st.one_of(st.just("*"), step.map("*/{}".format), listed)


WEEKS = st.sampled_from(["1-7", "8-14", "22-28", "29-31", "1-14", "1-28", "15"])
LINES = st.tuples(
    field(0, 59),
    field(0, 23),
    st.just("*") | WEEKS | field(1, 31),
    st.just("*") | field(1, 12),
    st.just("*") | field(0, 7),
).map(" ".join)


@settings(max_examples=sized(full=1000, sample=50), deadline=None, database=None)
@given(LINES, st.dates(datetime(2000, 1, 1).date(), datetime(2090, 1, 1).date()))  # noqa: DTZ001 - dates
@example("0 0 31 * 1", datetime(2026, 1, 1).date())  # noqa: DTZ001
@example("0 0 29-31 2 1", datetime(2026, 1, 1).date())  # noqa: DTZ001
def test_the_rules_of_a_line_are_due_when_it_is(line, day):
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    try:
        rules = [parse(text) for text in texts(line)]
    except ExpressionError as refused:
        assert "both fields" in str(refused)  # noqa: PT017 - either way
        return

    assert all(len(rule.text) <= LONGEST_TEXT for rule in rules)
    # Dates and times of day do not depend on one another: one time of each day is enough.
    assert_same(parse_crontab(line), rules, start, start + timedelta(days=3))
    days = parse_crontab(f"0 0 {line.split(None, 2)[2]}")
    at_midnight = [parse(f"cron(0 0 {rule.text.split(None, 2)[2]}") for rule in rules]
    assert_same(days, at_midnight, start, start + timedelta(days=1827))


FROM_THE_END = st.tuples(
    st.integers(0, 59).map(str),
    st.integers(0, 23).map(str),
    st.sampled_from(["*", "*/5", "1-7", "L", "-2", "15,L"]),
    st.just("*") | field(1, 12),
    st.sampled_from(["*", "*/3", "MON-FRI", "5-7", "MON#2", "5#-1,0", "SAT#L"]),
).map(" ".join)


@settings(max_examples=sized(full=1000, sample=50), deadline=None, database=None)
@given(FROM_THE_END, st.integers(1971, 2190))
@example("0 3 L * MON#2", 2026)
@example("0 3 15,L * SAT#L", 2026)
@example("0 3 * * 5#-1,0", 2026)
def test_the_rules_of_lines_with_days_from_the_end_and_nth_weekdays_are_due_when_they_are(
    line, year
):
    try:
        rules = [parse(text) for text in texts(line)]
    except ExpressionError:
        return

    assert_same(parse_expression(line), rules, utc(year, 1, 1), utc(year + 3, 1, 1))


def assert_same(schedule, rules, start, end):
    due = sorted({instant for rule in rules for instant in rule.between(start, end)})

    assert due == list(schedule.between(start, end))


TAKEN = [
    *("cron(0 10 * * ? *)", "cron(15 12 * * ? *)", "cron(0 18 ? * MON-FRI *)", "cron(0 8 1 * ? *)"),
    *("cron(0/15 * * * ? *)", "cron(0/10 * ? * MON-FRI *)", "cron(0/5 8-17 ? * MON-FRI *)"),
    *("cron(0/30 20-2 ? * MON-FRI *)", "cron(0 0 ? * 3#2 *)", "cron(0 0 3W * ? *)"),
    *("cron(0 0 L * ? *)", "cron(0 0 LW * ? *)", "cron(0 0 1W,15W * ? *)", "cron(0 0 L,15 * ? *)"),
    *("cron(0 0 31W * ? *)", "cron(0 0 ? * L *)", "cron(0 0 ? * 7L *)", "cron(0 0 ? * 6L *)"),
    *(
        "cron(0 0 ? * SUNL *)",
        "cron(0 0 ? * MON#2 *)",
        "cron(0 0 ? * 2#5 *)",
        "cron(0 0 ? * MON-FRI,SUN *)",
    ),
    *(
        "cron(5/15 * * * ? *)",
        "cron(59 23 31 12 ? *)",
        "cron(05 08 01 01 ? *)",
        "cron(0 0 * * ? 1970)",
    ),
    *("cron(0 0 * * ? 2199)", "cron(0 0 * * ? 2026-2030)", "cron(0 0 * * ? 2026/2)"),
    *("cron(0 0 1 JAN-DEC/2 ? *)", "cron(0 0 1 jan,Feb ? *)", "cron(0 0 ? * mon-fri *)"),
    *("cron(0 0 1 NOV-FEB ? *)", "cron(0 0 ? * FRI-MON *)", "cron(0-15/1 8-8 ? * 2,3,4,5,6,7 *)"),
    *("cron(30-30 13-13 ? * 2,4,6 *)", "cron(1-31/30 1-1 ? * 1,7 *)", "cron(0\t0 * * ? *)"),
    *("cron(0 0 30 2 ? *)", "cron(* * * * ? *)", "cron(*/59 * * * ? *)"),
    *(
        "rate(1 minute)",
        "rate(5 minutes)",
        "rate(1 hour)",
        "rate(24 hours)",
        "rate(1 day)",
        "rate(7 days)",
    ),
    *("at(2022-11-20T13:00:00)", "at(1970-01-01T00:00:00)", "at(2199-12-31T23:59:59)"),
]
REFUSED = [
    ("cron(0 0 L-3 * ? *)", "day-of-month: 'L-3' cannot be read", 10),
    ("cron(0 0 W * ? *)", "day-of-month: 'W' cannot be read", 10),
    ("cron(0 0 1-5W * ? *)", "day-of-month: '1-5W' cannot be read", 10),
    ("cron(0 0 WL * ? *)", "day-of-month: 'WL' cannot be read", 10),
    ("cron(0 0 6#2 * ? *)", "day-of-month: '6#2' cannot be read", 10),
    ("cron(0 0 0 * ? *)", "day-of-month: '0' is out of range", 10),
    ("cron(0 0 1,32 * ? *)", "day-of-month: '32' is out of range", 12),
    ("cron(0 0 ? * 2#6 *)", "day-of-week: '2#6' asks for a week", 14),
    ("cron(0 0 ? * 3#1,6#3 *)", "day-of-week: '3#1,6#3' has a # in a list", 14),
    ("cron(0 0 ? * MON#1,WED *)", "day-of-week: 'MON#1,WED' has a # in a list", 14),
    ("cron(0 0 ? * 0 *)", "day-of-week: '0' is out of range", 14),
    ("cron(0 0 ? * 8L *)", "day-of-week: '8L' is out of range", 14),
    ("cron(0 0 ? * -1 *)", "day-of-week: '-1' cannot be read", 14),
    ("cron(0 0 ? * MONDAY *)", "day-of-week: 'MONDAY' cannot be read", 14),
    ("cron(*/0 * * * ? *)", r"minutes: '\*/0' has a step", 6),
    ("cron(0/0 * * * ? *)", "minutes: '0/0' has a step", 6),
    ("cron(*/60 * * * ? *)", r"minutes: '\*/60' has a step", 6),
    ("cron(60 * * * ? *)", "minutes: '60' is out of range", 6),
    ("cron(0,15,75 * * * ? *)", "minutes: '75' is out of range", 11),
    ("cron(0 24 * * ? *)", "hours: '24' is out of range", 8),
    ("cron(0 ? * * ? *)", r"hours: '\?' cannot be read", 8),
    ("cron(0 0 1 0 ? *)", "month: '0' is out of range", 12),
    ("cron(0 0 1 JANUARY ? *)", "month: 'JANUARY' cannot be read", 12),
    ("cron(0 0 * * ? 1969)", "year: '1969' is out of range", 16),
    ("cron(0 0 * * ? 2200)", "year: '2200' is out of range", 16),
    ("cron(0 0 * * ? 2030-2026)", "year: '2030-2026' runs backwards", 16),
    ("  cron(0  61 * * ? *)", "hours: '61' is out of range", 11),
    ("cron(60 12 * * ? *)", "minutes: '60' is out of range; allowed are 0-59", 6),
    ("cron(0-60 12 * * ? *)", "minutes: '0-60' is out of range", 6),
    ("cron(? 12 * * ? *)", r"minutes: '\?' cannot be read", 6),
    ("cron(0/ 12 * * ? *)", "minutes: '0/' has a step .* from 1 to 59", 6),
    ("cron(0 -5 * * ? *)", "hours: '-5' cannot be read; allowed are 0-23", 8),
    ("cron(0 5- * * ? *)", "hours: '5-' cannot be read", 8),
    ("cron(0 1,,2 * * ? *)", "hours: '' cannot be read", 10),
    ("cron(0 +5 * * ? *)", r"hours: '\+5' cannot be read", 8),
    ("cron(0 ٣ * * ? *)", "hours: '٣' cannot be read", 8),
    ("cron(0 12 32W * ? *)", "'32W' is out of range; allowed are 1-31, L, LW, 15W", 11),
    ("cron(0 12 ?,1 * ? *)", r"day-of-month: '\?' cannot be read", 11),
    ("cron(0 12 * 13 ? *)", "month: '13' is out of range; allowed are 1-12 or JAN-DEC", 13),
    ("cron(0 12 ? * 8 *)", "'8' is out of range; allowed are 1-7 or SUN-SAT", 15),
    ("cron(0 12 ? * 6#0 *)", "day-of-week: '6#0' asks for a week which is not 1 to 5", 15),
    ("cron(0 12 ? * 15W *)", "day-of-week: '15W' cannot be read", 15),
]
REFUSED_AS_A_WHOLE = [
    ("cron(* * * * * *)", "exactly one of them has to be .*at characters 10 and 14"),
    ("cron(0 0 ? * ? *)", "exactly one of them has to be"),
    ("cron(0 0 1 * MON *)", "exactly one of them has to be"),
    ("cron(0 12 ? * ?  *)", "exactly one of them has to be"),
    ("cron(0 12 * * ? *", r"is none of cron\(.*rate\(.*at\("),
    ("", "is none of cron"),
    ("cron (0 12 * * ? *)", "is none of cron"),
    ("rate(0 days)", "write a whole number above 0"),
    ("rate(99999999 days)", "take a smaller"),
    ("at(2027-02-20)", "write it as"),
    ("at(1969-12-31T23:59:59)", "is not a time from 1970 to 2199"),
    ("cron(15 12 * * 0)", "has 5 fields, as a crontab line has; EventBridge wants 6"),
    ("cron(0 0 10 * * ? *)", "has 7 fields"),
    ("cron()", "has 0 fields"),
    ("0 10 * * ? *", "is none of cron"),
    ("CRON(0 10 * * ? *)", "is none of cron"),
    ("rate(0 minutes)", "write a whole number above 0"),
    ("rate(-1 minutes)", "write a whole number above 0"),
    ("rate(1.5 hours)", "write a whole number above 0"),
    ("rate(1 minutes)", "unit 'minutes' does not fit 1; write 1 minute"),
    ("rate(01 minutes)", "write 1 minute"),
    ("rate(2 minute)", "unit 'minute' does not fit 2; write 2 minutes"),
    ("rate(30 seconds)", "minutes, hours or days"),
    ("rate(1 week)", "minutes, hours or days"),
    ("rate(5minutes)", "write a whole number above 0"),
    ("rate(5)", "write a whole number above 0"),
    ("at(2022-11-20T13:00:00Z)", "write it as yyyy-mm-ddThh:mm:ss"),
    ("at(2022-11-20T13:00:00+01:00)", "write it as"),
    ("at(2022-11-20T13:00:00.5)", "write it as"),
    ("at(2022-11-20 13:00:00)", "write it as"),
    ("at(2022-11-20T13:00)", "write it as"),
    ("at(2022-02-30T13:00:00)", "write it as"),
    ("at(2022-11-20T24:00:00)", "write it as"),
    ("at(2200-01-01T00:00:00)", "is not a time from 1970 to 2199"),
]


@pytest.mark.parametrize("text", TAKEN)
def test_what_aws_takes_is_taken(text):
    assert parse(text).text == text


@pytest.mark.parametrize(("text", "reason", "character"), REFUSED)
def test_what_aws_refuses_is_refused_with_field_value_and_place(text, reason, character):
    with pytest.raises(ExpressionError, match=rf"{reason}.*\(at character {character}\)$"):
        parse(text)


@pytest.mark.parametrize(("text", "reason"), REFUSED_AS_A_WHOLE)
def test_what_has_a_wrong_form_is_refused_with_the_right_one(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse(text)


def test_counts(tell):
    tell(f"EventBridge: {len(TAKEN)} texts taken, {len(REFUSED) + len(REFUSED_AS_A_WHOLE)} refused")
