"""Which form an expression has."""

from datetime import UTC, datetime

import pytest

from kiqbridge.schedule.cron import At, Cron, Rate
from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("cron(0 3 * * ? *)", Cron),
        (" cron(0 3 * * ? *)", Cron),
        ("rate(5 minutes)", Rate),
        ("at(2026-05-01T00:00:00)", At),
        ("0 3 * * *", Cron),
        ("*/10 * * * * *", Cron),
        ("@daily", Cron),
        ("CRON_TZ=UTC 0 3 * * *", Cron),
        ("every 5m", Rate),
        ("every 30 seconds", Rate),
        ("every PT1H30M", Rate),
        ("every 15th of the month", Cron),
        ("every day at 3am", Cron),
        ("every second", Cron),
        ("from monday to friday at 9", Cron),
        ("at 3am every day", Cron),
        ("2026-05-01 09:00 Europe/Paris", At),
        ("at 2026-05-01", At),
    ],
)
def test_each_form_is_read_with_its_bounds(text, form):
    parsed = parse_expression(text, "UTC", start=START, end=END)

    assert isinstance(parsed, form)
    assert (parsed.text, parsed.bounds.start, parsed.bounds.end) == (text, START, END)
    first = parsed.next_after(datetime(2025, 1, 1, tzinfo=UTC))
    assert START <= first == next(parsed.between(START - (END - START), END))
    assert parsed.latest_at_or_before(first) == first
    assert parsed.latest_at_or_before(datetime(2028, 1, 1, tzinfo=UTC)) <= END


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cron (0 3 * * ? *)", "is none of cron"),
        ("Cron(0 3 * * ? *)", r"is none of cron\(…\), rate"),
        ("tomorrow", "is none of cron.*or words: every 5 minutes"),
        ("", "is none of cron"),
        ("1h30m", "is a duration alone; write every 1h30m"),
        ("in 5m", "counts from the moment in which it is read"),
        ("every 2 months", "months and years have no fixed length"),
        ("every other day", "is none of the forms that are understood"),
        ("0 3 * *", "has 4 fields"),
        ("2026-13-01", "is no time"),
    ],
)
def test_what_has_no_form_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_expression(text)
