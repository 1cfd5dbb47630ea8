"""The alarms: on metrics that really arrive, each with somebody who gets it and an entry of what to do."""

import json
import re
from string import Template

import pytest
from infra import check_template
from samtranslator.yaml_helper import yaml_parse

from kiqbridge.aws import emf

ROOT = check_template.TEMPLATE.parent
RUNBOOK = (ROOT / "infra/README.md").read_text(encoding="utf-8")


def read(path):
    return yaml_parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def stack():
    return read(ROOT / "infra/observability.yaml")


@pytest.fixture(scope="module")
def alarms(stack):
    return {
        name: resource["Properties"]
        for name, resource in stack["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }


def test_they_are_on_all_that_the_readme_says_to_watch(alarms):
    watched = {alarm["MetricName"] for alarm in alarms.values()}

    assert watched == {
        *("ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"),
        *("Failed", "Refused", "Stale", "Errors", "Throttles"),
        *("DatabaseMemoryUsagePercentage", "EngineCPUUtilization"),
    }


def test_the_function_writes_their_metrics_with_their_dimensions(stack, alarms):
    """An alarm on a metric that never arrives stays green for ever."""
    counts = dict.fromkeys(("Enqueued", "Duplicates", "Stale", "Refused", "Failed"), 1)
    written = json.loads(
        emf.line(
            namespace="Kiqbridge", service="s", source="bus", counts=counts, push_ms=1.0, now=0
        )
    )
    arriving = {
        (directive["Namespace"], metric["Name"], tuple(dimensions))
        for directive in written["_aws"]["CloudWatchMetrics"]
        for dimensions in directive["Dimensions"]
        for metric in directive["Metrics"]
    }
    namespace = stack["Parameters"]["MetricsNamespace"]["Default"]
    ours = {
        (namespace, alarm["MetricName"], tuple(entry["Name"] for entry in alarm["Dimensions"]))
        for alarm in alarms.values()
        if alarm["Namespace"] == {"Ref": "MetricsNamespace"}
    }

    assert {name for _, name, _ in ours} == {"Failed", "Refused", "Stale"}
    assert ours <= arriving


def test_the_service_is_the_one_that_the_function_is_given(stack):
    root = read(check_template.TEMPLATE)
    given = root["Resources"]["ObservabilityStack"]["Properties"]["Parameters"]
    function = check_template.function_properties(root, "EnqueueFunction")
    variables = function["Environment"]["Variables"]

    assert given["ServiceName"] == variables["POWERTOOLS_SERVICE_NAME"]
    assert (
        variables["POWERTOOLS_METRICS_NAMESPACE"]
        == stack["Parameters"]["MetricsNamespace"]["Default"]
    )


def test_each_has_somebody_to_get_it_and_an_entry_of_what_to_do(alarms):
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": "AlarmTopic"}]
        assert alarm["TreatMissingData"] == "notBreaching"
        assert f"`{name}`" in RUNBOOK, name
    assert set(re.findall(r"`(\w+Alarm)`", RUNBOOK)) == set(alarms)


def test_their_names_begin_so_that_the_topic_takes_them_and_are_all_different(stack, alarms):
    [statement] = stack["Resources"]["AlarmTopicPolicy"]["Properties"]["PolicyDocument"][
        "Statement"
    ]
    names = [alarm["AlarmName"]["Fn::Sub"] for alarm in alarms.values()]

    assert statement["Condition"]["ArnLike"]["aws:SourceArn"]["Fn::Sub"].endswith(
        ":alarm:${Name}-*"
    )
    assert all(name.startswith("${Name}-") for name in names)
    assert len(set(names)) == len(names)


def test_what_a_stack_does_not_have_has_no_alarm(stack):
    conditions = {
        parameter: condition
        for condition, decided in stack["Conditions"].items()
        for parameter in re.findall(r"'Ref': '(\w+)'", str(decided))
    }

    for resource in stack["Resources"].values():
        if resource["Type"] == "AWS::CloudWatch::Alarm":
            used = str(resource["Properties"]["Dimensions"])
            needed = {
                condition
                for parameter, condition in conditions.items()
                if parameter.removesuffix("Name") in used
            } or {None}
            family = "Fifo" in used
            expected = (
                "HasSpillFifoQueue" if family else "HasSpillQueue" if "Spill" in used else None
            )
            assert resource.get("Condition") in needed | {expected}
            assert ("Spill" in used or "Redis" in used) == ("Condition" in resource)


def test_the_dashboard_is_json_of_metrics_that_are_watched_or_explain_them(stack):
    body = stack["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    names = {*stack["Parameters"], "AWS::Region"}
    assert set(re.findall(r"\$\{([^}]+)\}", body)) <= names

    widgets = json.loads(
        Template(body.replace("AWS::", "")).substitute(
            dict.fromkeys((name.replace("AWS::", "") for name in names), "x")
        )
    )["widgets"]

    places = {(widget["x"], widget["y"]) for widget in widgets}
    assert len(places) == len(widgets) == 7
    shown = {metric[1] for widget in widgets for metric in widget["properties"]["metrics"]}
    assert {"Failed", "Refused", "Stale", "Errors", "Throttles"} <= shown
