"""Cron lines as expressions: sidekiq-cron's forms beside crontab's; what has two readings is refused."""

from datetime import UTC, datetime

import pytest

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.crontab import parse_cron_line, parse_crontab


def utc(*parts):
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    "line",
    [
        *("0 3 * * *", "*/5 9-17 * * 1-5", "0 0 1,15 * 5", "0 0 */2 * 1", "0 0 1 jan sun"),
        *("@hourly", "@daily", "@weekly", "CRON_TZ=Asia/Tokyo 0 3 * * *", "0 3 * * * Asia/Tokyo"),
        *("0 0 * * 0-7", "0 0 * * 5-7", "0 0 * * fri-sun", "*/7 */5 */10 */5 */3"),
    ],
)
def test_what_crontab_has_is_read_alike(line):
    ours, crontab = parse_cron_line(line), parse_crontab(line)

    window = (utc(2026, 1, 1), utc(2026, 6, 1))
    assert list(ours.between(*window)) == list(crontab.between(*window)) != []
    assert (ours.text, ours.timezone) == (crontab.text, crontab.timezone)


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
    found = parse_cron_line(f"0 0 {fields}").between(utc(2025, 12, 31, 23, 59), utc(2026, 3, 31, 1))

    assert " ".join(f"{at:%m-%d}" for at in found) == expected


def test_ranges_of_hours_may_wrap_around():
    found = parse_cron_line("0 22-4/2 * * *").between(utc(2026, 1, 1, 12), utc(2026, 1, 2, 12))

    assert [at.hour for at in found] == [22, 0, 2, 4]


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
    assert parse_cron_line(line, "Asia/Kolkata").timezone == zone


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "has 0 fields; write 5"),
        ("0 3 * *", "has 4 fields; write 5"),
        ("0 0 0 3 * * *", "has 7 fields; write 5"),
        ("60 * * * *", r"minute: '60' is out of range; allowed are 0-59.*\(at character 1\)"),
        ("0 3 1,32 * *", r"day of month: '32' is out of range.*\(at character 7\)"),
        ("61 0 3 * * *", r"second: '61' is out of range.*\(at character 1\)"),
        ("5/10 * * * *", "a step after one number, which crons read differently .write 5-59/10"),
        ("0 0 * * fri-tue/2", "wraps around with a step, which crons read differently"),
        ("*,5 * * * *", "stands in a list, which crons read differently"),
        ("0 0 * * mon%2", "counts weeks from 2019-01-01, which only fugit does"),
        ("0 0 * * mon#6", "asks for a week which is not 1 to 5, or L"),
        ("0 0 * * #2", "day of week: '#2' cannot be read"),
        ("0 0 -32 * *", "is no range of days from the end"),
        ("0 0 -2--3 * *", "is no range of days from the end"),
        ("0 0 -x * *", "cannot be read"),
        ("0 0 15W * *", "day of month: '15W' cannot be read"),
        ("0 0 ? * 1", r"'\?' \(at character 5\) is EventBridge's; .* as cron\(…\)"),
        ("0 3 * * * +02:00", "is an offset; write the name of a time zone, such as Etc/GMT-2"),
        ("0 3 * * * /usr/bin/backup", "day of week: '/USR/BIN/BACKUP' has a step"),
        ("0 3 * * * bin/backup", "time zone 'bin/backup' is unknown"),
        ("@often", "'@often' is none of @yearly"),
        ("CRON_TZ=Europe/Pariss 0 3 * * *", "time zone 'Europe/Pariss' is unknown"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(line, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_cron_line(line)
