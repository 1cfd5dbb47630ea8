"""Subscriptions of CloudWatch Logs: unpacked within bounds, and mapped."""

import base64
import gzip
import json

import pytest
from support.enqueue_function import read_event

from kiqbridge import EventError
from kiqbridge.features.log_events.logs import LARGEST

BATCH = {
    "messageType": "DATA_MESSAGE",
    "owner": "123456789012",
    "logGroup": "/aws/lambda/shop",
    "logStream": "s",
    "logEvents": [{"id": "1", "timestamp": 1, "message": "a"}, {"id": "2", "message": "b"}],
}
TAKE_ALL = """
mappings:
  - match: {log-group: "/aws/lambda/*"}
    class: HealthPulse
    args: [logStream, 'logEvents[].message']
"""


def packed(value):
    data = value if isinstance(value, bytes) else gzip.compress(json.dumps(value).encode(), mtime=0)
    return {"awslogs": {"data": base64.b64encode(data).decode()}}


def test_a_batch_is_mapped_and_enqueued_once(mapped, redis):
    invoke = mapped(TAKE_ALL)

    first, second = invoke(packed(BATCH)), invoke(packed(BATCH))

    assert second["duplicates"] == first["enqueued"]
    assert json.loads(redis.lindex("queue:default", 0))["args"] == ["s", ["a", "b"]]


@pytest.mark.parametrize(
    "changes",
    [
        {"logStream": "t"},
        {"owner": "210987654321"},
        {"logEvents": BATCH["logEvents"][:1]},
        {"logGroup": "/aws/lambda/other"},
    ],
    ids=str,
)
def test_another_batch_is_another_event(mapped, redis, changes):
    invoke = mapped(TAKE_ALL)

    invoke(packed(BATCH))
    invoke(packed(BATCH | changes))

    assert redis.llen("queue:default") == 2


def test_a_control_message_is_answered(invoke, redis):
    assert invoke(read_event("logs_control")) is None

    assert redis.dbsize() == 0


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"awslogs": 5}, "awslogs: 5 is not an object"),
        ({"awslogs": {}}, "awslogs.data: None is not a text"),
        ({"awslogs": {"data": "%"}}, "awslogs.data: '%' is not Base64"),
        (packed(b"plain"), "awslogs.data: is not gzip"),
        (
            packed(gzip.compress(json.dumps(BATCH).encode(), mtime=0)[:-40]),
            "awslogs.data: is not the gzip of a JSON text",
        ),
        (
            packed(gzip.compress(b"no json", mtime=0)),
            "awslogs.data: is not the gzip of a JSON text",
        ),
        (
            packed(gzip.compress(b"[" * 5000, mtime=0)),
            "awslogs.data: is not the gzip of a JSON text",
        ),
        (packed([1]), "awslogs.data: [1] is not a batch of CloudWatch Logs"),
        (packed(BATCH | {"logGroup": None}), "awslogs.data.logGroup: None is not a text"),
        (packed(BATCH | {"logEvents": []}), "awslogs.data.logEvents: [] is not a list with events"),
        (packed(BATCH | {"logEvents": [{}]}), "awslogs.data.logEvents.id: None is not a text"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_unpacked_is_refused(invoke, redis, event, reason):
    with pytest.raises(EventError) as raised:
        invoke(event)

    assert str(raised.value).startswith(reason)
    assert redis.dbsize() == 0


def test_decompression_is_bounded(invoke):
    bomb = gzip.compress(b" " * (LARGEST + 1))
    assert len(bomb) < 10_000

    with pytest.raises(EventError, match=r"more than 8,388,608 bytes after decompression"):
        invoke(packed(bomb))
