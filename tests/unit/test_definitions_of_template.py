"""The rules of a template as schedule definitions."""

import json
from datetime import UTC, datetime

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.sourced import definition_of
from kiqbridge.schedule.template import read_schedules

TICK = {"schedule": "shop/Nightly", "at": "<aws.scheduler.scheduled-time>"}
JOB = {"class": "Report", "queue": "low", "args": [1]}


@pytest.fixture
def read(tmp_path):
    """The definitions of a template with one rule, Nightly, in a function of this folder."""

    def read(
        text="cron(0 3 * * ? *)",
        document=None,
        *,
        kind="ScheduleV2",
        folder="lambdas/enqueue",
        **more,
    ):
        key = "ScheduleExpression" if kind == "ScheduleV2" else "Schedule"
        document = JOB | {"tick": TICK} if document is None else document
        properties = {key: text, "Input": json.dumps(document), **more}
        event = {"Type": kind, "Properties": properties}
        function = {"CodeUri": folder, "Handler": "a.b", "Events": {"Nightly": event}}
        resource = {"Type": "AWS::Serverless::Function", "Properties": function}
        path = tmp_path / "template.yaml"
        path.write_text(json.dumps({"Resources": {"Function": resource}}))
        [schedule] = read_schedules(path, None, "shop")
        return schedule

    return read


def test_a_rule_is_a_definition_named_as_its_ticks(read):
    found = definition_of(read(ScheduleExpressionTimezone="Europe/Paris"), "shop")

    assert found.name == "shop/Nightly"
    assert found.origin == "template"
    assert found.expression == "cron(0 3 * * ? *)"
    assert found.timezone == "Europe/Paris"
    assert found.jobs == (JOB,)
    assert found.enabled
    assert (found.missed, found.overlap, found.max_age_s) == ("alert", "allow", None)
    after = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert found.when.next_after(after) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_it_survives_its_document(read):
    schedule = read(
        "rate(5 minutes)",
        StartDate="2027-01-31T00:00:00Z",
        EndDate="2027-02-01T00:00:00Z",
        State="DISABLED",
    )
    found = definition_of(schedule, "shop")

    again = type(found).from_document(found.name, json.loads(json.dumps(found.to_document())))

    assert again == found
    assert not again.enabled
    assert again.start == datetime(2027, 1, 31, tzinfo=UTC)
    assert again.end == datetime(2027, 2, 1, tzinfo=UTC)


def test_several_jobs_of_one_tick(read):
    found = definition_of(read(document={"jobs": [JOB, JOB], "tick": TICK}), "shop")

    assert found.jobs == (JOB, JOB)


def test_the_name_in_the_tick_is_the_ledgers(read):
    found = definition_of(read(document=JOB | {"tick": TICK | {"schedule": "other/Nightly"}}), "x")

    assert found.name == "other/Nightly"


def test_policies_stand_in_the_tick(read):
    policies = {"missed": "last", "grace_s": 60, "max_age_s": 3600, "overlap": "skip"}
    found = definition_of(read(document=JOB | {"tick": TICK | policies}), "shop")

    assert {name: getattr(found, name) for name in policies} == policies


def test_a_policy_that_does_not_exist_is_refused(read):
    with pytest.raises(ConfigError, match="missed: 'never' is none of alert, last, all"):
        read(document=JOB | {"tick": TICK | {"missed": "never"}})


def test_a_rule_of_the_event_bus_has_jobs_but_no_tick(read):
    found = definition_of(read(kind="Schedule", document=JOB), "shop")

    assert found.name == "shop/Nightly"
    assert found.jobs == (JOB,)


def test_another_functions_rule_has_no_jobs(read):
    schedule = read(folder="lambdas/other", document={"any": 1})

    assert definition_of(schedule, "shop").jobs == ()
