"""The manifest of a template: its schedules that enqueue, whatever the stack will be called."""

import json
from datetime import UTC, datetime

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.features.publishing.manifest import Manifest, build_manifest
from kiqbridge.schedule.definition import DEFAULT_GRACE_S, ScheduleDefinition
from kiqbridge.schedule.yaml_nodes import TemplateError

JOB = {"class": "Report", "queue": "low", "args": [1]}


def tick(name="${AWS::StackName}/Nightly", **more):
    return {"schedule": name, "at": "<aws.scheduler.scheduled-time>", **more}


@pytest.fixture
def build(tmp_path):
    """The manifest of a template whose functions have these rules."""

    def build(parameters=None, *, folder="lambdas/enqueue", declared=None, **rules):
        events = {}
        for name, rule in rules.items():
            given = dict(rule)
            document = given.pop("document", JOB | {"tick": tick("${AWS::StackName}/" + name)})
            kind = given.pop("kind", "ScheduleV2")
            key = "ScheduleExpression" if kind == "ScheduleV2" else "Schedule"
            properties = {key: "cron(0 3 * * ? *)", **given}
            properties["Input"] = {"Fn::Sub": json.dumps(document)}
            events[name] = {"Type": kind, "Properties": properties}
        function = {"CodeUri": folder, "Handler": "a.b", "Events": events}
        resource = {"Type": "AWS::Serverless::Function", "Properties": function}
        path = tmp_path / "template.yaml"
        template = {"Parameters": declared or {}, "Resources": {"Function": resource}}
        path.write_text(json.dumps(template))
        return build_manifest(path, parameters, version=7)

    return build


def test_a_schedule_stands_under_its_logical_id_with_what_it_enqueues(build):
    more = {"missed": "last", "max_age_s": 3600, "overlap": "skip"}

    found = build(
        Nightly={
            "ScheduleExpressionTimezone": "Europe/Paris",
            "StartDate": "2027-01-01T00:00:00Z",
            "State": "DISABLED",
            "document": JOB | {"tick": tick(**more)},
        }
    )

    assert found.version == 7
    assert found.schedules == {
        "Nightly": {
            "expression": "cron(0 3 * * ? *)",
            "jobs": [JOB],
            "origin": "template",
            "timezone": "Europe/Paris",
            "start": "2027-01-01T00:00:00Z",
            "enabled": False,
            "missed": "last",
            "max_age_s": 3600.0,
            "overlap": "skip",
        }
    }
    ScheduleDefinition.from_document("shop/Nightly", found.schedules["Nightly"])


def test_the_name_of_the_stack_stays_open_and_that_of_another_is_kept(build):
    job = JOB | {"args": ["s3://${AWS::StackName}-bucket"]}
    found = build(Nightly={"document": {"jobs": [job, JOB], "tick": tick()}})
    assert found.schedules["Nightly"]["jobs"] == [job, JOB]
    assert "name" not in found.schedules["Nightly"]
    found = build(Nightly={"document": JOB | {"tick": tick("prod/Nightly")}})
    assert found.schedules["Nightly"]["name"] == "prod/Nightly"


def test_rules_of_other_functions_are_not_in_it_and_one_on_the_bus_has_no_ticks(build):
    assert build(folder="lambdas/other", Nightly={}).schedules == {}
    found = build(Nightly={"kind": "Schedule", "document": JOB})
    assert found.schedules["Nightly"]["ticks"] is False


def test_a_flexible_window_adds_to_the_grace_time(build):
    window = {"FlexibleTimeWindow": {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 15}}
    document = JOB | {"tick": tick("${AWS::StackName}/Own", grace_s=60)}
    found = build(Plain=window, Own=window | {"document": document})
    assert found.schedules["Plain"]["grace_s"] == DEFAULT_GRACE_S + 900
    assert found.schedules["Own"]["grace_s"] == 960


def test_the_parameters_of_the_deployment_count(build):
    declared = {"Hour": {"Type": "String", "Default": "3"}}
    rule = {"ScheduleExpression": {"Fn::Sub": "cron(0 ${Hour} * * ? *)"}}

    plain = build(declared=declared, Nightly=rule)
    given = build({"Hour": "4"}, declared=declared, Nightly=rule)

    assert plain.schedules["Nightly"]["expression"] == "cron(0 3 * * ? *)"
    assert given.schedules["Nightly"]["expression"] == "cron(0 4 * * ? *)"
    assert plain.hash != given.hash


OF_AWS = {"class": "Report", "args": ["${AWS::AccountId}", "${AWS::Region}"]}


class TestInputsThatOnlyAwsKnows:
    @pytest.mark.parametrize("policy", ["last", "all"])
    def test_what_is_to_be_enqueued_without_aws_is_refused(self, build, policy):
        assert build(Nightly={"document": OF_AWS | {"tick": tick()}}).schedules
        with pytest.raises(
            ConfigError, match=r'Nightly: "missed": "\w+" enqueues its jobs without'
        ):
            build(Nightly={"document": OF_AWS | {"tick": tick(missed=policy)}})


def test_a_policy_that_is_none_is_a_fault_of_the_template(build):
    with pytest.raises(TemplateError, match=r"Input.tick.missed: 'newest' is none of alert, last"):
        build(Nightly={"document": JOB | {"tick": tick(missed="newest")}})


def test_its_text_is_the_same_for_the_same_schedules_and_is_read_back(build):
    first, second = build(A={}, B={}), build(B={}, A={})

    assert first.to_text() == second.to_text()
    read = Manifest.from_text(first.to_text())
    assert (read, read.hash) == (first, first.hash)
    assert json.loads(first.to_text())["hash"] == first.hash


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": "x", "schedules": {}}'])
def test_what_is_no_manifest_is_refused(text):
    with pytest.raises(ConfigError, match="manifest: it cannot be read"):
        Manifest.from_text(text)


FRIDAYS = {
    "ScheduleExpression": "cron(0 0 ? * FRI *)",
    "document": JOB | {"tick": tick("${AWS::StackName}/Friday13")},
}


def test_rules_that_share_the_name_of_their_ticks_are_one_schedule(build):
    found = build(Friday13={"ScheduleExpression": "cron(0 0 13 * ? *)"}, Friday132=FRIDAYS)

    assert found.schedules == {
        "Friday13": {
            "expression": "cron(0 0 13 * ? *)",
            "also": ["cron(0 0 ? * FRI *)"],
            "jobs": [JOB],
            "origin": "template",
        }
    }
    read = ScheduleDefinition.from_document("shop/Friday13", found.schedules["Friday13"])
    assert read.to_document() == found.schedules["Friday13"]
    due = read.when.between(datetime(2026, 11, 12, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC))
    assert [each.day for each in due] == [13, 20]


@pytest.mark.parametrize(
    "change",
    [
        {"State": "DISABLED"},
        {"ScheduleExpressionTimezone": "Europe/Paris"},
        {"document": JOB | {"queue": "high", "tick": tick("${AWS::StackName}/Friday13")}},
    ],
)
def test_rules_that_share_the_name_of_their_ticks_differ_in_nothing_else(build, change):
    with pytest.raises(ConfigError, match="two rules share the name of its ticks"):
        build(Friday13={"ScheduleExpression": "cron(0 0 13 * ? *)"}, Friday132=FRIDAYS | change)


@pytest.mark.parametrize("event", ["Friday", "Friday13b", "Friday1"])
def test_only_a_number_may_follow_the_name_of_the_ticks(build, event):
    with pytest.raises(TemplateError, match=r"Input\.tick\.schedule is .*Friday13'"):
        build(**{event: FRIDAYS})
