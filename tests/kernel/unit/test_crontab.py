"""Crontab lines: what croniter reads is placed as recorded; what is odd is refused; sidekiq-cron's forms beside cron's."""

from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from support.processes import run_python

from kiqbridge.schedule.cron_fields import ExpressionError, weekdays_of_month
from kiqbridge.schedule.crontab import DayFields, parse_crontab
from kiqbridge.schedule.expression import parse_expression

READ = {"crontab": parse_crontab, "line": parse_expression}
FEBRUARY_2026 = weekdays_of_month(2026, 2)  # begins on a Sunday
MINUTE = timedelta(minutes=1)
HEAD, *RECORDED = [
    row.split("\t")
    for row in Path(__file__).with_name("crontab_runs.tsv").read_text("utf-8").splitlines()
]
"""Runs of the engine before croniter, which read the fields itself, by zone and change of its clocks.

Minutes from 26 hours before the change to the next run, from it to the next, and so on; the last number is from the
last run up to 50 minutes after the change to the change itself.
"""


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


def runs(schedule, change):
    start = change - timedelta(hours=26)
    ticks = list(islice(schedule.between(start, start + timedelta(days=9000)), 4))
    last = schedule.latest_at_or_before(change + 50 * MINUTE)
    if last is None:
        return ""
    gaps = [tick - before for before, tick in zip([start, *ticks], ticks, strict=False)]
    return " ".join(f"{gap / MINUTE:g}" for gap in [*gaps, change - last])


@pytest.mark.parametrize(("line", "readers", "recorded"), [(*row[:2], row[2:]) for row in RECORDED])
def test_it_runs_as_recorded_at_changes_of_the_clocks(line, readers, recorded):
    for reader in readers.split("+"):
        for column, wanted in zip(HEAD[2:], recorded, strict=True):
            zone, at = column.split()
            change = datetime.fromisoformat(at).replace(tzinfo=UTC)
            assert runs(READ[reader](line, zone), change) == wanted, (reader, column)


@pytest.mark.parametrize(("place", "low", "high"), [(1, 0, 23), (3, 1, 12), (4, 0, 7)])
def test_each_range_and_step_has_the_values_of_cron(place, low, high):
    """Counted one by one: croniter takes 5-5 for the whole field, and goes on wrongly from 23-5/2."""
    for first in range(low, high + 1):
        for last in range(low, high + 1):
            for step in (1, 2, 3, 5, 7, 30):
                words = ["0", "0", "*", "*", "*"]
                words[place] = f"{first}-{last}/{step}" if step > 1 else f"{first}-{last}"
                if first <= last:
                    counted = range(first, last + 1, step)
                elif place < 4:
                    counted = [*range(first, high + 1), *range(low, last + 1)][::step]
                else:
                    continue  # refused with a step
                fields = parse_expression(" ".join(words)).fields
                weekdays = [day - 1 for day in fields.day_rules[0].weekdays]
                found = {1: fields.hours, 3: fields.months, 4: weekdays}[place]
                assert set(found) == {each % 7 if place == 4 else each for each in counted}, words


def test_croniter_is_loaded_by_the_first_line_and_by_nothing_else():
    script = (
        "import sys\n"
        "from kiqbridge.schedule.expression import parse_expression\n"
        "parse_expression('cron(0 3 * * ? *)'), parse_expression('every 5m')\n"
        "assert 'croniter' not in sys.modules\n"
        "parse_expression('0 3 * * *')\n"
        "assert 'croniter' in sys.modules"
    )
    run_python(script)


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
    assert parse_crontab(line).next_after(utc(2026, 3, 28)) is not None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "has 0 fields; write 5"),
        ("0 3 * *", "has 4 fields"),
        ("60 * * * *", "minute: '60' is out of range; allowed are 0-59"),
        ("* 24 * * *", "hour: '24' is out of range"),
        ("* * 0 * *", "day of month: '0' is out of range"),
        ("* * * 13 *", "month: '13' is out of range; allowed are 1-12 or JAN-DEC"),
        ("* * * * 8", "day of week: '8' is out of range"),
        ("* * * * FRI-MON", "runs backwards"),
        ("R * * * *", "minute: 'R' cannot be read"),
        ("22-2 * * * *", "runs backwards"),
        ("5/10 * * * *", "write 5-59/10"),
        ("*/0 * * * *", "has a step which"),
        ("0 3 * * * a\n0 4 * * * b", "has 2 lines; give one of them"),
        ("a * * * *", "minute: 'A' cannot be read"),
        ("0 0 ? * 1", "'\\?' .at character 5. is EventBridge's"),
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


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("L * *", "01-31 02-28 03-31"),
        ("last * *", "01-31 02-28 03-31"),
        ("-1 * *", "01-31 02-28 03-31"),
        ("-2 * *", "01-30 02-27 03-30"),
        ("-3-L * *", "01-29 01-30 01-31 02-26 02-27 02-28 03-29 03-30 03-31"),
        ("-3--2 * *", "01-29 01-30 02-26 02-27 03-29 03-30"),
        ("15,L * *", "01-15 01-31 02-15 02-28 03-15 03-31"),
        ("-31 * *", "01-01 03-01"),
        ("* * mon#2", "01-12 02-09 03-09"),
        ("* * 1#2", "01-12 02-09 03-09"),
        ("* * FRI#L", "01-30 02-27 03-27"),
        ("* * fri#-1", "01-30 02-27 03-27"),
        ("* * 5#-2", "01-23 02-20 03-20"),
        ("* * fri#5", "01-30"),
        ("* * 7#1", "01-04 02-01 03-01"),
        ("1-7 * 1&", "01-05 02-02 03-02"),
        ("1-7& * 1", "01-05 02-02 03-02"),
        ("30-2 2 *", "02-01 02-02"),
        ("* 3 sat-sun", "03-01 03-07 03-08 03-14 03-15 03-21 03-22 03-28 03-29"),
        ("1 dec-feb *", "01-01 02-01"),
    ],
)
def test_days_as_fugit_writes_them(fields, expected):
    found = parse_expression(f"0 0 {fields}").between(
        utc(2025, 12, 31, 23, 59), utc(2026, 3, 31, 1)
    )

    assert " ".join(f"{at:%m-%d}" for at in found) == expected


@pytest.mark.parametrize(
    ("line", "zone"),
    [
        ("0 3 * * *", "Asia/Kolkata"),
        ("0 3 * * * Europe/Paris", "Europe/Paris"),
        ("0 3 * * * Japan", "Japan"),
        ("0 3 * * * UTC", "UTC"),
        ("*/10 0 3 * * * Europe/Paris", "Europe/Paris"),
        ("CRON_TZ=Europe/Paris 0 3 * * *", "Europe/Paris"),
        ("0 3 * * MON", "Asia/Kolkata"),
        ("0 0 3 * * MON-FRI", "Asia/Kolkata"),
        ("@daily Europe/Paris", "Europe/Paris"),
    ],
)
def test_the_zone_stands_behind(line, zone):
    assert parse_expression(line, "Asia/Kolkata").timezone == zone


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("0 0 0 3 * * *", "has 7 fields; write 5"),
        ("60 * * * *", r"minute: '60' is out of range; allowed are 0-59.*\(at character 1\)"),
        ("0 3 1,32 * *", r"day of month: '32' is out of range.*\(at character 7\)"),
        ("61 0 3 * * *", r"second: '61' is out of range.*\(at character 1\)"),
        ("5/10 * * * *", "a step after one number, which crons read differently .write 5-59/10"),
        ("0 0 * * fri-tue/2", "wraps around with a step, which crons read differently"),
        ("0 0 * * mon%2", "counts weeks from 2019-01-01, which only fugit does"),
        ("0 0 * * mon#6", "asks for a week which is not 1 to 5, or L"),
        ("0 0 * * #2", "day of week: '#2' asks for a week"),
        ("0 0 -32 * *", "is no range of days from the end"),
        ("0 0 -2--3 * *", "is no range of days from the end"),
        ("0 0 -x * *", "cannot be read"),
        ("0 0 15W * *", "day of month: '15W' cannot be read"),
        ("0 0 ? * 1", r"'\?' \(at character 5\) is EventBridge's; .* as cron\(…\)"),
        ("0 3 * * * +02:00", "is an offset; write the name of a time zone, such as Etc/GMT-2"),
        ("0 3 * * * /usr/bin/backup", "day of week: '/USR/BIN/BACKUP' cannot be read"),
        ("0 3 * * * bin/backup", "time zone 'bin/backup' is unknown"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(line, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_expression(line)


def test_both_or_either_or_days_from_the_end_and_nth_weekdays():
    nth = ((1, 2), (7, -1), (7, 5), (7, -5))
    for rule, days in (
        (DayFields(), [*range(1, 29)]),
        (DayFields(dates=(1, 2), weekdays=(2,)), [2]),
        (DayFields(dates=(1, 2), weekdays=(2,), joined="either"), [1, 2, 9, 16, 23]),
        (DayFields(dates=(31,), from_end=(1, 3)), [26, 28]),
        (DayFields(weekdays=(), nth=nth), [8, 28]),
    ):
        assert rule(FEBRUARY_2026) == days
