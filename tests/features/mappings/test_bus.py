"""Events of buses, topics and schedules: what finds a mapping, and what is the same event.

Jobs as the detail, and replays: test_enqueue.py. Objects of S3: tests/features/s3_events.
"""

import json
from datetime import UTC, datetime

import pytest
from support.enqueue_function import arguments, read_event

from kiqbridge import EventError

TAKE_ALL = """
mappings:
  - match: {source: "*"}
    class: HealthPulse
    args: [time]
"""


@pytest.mark.parametrize(
    ("name", "match", "argument"),
    [
        ("bus_saas", "detail-type: customer.created", "detail.data.id"),
        ("bus_ec2", 'source: aws.ec2, detail-type: "EC2 *"', 'detail."instance-id"'),
        ("bus_ecs", "source: aws.ecs, region: eu-west-1", "detail.taskArn"),
        ("bus_codepipeline", "event-source: aws.codepipeline", "detail.pipeline"),
        ("bus_alarm", 'account: "123456789012"', "detail.state.value"),
        ("bus_step_functions", "source: aws.states", "detail.name"),
        ("bus_batch", "source: aws.batch", "detail.jobId"),
    ],
)
def test_an_event_of_a_service_or_a_partner_is_mapped_and_enqueued_once(
    mapped, redis, name, match, argument
):
    invoke = mapped(f"mappings: [{{match: {{{match}}}, class: HealthPulse, args: ['{argument}']}}]")

    first, second = invoke(read_event(name)), invoke(read_event(name))

    assert second["duplicates"] == first["enqueued"]
    [value] = json.loads(redis.lindex("queue:default", 0))["args"]
    assert isinstance(value, str)


@pytest.mark.parametrize("name", ["rule_without_input", "scheduler_without_input"])
def test_a_schedule_without_input_is_mapped_and_enqueued_once_for_each_time(mapped, redis, name):
    """A rule that fires twice for one time sends two ids."""
    invoke = mapped(TAKE_ALL)
    later = read_event(name, time="2026-11-20T02:01:00Z", id="later")

    for event in (read_event(name), read_event(name, id="twice"), later, later):
        invoke(event)

    assert arguments(redis) == [["2026-11-20T02:00:00Z"], ["2026-11-20T02:01:00Z"]]


def test_another_schedule_with_the_same_time_is_another_event(mapped, redis):
    invoke = mapped(TAKE_ALL)

    invoke(read_event("rule_without_input"))
    invoke(read_event("rule_without_input", resources=["arn:aws:events:eu-west-1:1:rule/other"]))
    invoke(read_event("rule_without_input") | {"replay-name": "friday"})

    assert redis.llen("queue:default") == 3


@pytest.mark.parametrize(
    "match",
    [
        "source: schedule",
        "schedule: shop-NightlyReport",
        'rule: "*:rule/shop-NightlyReport"',
        "detail-type: Scheduled Event",
    ],
)
def test_a_schedule_is_found_by_its_name_or_arn(mapped, match):
    invoke = mapped(f"mappings: [{{match: {{{match}}}, class: HealthPulse, args: []}}]")

    assert invoke(read_event("rule_without_input"))["enqueued"]


def test_a_schedule_that_came_through_a_queue_is_the_same(mapped, redis):
    invoke = mapped(TAKE_ALL)
    [message] = read_event("sqs_records")["Records"]

    invoke(read_event("rule_without_input"))
    invoke({"Records": [message | {"body": json.dumps(read_event("rule_without_input"))}]})

    assert redis.llen("queue:default") == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"time": None}, "time: None is not a text with at least one character"),
        ({"resources": []}, "resources[0]: None is not a text"),
        ({"resources": [5]}, "resources[0]: 5 is not a text"),
        ({"replay-name": 5}, "replay-name: 5 is not a text"),
    ],
    ids=str,
)
def test_a_schedule_that_lacks_something_is_refused(mapped, redis, changes, reason):
    with pytest.raises(EventError) as raised:
        mapped(TAKE_ALL)(read_event("rule_without_input") | changes)

    assert str(raised.value).startswith(reason)
    assert redis.dbsize() == 0


def test_an_input_that_is_no_job_is_mapped(mapped, redis):
    invoke = mapped("mappings: [{match: {source: direct}, class: HealthPulse, args: ['@']}]")

    for value in ("nightly", [1, 2], {"report": 7}, '{"report": 8}', 5):
        assert invoke(value)["enqueued"]

    assert arguments(redis) == [["nightly"], [[1, 2]], [{"report": 7}], [{"report": 8}], [5]]


def test_a_tick_in_a_bus_event_is_told_by_its_instant_whatever_the_event(mapped, redis):
    invoke = mapped("allow: [{source: bus, classes: ['*'], queues: ['*'], ticks: ['shop/*']}]")
    at = f"{datetime.now(UTC):%FT%H:%M:00Z}"
    tick = {"schedule": "shop/NightlyReport", "at": at}
    detail = read_event("scheduler_tick", tick=tick)

    answers = [invoke(read_event("bus_event", id=name, detail=detail)) for name in "ab"]

    assert [len(answer["enqueued"]) for answer in answers] == [1, 0]
    assert redis.llen("queue:low") == 1
    assert not redis.exists("kb:guards")


def test_the_message_of_a_topic_is_seen_parsed(mapped, redis):
    invoke = mapped(
        """
mappings:
  - match: {topic: "*:orders", subject: "ALARM*"}
    class: HealthPulse
    args: [Message.AlarmName, Message.NewStateValue]
"""
    )

    assert invoke(read_event("sns_alarm"))["enqueued"]

    assert json.loads(redis.lindex("queue:default", 0))["args"] == ["shop-errors", "ALARM"]
