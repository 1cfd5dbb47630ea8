"""sidekiq-cron's reading of a text, written out so that it means the same everywhere.

That fugit is due at the same times is asserted with the real one (interop/test_fugit_reads_the_same.py).
"""

import re
from datetime import UTC, datetime
from itertools import islice

import pytest
from support.vectors import FILES, of_kind

from kiqbridge.schedule.cron_fields import ExpressionError
from kiqbridge.schedule.expression import parse_expression
from kiqbridge.schedule.sidekiq_cron import parse_sidekiq_cron

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "written_out"),
    [
        ("0 3 * * *", "0 3 * * *"),
        ("0 3 * * * UTC", "0 3 * * * UTC"),
        ("0 3 * * * Europe/Paris", "0 3 * * * Europe/Paris"),
        ("5/10 * * * *", "5-59/10 * * * *"),
        ("*/10 3/5 * * * *", "*/10 3-59/5 * * * *"),
        ("0 8/4,1 * 2/3 *", "0 8-23/4,1 * 2-12/3 *"),
        ("0 0 */2 * 1", "0 0 1-31/2 * 1"),
        ("0 0 1 * */2", "0 0 1 * 0-6/2"),
        ("0 0 */2 * *", "0 0 */2 * *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 */2& * 1", "0 0 */2& * 1"),
        ("@daily", "@daily"),
        ("every day at 3am", "every day at 3am"),
        ("every 5 minutes", "*/5 * * * *"),
        ("every 5m", "*/5 * * * *"),
        ("every 1 hour", "0 * * * *"),
        ("every 60 minutes", "0 * * * *"),
        ("every 24 hours", "0 0 * * *"),
        ("every 15s", "*/15 * * * * *"),
        ("every 4 months", "0 0 1 */4 *"),
        ("every 1d", "0 0 * * *"),
    ],
)
def test_the_text_means_the_same_everywhere(text, written_out):
    parsed = parse_sidekiq_cron(text)

    assert parsed.text == written_out
    again = parse_expression(parsed.text)
    assert list(islice(again.between(START, END), 50)) == list(
        islice(parsed.between(START, END), 50)
    )


def test_either_day_field_is_enough_also_with_a_star():
    days = [
        at.day
        for at in parse_sidekiq_cron("0 0 */10 * 1").between(
            START, datetime(2026, 1, 31, tzinfo=UTC)
        )
    ]

    assert days == [5, 11, 12, 19, 21, 26, 31]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("every 40 minutes", "begins anew with each hour, day, month or year"),
        ("every 7m", "begins anew"),
        ("every 2 days", "begins anew"),
        ("every 0 minutes", "begins anew"),
        ("every 2 weeks", "sidekiq-cron does not read it"),
        ("every 1h30m", "sidekiq-cron does not read it"),
        ("5/1 * * * *", "a step after one number"),
        ("0 0 * * 1/2", "a step after one number"),
        ("0 0 * * 5#1,5#-1", "one weekday has several #"),
        ("0 0 30 2,4 1", "fugit leaves out the months that are too short"),
        ("0 0 5,* * 1", "stands in a list, of which fugit leaves it out"),
        ("0 0 * * mon%2", "counts weeks"),
        ("in 5m", "counts from the moment in which it is read"),
    ],
)
def test_what_fugit_reads_otherwise_than_documented_is_refused(text, reason):
    with pytest.raises(ExpressionError, match=reason):
        parse_sidekiq_cron(text)


@pytest.mark.parametrize(("file", "name"), of_kind("cron_time"))
def test_the_last_time_is_the_recorded_one(file, name):
    operation = FILES[file][name]
    [[_, key, score, member]] = [each for each in operation["commands"] if each[0] == "zadd"]
    [job] = [each["value"] for each in operation["keys"] if f"{each['key']}:enqueued" == key]

    schedule = parse_sidekiq_cron(job["cron"])

    last = schedule.latest_at_or_before(datetime.fromtimestamp(float(score), UTC))
    assert last == datetime.fromisoformat(member)


@pytest.mark.parametrize(("file", "name"), of_kind("cron_refusal"))
def test_what_sidekiq_cron_refused_is_refused(file, name):
    line = re.search(r'cron: "([^"]*)"', FILES[file][name]["ruby_call"])[1]

    assert FILES[file][name]["result"] == {"return": [False, False]}
    with pytest.raises(ExpressionError, match="minute: '61' is out of range"):
        parse_sidekiq_cron(line)
