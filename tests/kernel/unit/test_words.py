"""Expressions in words: only where the words say all of it."""

import pytest

from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.words import words_of


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("rate(5 minutes)", "every 5 minutes"),
        ("every 1h", "every hour"),
        ("every 90s", "every 90 seconds"),
        ("*/5 * * * *", "every 5 minutes"),
        ("* * * * *", "every minute"),
        ("0 * * * *", "every hour"),
        ("17 * * * *", "every hour at minute 17"),
        ("0 3 * * *", "every day at 03:00"),
        ("30 8,20 * * 1-5", "Mon to Fri at 08:30, 20:30"),
        ("0 9 * * 0", "Sun at 09:00"),
        ("0 0 1 * *", "on day 1 of the month at 00:00"),
        ("cron(30 8 L * ? *)", "on the last day of the month at 08:30"),
        ("cron(0 12 ? * MON#1 *)", ""),
        ("0 3 29 2 *", ""),
        ("0,7 * * * *", ""),
        ("0 3 1,15 * *", ""),
        ("*/5 8-17 * * *", ""),
        ("at(2030-01-01T00:00:00)", ""),
    ],
)
def test_an_expression_is_said_in_words_or_not_at_all(expression, words):
    assert words_of(parse_expression(expression)) == words
