"""Deliveries of events of several sources, in any order, cut and repeated in any way: the same set of jobs."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.enqueue_function import Context, read_event
from support.proving import sized

from kiqbridge.wire.json_text import loads

EVENTS = 4
"""Of each source."""
SOURCES = ("standard", "fifo", "bus", "tick", "key", "sns", "request")
QUEUE = "arn:aws:sqs:eu-west-1:123456789012:orders"


def job(source, number):
    return {"class": "HealthPulse", "args": [source, number]}


def message(source, number):
    arn = f"{QUEUE}.fifo" if source == "fifo" else QUEUE
    return {
        "messageId": f"id-{number}",
        "body": json.dumps(job(source, number)),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "attributes": {"MessageGroupId": str(number % 2)},
    }


def single(source, number, minute):
    """An event that is delivered alone."""
    wanted = job(source, number)
    if source == "bus":
        return read_event("bus_event", id=f"id-{number}", detail=wanted)
    if source == "tick":
        return {**wanted, "tick": {"schedule": f"s/{number}", "at": minute}}
    if source == "key":
        return {**wanted, "dedupe_key": f"id-{number}"}
    if source == "sns":
        topic = "arn:aws:sns:eu-west-1:123456789012:orders"
        content = {"MessageId": f"id-{number}", "TopicArn": topic, "Message": json.dumps(wanted)}
        return {
            "Records": [
                {
                    "EventSource": "aws:sns",
                    "EventVersion": "1.0",
                    "EventSubscriptionArn": f"{topic}:s",
                    "Sns": {"Type": "Notification", **content},
                }
            ]
        }
    keys = f"request-{number}", f"request-{number}-b"
    asked = zip((wanted, job("second", number)), keys, strict=True)
    return {"jobs": [{**each, "dedupe_key": key} for each, key in asked]}


ALL = [(source, number) for source in SOURCES for number in range(EVENTS)]

deliveries = st.lists(st.sampled_from(ALL), max_size=40).flatmap(
    lambda repeated: st.permutations([*ALL, *repeated])
)
cuts = st.lists(st.integers(1, 10), min_size=1, max_size=20)


@pytest.fixture
def minute(redis):
    """Now, as Redis has it, in epoch seconds."""
    return redis.time()[0] // 60 * 60


@settings(
    max_examples=sized(full=250, sample=10),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=deliveries, sizes=cuts)
def test_any_order_cut_and_repetition_gives_the_same_jobs(app, redis, minute, order, sizes):
    redis.flushall()
    answers = Counter()

    for event in events_of(order, sizes, minute):
        answer = app.lambda_handler(event, Context())
        if "batchItemFailures" in answer:
            assert answer["batchItemFailures"] == []
        else:
            answers["enqueued"] += len(answer["enqueued"])
            answers["duplicates"] += len(answer["duplicates"])

    pushed = [loads(text) for text in redis.lrange("queue:default", 0, -1)]
    expected = [*ALL, *(("second", number) for number in range(EVENTS))]
    assert Counter(tuple(each["args"]) for each in pushed) == Counter(expected)
    assert len({each["jid"] for each in pushed}) == len(pushed)
    alone = [source for source, _ in order if source not in ("standard", "fifo")]
    jobs = len(alone) + alone.count("request")
    assert answers["enqueued"] == 6 * EVENTS
    assert answers["duplicates"] == jobs - 6 * EVENTS


def events_of(order, sizes, minute):
    """Messages of one queue that follow each other are batches of these sizes; all else comes alone."""
    waiting, sizes = [], [*sizes]
    for place, (source, number) in enumerate(order):
        if source in ("standard", "fifo"):
            waiting.append(message(source, number))
            following = order[place + 1][0] if place + 1 < len(order) else None
            if following != source or len(waiting) >= sizes[place % len(sizes)]:
                yield {"Records": waiting}
                waiting = []
        else:
            yield single(source, number, minute)
