"""Scaling from and to zero, played: the real monitor measures, and the alarms of the stack decide as CloudWatch does."""

import json
import re
import time

import pytest
from infra import check_template
from samtranslator.yaml_helper import yaml_parse
from support.enqueue_function import Context, load_app, read_metrics
from support.servers import find_free_port

from kiqbridge import RedisUnavailable

STACK = check_template.TEMPLATE.parent / "infra" / "worker_service.yaml"
SERVICE = "shop-monitor"
IDLE_MINUTES = 10
IDENTITY = "python:1:ab"
COMPARED = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}
# `IF(condition, then, otherwise)` and arithmetic: what the template uses of CloudWatch's metric math.
CONDITION = re.compile(r"IF\((.+?), (.+?), (.+?)\)")


@pytest.fixture(scope="module")
def stack():
    resources = yaml_parse(STACK.read_text(encoding="utf-8"))["Resources"]
    return {name: resource["Properties"] for name, resource in resources.items()}


def computed(expression, values):
    python = CONDITION.sub(r"((\2) if (\1) else (\3))", expression)
    return eval(python, {"__builtins__": {}}, dict(values))


def datapoint(alarm, metrics):
    """The value of an alarm's metric, or of its expression; None if one of its metrics is missing."""
    if "MetricName" in alarm:
        return metrics.get(alarm["MetricName"])
    found = {
        each["Id"]: metrics.get(each["MetricStat"]["Metric"]["MetricName"])
        for each in alarm["Metrics"]
        if "MetricStat" in each
    }
    if None in found.values():
        return None
    [returned] = [each for each in alarm["Metrics"] if each["ReturnData"]]
    return computed(returned["Expression"], found)


def is_raised(alarm, minutes):
    """Whether the last datapoints breach; a missing one does not (`notBreaching`)."""
    count = alarm["EvaluationPeriods"]
    count = IDLE_MINUTES if isinstance(count, dict) else count
    last = [datapoint(alarm, metrics) for metrics in minutes[-count:]]
    breaches = COMPARED[alarm["ComparisonOperator"]]
    return len(last) == count and all(
        value is not None and breaches(value, alarm["Threshold"]) for value in last
    )


class Service:
    """An ECS service whose tasks start within a minute, and the clock of the scaling."""

    def __init__(self, stack, redis, invoke):
        self._stack, self._redis, self._invoke = stack, redis, invoke
        self.desired = self.minute = self.cooled_at = 0
        self.minutes = []
        self.starts = 0

    def pass_minute(self):
        self._redis.delete(IDENTITY)
        self._redis.srem("processes", IDENTITY)
        if self.desired:
            info = {"queues": ["default"], "concurrency": 10, "labels": ["kiqbridge"]}
            self._redis.sadd("processes", IDENTITY)
            self._redis.hset(IDENTITY, mapping={"info": json.dumps(info), "busy": 0})
        self.minutes.append(self._invoke())
        self.minute += 1
        if is_raised(self._stack["StartAlarm"], self.minutes) and self.minute >= self.cooled_at:
            steps = self._stack["StartScalingPolicy"]["StepScalingPolicyConfiguration"]
            self.desired += steps["StepAdjustments"][0]["ScalingAdjustment"]
            self.cooled_at = self.minute + steps["Cooldown"] // 60
            self.starts += 1
        if is_raised(self._stack["IdleAlarm"], self.minutes):
            self.desired = 0


@pytest.fixture
def invoke(monkeypatch, redis_url, capsys):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", SERVICE)
    monkeypatch.setenv("KIQBRIDGE_MONITOR_QUEUES", "default")
    apps = []

    def invoke(url=redis_url):
        monkeypatch.setenv("REDIS_URL", url)
        app = load_app("monitor")
        apps.append(app)
        try:
            app.lambda_handler({}, Context())
        except RedisUnavailable:
            assert url != redis_url
        metrics = read_metrics(capsys.readouterr().out)
        return {name: value for (name, *rest), value in metrics.items() if rest == [SERVICE]}

    yield invoke
    for app in apps:
        app.monitor().close()


@pytest.fixture
def service(stack, redis, invoke):
    return Service(stack, redis, invoke)


def test_the_first_job_starts_one_task_and_after_ten_idle_minutes_none_runs(service, redis, client):
    for _ in range(30):
        service.pass_minute()
    assert (service.desired, service.starts) == (0, 0)

    client.push({"class": "HealthPulse", "args": []})
    service.pass_minute()
    assert (service.desired, service.starts) == (1, 1)
    for _ in range(15):  # the job takes a quarter of an hour
        service.pass_minute()
        assert service.desired == 1

    redis.delete("queue:default")
    for _ in range(IDLE_MINUTES - 1):
        service.pass_minute()
        assert service.desired == 1
    service.pass_minute()
    assert (service.desired, service.starts) == (0, 1)


def test_a_job_that_becomes_due_starts_a_task_and_one_of_later_does_not(service, redis):
    redis.zadd("schedule", {json.dumps({"class": "A", "args": []}): time.time() + 3600})
    service.pass_minute()
    assert service.desired == 0

    redis.zadd("retry", {json.dumps({"class": "B", "args": []}): time.time() - 1})
    service.pass_minute()
    assert service.desired == 1


def test_jobs_of_killed_workers_keep_a_fleet_from_zero(service, redis):
    name = "v2:host:9:ab:1"
    redis.sadd("kb:inflight", name)
    redis.hset(f"kb:claims:{name}", "t1", "4 default")
    redis.lpush(f"kb:inflight:{name}:t1:0", json.dumps({"class": "A", "args": [], "jid": "a"}))
    redis.hset("kb:alive", name, f"7 {time.time() - 3600} 500")

    for _ in range(2 * IDLE_MINUTES):
        service.pass_minute()
        assert service.desired == 1

    assert redis.llen("queue:default") == 1


def test_without_measurements_nothing_starts_or_stops(stack, service, invoke):
    away = [invoke(f"redis://127.0.0.1:{find_free_port()}/0")] * 20
    idle = [invoke()] * (IDLE_MINUTES - 1)

    assert "Demand" not in away[0]
    for minutes in (away, [*idle, away[0]], [*idle, *away, *idle], [{}] * 20):
        assert not is_raised(stack["IdleAlarm"], minutes)
        assert not is_raised(stack["StartAlarm"], minutes)
    assert is_raised(stack["IdleAlarm"], [*idle, idle[0]])


def test_tasks_follow_the_jobs_for_each_that_lives(stack):
    policy = stack["DemandScalingPolicy"]["TargetTrackingScalingPolicyConfiguration"]
    [returned] = [
        each for each in policy["CustomizedMetricSpecification"]["Metrics"] if each["ReturnData"]
    ]

    def per_task(**values):
        return computed(returned["Expression"], values)

    assert per_task(demand=100, alive=5) == 20
    assert per_task(demand=7, alive=0) == 7
    assert per_task(demand=0, alive=3) == 0
