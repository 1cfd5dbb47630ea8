"""Cron lines and words are due when fugit says, which sidekiq-cron and sidekiq-scheduler ask.

The lines are drawn from a seed, with every feature that is read here. Compared are the next times in UTC; in
zones, only times of day that no change of the clocks touches, since there the rules differ on purpose
(Scheduler's is ours: a time that is skipped is not made up for).
"""

import json
import random
import subprocess
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from kiqbridge.features.imports.fugit import parse_sidekiq_cron
from kiqbridge.schedule.cron_fields import ExpressionError

pytestmark = [pytest.mark.interop, pytest.mark.fugit]

DIRECTION = "Schedules of sidekiq-cron"

SEED = 20_261_122
LINES = 300
TIMES = 6
ZONES = ("", "", "", " Europe/Paris", " America/New_York", " Asia/Kathmandu", " Japan", " UTC")
MONTHS = ("jan", "FEB", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "DEC")
WEEKDAYS = ("sun", "MON", "tue", "wed", "THU", "fri", "sat")

REFUSED = (
    "has a step after one number",
    "one weekday has several #",
    "wraps around with a step",
    "fugit leaves out the months that are too short",
)
"""Where fugit 1.5.2 does not do what its documents say, or versions differ."""

FUGIT = """
require "json"
require "fugit"
STDOUT.write JSON.generate(JSON.parse(STDIN.read).map { |line, from, count|
  begin
    cron = Fugit.parse(line, multi: :fail)
    if cron.is_a?(Fugit::Cron)
      time = EtOrbi.parse(from)
      count.times.map { time = cron.next_time(time); time.to_f.to_i }
    end
  rescue StandardError, NoMethodError
    nil
  end
})
"""

WORDS = (
    *("every minute", "every hour", "every day", "every week", "every month", "every year"),
    *(
        "every second",
        "every 15s",
        "every 30 seconds",
        "every 5 minutes",
        "every 5m",
        "every 1 hour",
    ),
    *(
        "every 2h",
        "every 6 hours",
        "every 24 hours",
        "every 60 minutes",
        "every 1d",
        "every 4 months",
    ),
    *("every day at 3am", "every day at noon", "every day at midnight", "every day at five"),
    *(
        "every day at 16:30",
        "every day at 16:00 and 18:00",
        "every day at 5 pm",
        "every day at 12pm",
    ),
    *("every monday at noon", "every weekday at 9:30", "every weekday", "every sunday"),
    *("every tuesday and monday at 5pm", "every wed or Monday at 5pm and 11"),
    *("every mon,wed at 10:00", "every mon, wed and fri at 10:00", "every monday 5pm"),
    *("from monday to friday at 9", "every monday to friday at 9am", "at 3am every day"),
    *("every 15th of the month at 4pm", "every first of the month at noon"),
    *("every 1st of the month at midnight", "every month on the 1st at 5pm"),
    *("every hour at minute 30", "every 12 hours at minute 50"),
    *("every day at 03:00 Europe/Paris", "every day at 5 pm on America/Los_Angeles"),
    *("every day at 6 pm in Asia/Tokyo", "@hourly", "@daily", "@midnight", "@noon", "@weekly"),
    *("@monthly", "@yearly", "@annually"),
)
MULTIPLE = ("every day at 16:15 and 18:30", "every monday at 9:05 and 10:10")
UNREAD = (
    *(
        "60 * * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 ? * 1",
        "0 0 1W * *",
        "0 0 LW * *",
        "0 0 5L * *",
    ),
    *("0 0 * * mon#6", "0 3 * * monday", "0 3 * * * foo", "0 3 * *", "@reboot", "@often"),
    *("every other day", "every quarter", "every day at 25:00", "every 2 weeks"),
)


def field(rng, low, high, names=()):
    """`*`, a step, or a list of values, ranges (some wrap around) and stepped ranges."""
    kind = rng.random()
    if kind < 0.3:
        return "*"
    if kind < 0.45:
        return f"*/{rng.randint(1, high - low)}"
    items = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        first, last = rng.randint(low, high), rng.randint(low, high)
        item = rng.choice((str(first), f"{first}-{last}", f"{first}-{last}/{rng.randint(2, 5)}"))
        items.append(rng.choice(names) if names and rng.random() < 0.3 else item)
    if kind > 0.93:
        return f"{rng.randint(low, high)}/{rng.randint(1, high - low)}"
    return ",".join(items)


def day_of_month(rng):
    if rng.random() < 0.2:
        return rng.choice(("L", "last", "-1", "-2", "15,L", "-7-L", "1,-3", "28-3"))
    return "*" if rng.random() < 0.4 else field(rng, 1, 31)


def day_of_week(rng):
    if rng.random() < 0.25:
        weekday = rng.choice((*WEEKDAYS, "0", "3", "7"))
        number = rng.choice(("1", "2", "5", "-1", "-2", "L", "last"))
        return f"{weekday}#{number}" + rng.choice(("", "", ",wed", ",5#1"))
    return "*" if rng.random() < 0.4 else rng.choice((field(rng, 0, 6, WEEKDAYS), "7", "5-7"))


def line_of(rng):
    zone = rng.choice(ZONES)
    seconds = rng.choice(("", "", "", "", f"{field(rng, 0, 59)} "))
    # In a zone, hours that no change of the clocks touches.
    hours = field(rng, 0, 23) if zone in {"", " UTC", " Japan", " Asia/Kathmandu"} else "9-17/2"
    weekday = day_of_week(rng)
    if hours == "9-17/2":
        # fugit adds weeks of 168 hours to count from the end, which fails in the week of a change.
        weekday = weekday.replace("#-1", "#1").replace("#-2", "#2").replace("#last", "#3")
        weekday = weekday.replace("#L", "#4")
    days = (day_of_month(rng), field(rng, 1, 12, MONTHS), weekday)
    return f"{seconds}{field(rng, 0, 59)} {hours} {' '.join(days)}{zone}"


def ask_fugit(questions):
    answer = subprocess.run(
        ["ruby", "-e", FUGIT],
        input=json.dumps(questions),
        capture_output=True,
        check=True,
        text=True,
        env={"TZ": "UTC", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
    return json.loads(answer.stdout)


def ours(line, start, count):
    schedule = parse_sidekiq_cron(line)
    found, moment = [], datetime.fromisoformat(start)
    while len(found) < count and (moment := schedule.next_after(moment)) is not None:
        found.append(int(moment.timestamp()))
    return found


def starts(rng):
    return datetime.fromtimestamp(rng.randrange(1_577_836_800, 1_893_456_000), UTC).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


@pytest.mark.operation("Random cron lines")
def test_lines_of_every_feature_are_due_when_fugit_says(tell):
    rng = random.Random(SEED)
    questions = [(line_of(rng), starts(rng), TIMES) for _ in range(LINES)]
    answers = ask_fugit(questions)

    compared, times, refused = 0, 0, 0
    for question, theirs in zip(questions, answers, strict=True):
        if theirs is None:  # fugit gives up on dates that are rare or never come
            continue
        try:
            found = ours(*question)
        except ExpressionError as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            refused += 1
            continue
        assert found == theirs, question
        compared, times = compared + 1, times + len(theirs)
    assert compared >= 0.9 * LINES
    tell(
        f"fugit: {compared} of {LINES} random lines compared, {times} times, all equal; {refused} refused for"
        " where fugit departs from its documents"
    )


@pytest.mark.operation("Schedules in words")
def test_words_are_due_when_fugit_says(tell):
    rng = random.Random(SEED)
    questions = [(words, starts(rng), TIMES) for words in WORDS for _ in range(2)]

    for question, theirs in zip(questions, ask_fugit(questions), strict=True):
        assert theirs is not None, question
        assert ours(*question) == theirs, question
        assert all(before < after for before, after in pairwise(theirs))
    tell(f"fugit: {len(WORDS)} texts in words at 2 instants each, all equal")


@pytest.mark.operation("What fugit does not read")
def test_what_fugit_does_not_read_or_in_part_alone_is_refused():
    texts = [*MULTIPLE, *UNREAD]

    assert ask_fugit([(text, "2026-01-01T00:00:00Z", 1) for text in texts]) == [None] * len(texts)
    for text in texts:
        with pytest.raises(ExpressionError):
            parse_sidekiq_cron(text)
