"""S3 Batch Operations: each task is answered by a result code."""

import json

import pytest
from support.enqueue_function import read_event

from kiqbridge import EventError

TAKE_ALL = """
mappings:
  - match: {source: s3-batch, bucket: shop-uploads}
    class: HealthPulse
    args: ['tasks[0].s3Key', job.userArguments.tenant]
"""


def results(answer):
    return [(each["taskId"], each["resultCode"]) for each in answer["results"]]


def test_a_task_is_enqueued_once_and_answered(mapped, redis):
    invoke = mapped(TAKE_ALL)

    first, second = invoke(read_event("s3_batch_v2")), invoke(read_event("s3_batch_v2"))

    [text] = redis.lrange("queue:default", 0, -1)
    assert json.loads(text)["args"] == ["in/café 1.csv", "acme"]
    assert first == second
    assert first == {
        "invocationSchemaVersion": "2.0",
        "treatMissingKeysAs": "PermanentFailure",
        "invocationId": "YXNkbGZqYWRmaiBhc2RmdW9hZHNmZGpmaGFzbGtkaGZza2RmaAo",
        "results": [
            {
                "taskId": "dGFza2lkZ29lc2hlcmUK",
                "resultCode": "Succeeded",
                "resultString": json.loads(text)["jid"],
            }
        ],
    }


def test_what_is_refused_fails_for_good_and_the_others_are_enqueued(mapped, redis):
    event = read_event("s3_batch_v2")
    [task] = event["tasks"]
    event["tasks"] = [task, {"taskId": "no key"}, 5, task | {"taskId": "t2"}]

    answer = mapped(TAKE_ALL)(event)

    assert results(answer) == [
        (task["taskId"], "Succeeded"),
        ("no key", "PermanentFailure"),
        ("", "PermanentFailure"),
        ("t2", "Succeeded"),
    ]
    assert answer["results"][1]["resultString"] == (
        "tasks[1].s3Key: None is not a text with at least one character"
    )
    assert redis.llen("queue:default") == 2


def test_without_redis_the_tasks_are_repeated(environment, mapped):
    environment.setenv("REDIS_URL", "redis://127.0.0.1:1")

    answer = mapped(TAKE_ALL)(read_event("s3_batch_v2"))

    assert [code for _, code in results(answer)] == ["TemporaryFailure"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tasks": []}, "tasks: [] is not a list with at least one task"),
        ({"tasks": 5}, "tasks: 5 is not a list"),
        ({"job": {}}, "job.id: None is not a text"),
        ({"job": None}, "job: None is not an object"),
    ],
    ids=str,
)
def test_an_event_without_tasks_or_ids_is_refused(invoke, changes, reason):
    with pytest.raises(EventError) as raised:
        invoke(read_event("s3_batch_v2", **changes))

    assert str(raised.value).startswith(reason)
