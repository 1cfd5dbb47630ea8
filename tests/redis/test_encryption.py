"""Encrypted arguments as they stand on a server."""

import base64
import json

import pytest
from support.jobs import own_declarations
from support.runners import make_runner

from kiqbridge import job
from kiqbridge.client.encryption import decrypt
from kiqbridge.client.registry import default_registry

CARD = "4111-1111-1111-1111"


class Thread:
    tid = "t1"
    performing = False
    interrupted = False


@pytest.fixture
def charged(monkeypatch):
    """What the job `charge` was called with; its last argument is encrypted."""
    monkeypatch.setenv("KIQBRIDGE_ENCRYPTION_KEYS", f"1:{base64.b64encode(bytes(32)).decode()}")
    calls = []
    with own_declarations():

        @job(encrypted=True)
        def charge(user, card):
            calls.append((user, card))

        yield calls


def test_bulk_pushes_and_scheduled_jobs_are_encrypted_each_for_itself(charged, redis, client):
    client.push_bulk({"class": "charge", "args": [[1, CARD], [2, CARD]]})
    client.push({"class": "charge", "args": [3, CARD], "at": 4_000_000_000})
    client.push_once([{"class": "charge", "args": [4, CARD]}], ["event#1"])

    texts = [*redis.lrange("queue:default", 0, -1), *redis.zrange("schedule", 0, -1)]

    assert len({json.loads(text)["args"][1] for text in texts}) == 4
    assert CARD.encode() not in b"".join(texts)
    runner = make_runner(default_registry)
    for text in texts:
        assert runner.run(text, "default", Thread()) is None
    assert sorted(charged) == [(1, CARD), (2, CARD), (3, CARD), (4, CARD)]


def test_what_is_moved_by_a_worker_stays_as_it_is(charged, redis, client):
    client.push({"class": "charge", "args": [3, CARD], "at": 4_000_000_000})
    [member] = redis.zrange("schedule", 0, -1)

    queue, text = client.stamp_moved([member], 4_000_000_000.0)[0]

    assert queue == "default"
    assert json.loads(text)["args"] == json.loads(member)["args"]
    assert decrypt(json.loads(text)) == [3, CARD]
