"""Schedules in words: the cron line that each is, and what has no single meaning."""

import pytest

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.natural import UNDERSTOOD, cron_line_of


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("every minute", "* * * * *"),
        ("every hour", "0 * * * *"),
        ("every day", "0 0 * * *"),
        ("every week", "0 0 * * 0"),
        ("every month", "0 0 1 * *"),
        ("every year", "0 0 1 1 *"),
        ("every second", "* * * * * *"),
        ("every day at 3am", "0 3 * * *"),
        ("Every  Day At 3AM ", "0 3 * * *"),
        ("every day at 3 pm", "0 15 * * *"),
        ("every day at 16:30", "30 16 * * *"),
        ("every day at 4:30pm", "30 16 * * *"),
        ("every day at five", "0 5 * * *"),
        ("every day at 0:15", "15 0 * * *"),
        ("every day at noon", "0 12 * * *"),
        ("every day at 12pm", "0 12 * * *"),
        ("every day at midnight", "0 0 * * *"),
        ("every day at noon and midnight", "0 0,12 * * *"),
        ("every day at 16:00 and 18:00", "0 16,18 * * *"),
        ("every monday at noon", "0 12 * * MON"),
        ("every weekday at 9:30", "30 9 * * MON-FRI"),
        ("every wed or Monday at 5pm and 11", "0 11,17 * * WED,MON"),
        ("every mon, wed and fri at 10:00", "0 10 * * MON,WED,FRI"),
        ("from monday to friday at 17:00", "0 17 * * MON-FRI"),
        ("every friday-monday at 1am", "0 1 * * FRI-MON"),
        ("every 1st of the month at 4pm", "0 16 1 * *"),
        ("every 1st and 15th of the month at 4pm", "0 16 1,15 * *"),
        ("every first of the month at noon", "0 12 1 * *"),
        ("every month on the 1st at 5pm", "0 17 1 * *"),
        ("every hour at minute 30", "30 * * * *"),
        ("every 12 hours at minute 50", "50 */12 * * *"),
        ("at 3am every day", "0 3 * * *"),
        ("every day at 03:00 Europe/Paris", "0 3 * * * Europe/Paris"),
        ("every day at 6 pm in Asia/Tokyo", "0 18 * * * Asia/Tokyo"),
        ("every weekday at 5 pm on America/Los_Angeles", "0 17 * * MON-FRI America/Los_Angeles"),
        ("every day UTC", "0 0 * * * UTC"),
    ],
)
def test_words_are_a_cron_line(text, line):
    assert cron_line_of(text) == line


def test_what_is_parsed_keeps_its_words():
    parsed = parse_expression("every day at 3am Europe/Paris", "Asia/Tokyo")

    assert (parsed.text, parsed.timezone) == ("every day at 3am Europe/Paris", "Europe/Paris")
    assert parse_expression("every second").text == "every second"


@pytest.mark.parametrize("example", UNDERSTOOD.split("; each")[0].split("; ")[2:])
def test_the_examples_of_the_message_are_read(example):
    parse_expression(example)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every day at 16:15 and 18:30", "these times have different minutes"),
        ("every day at 12am", "noon in fugit before 1.7.2, midnight since"),
        ("every day at 12:30 am", "noon in fugit before 1.7.2, midnight since"),
        ("every day at 25:00", "is no time of day"),
        ("every day at 13pm", "is no time of day"),
        ("every day at 10:75", "is no time of day"),
        ("every 5 hours at minute 10", "does not divide the day"),
        ("every hour at minute 75", "minute: '75' is out of range"),
        ("every 32nd of the month at noon", "day of month: '32' is out of range"),
        (
            "every other day",
            "is none of the forms that are understood: every 5 minutes, for elapsed time; ",
        ),
        ("every quarter", "is none of the forms"),
        ("every last day of the month", "is none of the forms"),
        ("every day from 9am to 5pm", "is none of the forms"),
        ("every 3 days at 5pm", "is none of the forms"),
        ("every", "is none of the forms"),
        ("every day at 3am Europe/Pariss", "time zone 'Europe/Pariss' is unknown"),
    ],
)
def test_what_has_no_single_meaning_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason) as raised:
        parse_expression(text)

    assert repr(text) in str(raised.value)
