"""The alarms: on metrics that really arrive, each with somebody who gets it and an entry of what to do."""

import json
import re
from string import Template

import pytest
from infra import check_template
from infra.decided import decide
from samtranslator.yaml_helper import yaml_parse
from support.enqueue_function import Context, load_app, read_metrics

from kiqbridge.aws.environment import Metrics, make_logger
from kiqbridge.aws.handler import Report

ROOT = check_template.TEMPLATE.parent
README = (ROOT / "infra/README.md").read_text(encoding="utf-8")


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
        *("TargetErrorCount", "InvocationDroppedCount", "DestinationDeliveryFailures", "Evictions"),
        *("DatabaseMemoryUsagePercentage", "EngineCPUUtilization"),
        *("FleetSilent", "Problems", "QueueLatency", "MissedTicks", "DeadTrimmed", "Demand"),
        "SchedulesEvaluated",
    }


def test_the_function_writes_their_metrics_with_their_dimensions(stack, alarms, capsys):
    """An alarm on a metric that never arrives stays green for ever."""
    logger = make_logger({})
    logger.append_keys(cold_start=True)
    report = Report(logger, Metrics.from_environment({}))
    watched = {"Failed", "Refused", "Stale"}
    report._counts.update(dict.fromkeys(watched, 1))
    report.write_metrics()
    arriving = read_metrics(capsys.readouterr().out)
    ours = {
        alarm["MetricName"]
        for alarm in alarms.values()
        if alarm["Namespace"] == {"Ref": "MetricsNamespace"}
        and alarm["Dimensions"] == [{"Name": "service", "Value": {"Ref": "ServiceName"}}]
    }

    assert ours == watched
    assert {(name, "kiqbridge-enqueue") for name in ours} <= arriving.keys()


@pytest.fixture
def written_by(monkeypatch, redis_url, capsys):
    """The metrics that an invocation of a function writes where there is nothing."""
    monkeypatch.setenv("REDIS_URL", redis_url)

    def written_by(name):
        app = load_app(name)
        app.lambda_handler({}, Context())
        getattr(app, name)().close()
        return {metric for metric, *_ in read_metrics(capsys.readouterr().out)}

    return written_by


@pytest.mark.parametrize(("name", "count"), [("monitor", 6), ("tick", 1)])
def test_the_functions_of_each_minute_write_theirs_also_if_there_is_nothing(
    alarms, written_by, name, count
):
    dimensions = [{"Name": "service", "Value": {"Ref": f"{name.capitalize()}ServiceName"}}]

    watched = [each["MetricName"] for each in alarms.values() if each["Dimensions"] == dimensions]

    assert len(watched) == count
    assert set(watched) <= written_by(name)


@pytest.mark.parametrize("name", ["monitor", "tick"])
def test_their_service_is_the_one_that_they_are_given(name):
    root = read(check_template.TEMPLATE)
    parameter = f"{name.capitalize()}ServiceName"
    given = root["Resources"]["ObservabilityStack"]["Properties"]["Parameters"][parameter]
    functions = read(check_template.TEMPLATE.parent / "infra/functions.yaml")
    function = check_template.function_properties(functions, f"{name.capitalize()}Function")
    service = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]["Fn::Sub"]

    assert root["Resources"]["FunctionsStack"]["Properties"]["Parameters"]["Name"] == {
        "Ref": "AWS::StackName"
    }
    service = service.replace("${Name}", "${AWS::StackName}")
    assert given == {"Fn::If": [f"Creates{name.capitalize()}", {"Fn::Sub": service}, "none"]}
    if name == "monitor":
        workers = root["Resources"]["WorkerServiceStack"]["Properties"]["Parameters"]
        assert workers[parameter] == given


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


def test_each_has_somebody_to_get_it_and_an_entry(alarms):
    for name, alarm in alarms.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": "AlarmTopic"}]
        # What is not measured is the alarm, or none.
        is_gone = alarm["Statistic"] == "SampleCount"
        assert alarm["TreatMissingData"] == ("breaching" if is_gone else "notBreaching")
        assert f"`{name}`" in README, name
    assert set(re.findall(r"`(\w+Alarm)`", README)) == set(alarms)


def test_each_has_a_row_of_when_it_is_raised_and_what_to_do(alarms):
    rows = re.findall(r"^\| (`.*Alarm`)(?: \*)? \| [^|]+ \| [^|]+ \|$", README, re.MULTILINE)
    named = [name for names in rows for name in re.findall(r"`(\w+)`", names)]

    assert sorted(named) == sorted(alarms)


def test_no_other_page_lists_them():
    pages = (ROOT / "docs").rglob("*.md")
    named = {name for path in pages for name in re.findall(r"`\w+Alarm`", path.read_text("utf-8"))}

    assert len(named) < 5


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


LOSSES = {
    *("DeadLetterAlarm", "SpillDeadLetterAlarm", "TargetErrorsAlarm", "DroppedInvocationsAlarm"),
    *("DestinationFailuresAlarm", "ErrorsAlarm", "RefusedAlarm"),
}
REDIS = {"RedisEvictions1Alarm", "RedisEvictions2Alarm"}


def made(stack, alarms, **given):
    """The alarms that the stack makes with these parameters, the others at their defaults."""
    parameters = {name: each.get("Default") for name, each in stack["Parameters"].items()} | given
    return {
        name
        for name in alarms
        if (condition := stack["Resources"][name].get("Condition")) is None
        or decide({"Condition": condition}, parameters, stack["Conditions"])
    }


def test_what_may_lose_work_has_alarms_by_default(stack, alarms):
    root = read(check_template.TEMPLATE)
    defaults = {name: each.get("Default") for name, each in root["Parameters"].items()}
    given = root["Resources"]["ObservabilityStack"]

    assert decide({"Condition": given["Condition"]}, defaults, root["Conditions"])
    assert given["Properties"]["Parameters"]["Everything"] == {"Ref": "CreateObservability"}
    less = {"Everything": defaults["CreateObservability"], "SpillQueueName": "spill"}
    assert made(stack, alarms, **less) == LOSSES
    with_redis = less | {"RedisReplicationGroupId": "jobs"}
    assert made(stack, alarms, **with_redis) == LOSSES | REDIS
    one_node = made(stack, alarms, **with_redis, RedisNodeCount="1")
    assert one_node == LOSSES | {"RedisEvictions1Alarm"}
    starred = re.findall(r"^\| (.*) \* \|", README, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", "".join(starred))) == LOSSES | REDIS | {
        "SpillFifoDeadLetterAlarm"
    }


def test_the_numbers_of_the_readme_are_those_of_templates_and_functions(alarms, written_by):
    """A metric costs 0.30 $ a month. RedisUnavailable and Failed are written when they are not 0."""
    [shown] = re.findall(
        r"(\d+) of them, (\d+) with `CreateRedis` .*?up to (\d+) of all", README, re.DOTALL
    )
    [monitor] = re.findall(r"`CreateMonitor=true` .* (\d+) metrics", README)
    [(price, tick)] = re.findall(r"about ([\d.]+) \$ a month for its (\d+) metrics", README)

    assert tuple(map(int, shown)) == (len(LOSSES), len(LOSSES | REDIS), len(alarms))
    assert int(monitor) == len(written_by("monitor") | {"RedisUnavailable", "Failed"})
    assert int(tick) == len(written_by("tick") | {"RedisUnavailable", "Failed"})
    assert float(price) == int(tick) * 0.30


def test_what_a_stack_does_not_have_has_no_alarm(stack, alarms):
    there = {
        "Spill": {"SpillQueueName": "spill"},
        "SpillFifo": {"SpillFifoQueueName": "spill.fifo"},
        "Redis": {"RedisReplicationGroupId": "jobs"},
        "Monitor": {"MonitorServiceName": "monitor"},
        "Tick": {"TickServiceName": "tick"},
    }
    alone = made(stack, alarms)
    for part, given in there.items():
        for name in made(stack, alarms, **given) - alone:
            assert part in str(alarms[name]["Dimensions"])

    assert not {
        each
        for each in alone
        if re.search("Spill|Redis|Monitor|Tick", str(alarms[each]["Dimensions"]))
    }
    every = {name: value for given in there.values() for name, value in given.items()}
    assert made(stack, alarms, **every) == set(alarms)


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
    assert len(places) == len(widgets) == 10
    shown = {metric[1] for widget in widgets for metric in widget["properties"]["metrics"]}
    assert {"Failed", "Refused", "Stale", "Errors", "Throttles"} <= shown
    assert {
        "FleetSilent",
        "Problems",
        "QueueLatency",
        "MissedTicks",
        "DeadTrimmed",
        "Demand",
    } <= shown
