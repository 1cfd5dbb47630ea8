"""What fires differently between two sets of schedules."""

from datetime import UTC, datetime

import pytest

from kiqbridge.features.lint.plan_command import plan
from kiqbridge.features.lint.simulation import DAY_S
from kiqbridge.schedule.definition import ScheduleDefinition

START = int(datetime(2026, 11, 22, tzinfo=UTC).timestamp())
JOB = {"class": "A", "args": [1]}
PARIS = "Europe/Paris"


def schedule(expression="cron(0 3 * * ? *)", timezone=PARIS, *, jobs=(JOB,), **more):
    return ScheduleDefinition(
        name="s", expression=expression, timezone=timezone, jobs=tuple(jobs), **more
    )


def changes(old, new, days=30):
    sides = [{} if each is None else {"s": each} for each in (old, new)]
    return plan(*sides, start=START, days=days)


def test_the_same_is_no_change_nor_the_default_queue_or_the_origin():
    assert plan({}, {}, start=START, days=30) == []
    for old, new in (
        (schedule(), schedule()),
        (schedule(), schedule(jobs=[JOB | {"queue": "default"}])),
        (schedule(origin="template"), schedule()),
    ):
        assert changes(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "kinds", "lost", "gained"),
    [
        (None, schedule(), ["added"], 0, 30),
        (schedule(), None, ["removed"], 30, 0),
        (None, schedule("cron(0 3 1 6 ? *)"), ["added"], 0, 0),
        (schedule(), schedule("cron(0 4 * * ? *)"), ["moved"], 30, 30),
        (schedule(), schedule("cron(0 3,4 * * ? *)"), ["moved"], 0, 30),
        (schedule(), schedule("cron(0 3 ? * MON-FRI *)"), ["moved"], 9, 0),
        (schedule(), schedule(timezone="America/New_York"), ["moved"], 30, 30),
        (schedule(), schedule(enabled=False), ["disabled"], 30, 0),
        (schedule(enabled=False), schedule(), ["enabled"], 0, 30),
        (schedule(), schedule(end=datetime(2026, 11, 24, tzinfo=UTC)), ["moved"], 28, 0),
        (schedule(), schedule(timezone="Europe/Madrid"), ["rewritten"], 0, 0),
        (schedule(), schedule("0 3 * * *"), ["rewritten"], 0, 0),
        (schedule(), schedule(timezone="Africa/Lagos"), ["later"], 0, 0),
        (schedule(), schedule(jobs=[JOB | {"args": [2]}]), ["job"], 0, 0),
        (schedule(), schedule(jobs=[JOB, JOB]), ["job"], 0, 0),
        (schedule(), schedule(overlap="skip"), ["policy"], 0, 0),
        (
            schedule(),
            schedule("cron(0 4 * * ? *)", jobs=[JOB | {"queue": "low"}], missed="last"),
            ["moved", "job", "policy"],
            30,
            30,
        ),
        (schedule(enabled=False), schedule("rate(1 minute)", enabled=False), ["rewritten"], 0, 0),
    ],
)
def test_what_is_different(old, new, kinds, lost, gained):
    [change] = changes(old, new)

    assert (change.kinds, change.lost, change.gained) == (kinds, lost, gained)
    assert change.is_different == (kinds != ["rewritten"])


def test_the_first_instants_that_differ_are_told_or_the_first_within_a_year():
    [change] = changes(schedule(), schedule("cron(0 4 * * ? *)"))
    assert change.first_lost == [START + 7200 + day * DAY_S for day in range(3)]
    assert change.first_gained == [START + 3 * 3600 + day * DAY_S for day in range(3)]
    [change] = changes(schedule(), schedule(timezone="Africa/Lagos"))
    # Paris has summer time from 2027-03-28 on, Lagos has none.
    assert change.later_at == int(datetime(2027, 3, 28, 1, tzinfo=UTC).timestamp())


def test_details_of_job_and_policy():
    new = schedule(jobs=[JOB | {"queue": "low", "args": []}], missed="last", max_age_s=60.0)

    [change] = changes(schedule(), new)

    assert change.details == [
        "args: [1] -> []",
        "queue: default -> low",
        "missed: alert -> last",
        "max_age_s: none -> 60.0",
    ]


def test_the_order_is_that_of_the_new_ones_then_what_is_gone():
    old = {"gone": schedule(), "b": schedule()}
    new = {"c": schedule(), "b": schedule(enabled=False)}
    assert [each.name for each in plan(old, new, start=START, days=1)] == ["c", "b", "gone"]
