"""Reading Celery beat's schedules: nothing of the file is run."""

import json

import pytest

from kiqbridge.schedule.imports.celery_beat import read_celery_beat
from kiqbridge.schedule.imports.record import ImportKindError, Reading

FILE = """\
import os
from datetime import timedelta

from celery import Celery
from celery.schedules import crontab, schedule

os.abort()
app = Celery("shop")
app.conf.timezone = "Europe/London"
app.conf.beat_schedule = {
    "every-half-minute": {"task": "shop.tasks.pulse", "schedule": 30.0},
    "nightly": {
        "task": "shop.tasks.report",
        "schedule": crontab(minute=30, hour="3", day_of_week="mon-fri"),
        "args": (1, "x", [None, True]),
        "options": {"queue": "low", "priority": 5},
    },
    "hourly": {"task": "t", "schedule": timedelta(hours=1)},
    "six": {"task": "t", "schedule": schedule(run_every=60 * 60 * 6)},
    "first-monday": {"task": "t", "schedule": crontab(0, 9, "mon", "1-7")},
    "quarter": {"task": "t", "schedule": crontab(minute="*/15")},
}
"""


def read(text):
    return read_celery_beat(text, Reading(queue="celery"))


def test_a_module_is_read_and_never_run():
    found = read(FILE)

    assert found.refused == []
    assert [(each.name, each.expression) for each in found.schedules] == [
        ("every-half-minute", "every 30s"),
        ("nightly", "30 3 * * mon-fri"),
        ("hourly", "every 3600s"),
        ("six", "every 21600s"),
        ("first-monday", "0 9 1-7 * mon&"),
        ("quarter", "*/15 * * * *"),
    ]
    nightly = found.schedules[1]
    assert nightly.job == {
        "class": "shop.tasks.report",
        "args": [1, "x", [None, True]],
        "queue": "low",
    }
    assert (nightly.timezone, nightly.line) == ("Europe/London", 12)
    assert nightly.notes == ("priority is not carried over",)


@pytest.mark.parametrize(
    "text",
    [
        "CELERY_BEAT_SCHEDULE = {'a': {'task': 't', 'schedule': 60}}",
        "beat_schedule: dict = {'a': {'task': 't', 'schedule': 60}}",
        "app.conf.update(beat_schedule={'a': {'task': 't', 'schedule': 60}})",
        "class C:\n    CELERYBEAT_SCHEDULE = {'a': {'task': 't', 'schedule': 60}}",
    ],
)
def test_where_the_dictionary_may_stand(text):
    [found] = read(text).schedules

    assert found.expression == "every 60s"


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{'task': 't', 'schedule': solar('sunset', 1, 2)}", "cannot be read"),
        ("{'task': 't', 'schedule': crontab(hour=HOUR)}", "no literal"),
        ("{'task': 't', 'schedule': crontab(minute='61')}", "61"),
        ("{'task': 't', 'schedule': 0.5}", "whole number"),
        ("{'task': 't', 'schedule': -5}", "whole number"),
        ("{'task': 't', 'schedule': True}", "whole number"),
        ("{'task': 't'}", "whole number"),
        ("{'schedule': 60}", "no task"),
        ("{'task': 't', 'schedule': 60, 'kwargs': {'a': 1}}", "kwargs"),
        ("{'task': 't', 'schedule': 60, 'args': [f()]}", "cannot be read"),
        ("{**base, 'schedule': 60}", "takes in another"),
        ("{'task': f'{x}', 'schedule': 60}", "no literal"),
        ("make()", "cannot be read"),
        ("5", "no name with a dictionary"),
    ],
)
def test_what_cannot_be_said_is_refused(entry, reason):
    found = read(f"beat_schedule = {{\n 'ok': {{'task': 't', 'schedule': 60}},\n 'a': {entry}}}")

    assert [each.name for each in found.schedules] == ["ok"]
    assert found.refused[0].line == 3
    assert reason in found.refused[0].reason


def test_a_dump_of_django():
    rows = [
        {
            "model": "django_celery_beat.crontabschedule",
            "pk": 1,
            "fields": {
                "minute": "0",
                "hour": "4",
                "day_of_week": "*",
                "day_of_month": "*",
                "month_of_year": "*",
                "timezone": "Asia/Tokyo",
            },
        },
        {
            "model": "django_celery_beat.intervalschedule",
            "pk": 7,
            "fields": {"every": 10, "period": "minutes"},
        },
        {
            "model": "django_celery_beat.periodictask",
            "pk": 1,
            "fields": {
                "name": "n",
                "task": "t.x",
                "crontab": 1,
                "args": "[1]",
                "kwargs": "{}",
                "queue": "q",
                "enabled": False,
                "description": "d",
            },
        },
        {
            "model": "django_celery_beat.periodictask",
            "pk": 2,
            "fields": {"name": "i", "task": "t.y", "interval": 7, "args": "[]", "kwargs": "{}"},
        },
        {
            "model": "django_celery_beat.periodictask",
            "pk": 3,
            "fields": {"name": "s", "task": "t.z", "solar": 1, "args": "[]", "kwargs": "{}"},
        },
        {
            "model": "django_celery_beat.periodictask",
            "pk": 4,
            "fields": {"name": "o", "task": "t", "interval": 7, "one_off": True},
        },
    ]

    found = read(json.dumps(rows))

    first, second = found.schedules
    assert (first.expression, first.timezone, first.enabled) == ("0 4 * * *", "Asia/Tokyo", False)
    assert first.job == {"class": "t.x", "args": [1], "queue": "q"}
    assert second.expression == "every 600s"
    assert ["crontab" in each.reason or "one_off" in each.reason for each in found.refused] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def (", "no Python"),
        ("x = 1", "assigns no dictionary"),
        ("[1]", "no dump"),
        ("[]", "no rows"),
        ("{", "no dump"),
    ],
)
def test_what_is_no_such_file_is_said_so(text, reason):
    with pytest.raises(ImportKindError, match=reason):
        read(text)
