"""Encrypted arguments as they stand on a server."""

import base64
import json

import pytest
from support.jobs import own_declarations
from support.runners import make_runner

from kiqbridge import job
from kiqbridge.client.registry import default_registry
from kiqbridge.engine.poller import stamp_moved
from kiqbridge.errors import DecryptionFailed, PayloadError
from kiqbridge.features.encryption.arguments import decrypt
from kiqbridge.flow import call, chain, group
from kiqbridge.results import await_result, fetch_result
from kiqbridge.testing import real_jobs

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

    queue, text = stamp_moved(client, [member], 4_000_000_000.0)[0]

    assert queue == "default"
    assert json.loads(text)["args"] == json.loads(member)["args"]
    assert decrypt(json.loads(text)) == [3, CARD]


def everything(redis):
    """All that the server holds."""
    read = {
        b"string": redis.get,
        b"hash": redis.hgetall,
        b"set": redis.smembers,
        b"list": lambda key: redis.lrange(key, 0, -1),
        b"zset": lambda key: redis.zrange(key, 0, -1),
    }
    return str([read[redis.type(key)](key) for key in redis.scan_iter("*")])


def test_what_an_encrypted_job_returns_is_encrypted_where_it_is_kept_and_handed_on(
    charged, redis, redis_url, monkeypatch
):
    @job(encrypted=True, result_ttl=60)
    def decline(card: str) -> str:
        return f"declined {card}"

    @job(result_ttl=60)
    def note(text: str, more: str) -> list[str]:
        charged.append(text)
        return [text, more]

    with real_jobs(redis_url) as jobs:
        chain(call(decline, CARD), call(note, "more"), pass_result=True).perform_async()
        assert jobs.drain(limit=1) == 1
        [waiting] = redis.lrange("queue:default", 0, -1)
        assert json.loads(waiting)["kb_encrypted"] == [0]
        assert CARD not in everything(redis)
        assert jobs.drain() == 1

        assert charged == [f"declined {CARD}"]
        assert CARD not in everything(redis)
        first, second = (each.job.jid for each in jobs.performed)
        assert await_result(first) == f"declined {CARD}"
        assert await_result(second) == [f"declined {CARD}", "more"]
        monkeypatch.delenv("KIQBRIDGE_ENCRYPTION_KEYS")
        with pytest.raises(DecryptionFailed, match="key '1' is not among"):
            await_result(first)


def test_what_is_encrypted_is_no_result_of_a_group(charged, redis, redis_url, caplog):
    @job(encrypted=True)
    def decline(card: str) -> str:
        return f"declined {card}"

    @job
    def note(value: object) -> object:
        return value

    with real_jobs(redis_url) as jobs:
        with pytest.raises(PayloadError, match="has encrypted arguments"):
            group(call(decline, CARD), then=note, pass_results=True).perform_async()
        lane = chain(call(decline, CARD), note, pass_result=True)
        group(lane, then=note, pass_results=True).perform_async()
        jobs.drain()

        assert [each.job.job_class for each in jobs.performed] == ["decline", "note"]
        assert CARD not in everything(redis)
    assert "is encrypted, or has no JSON text" in caplog.text


def test_without_a_key_the_job_is_done_and_its_value_is_omitted(
    charged, redis_url, monkeypatch, caplog
):
    @job(encrypted=True, result_ttl=60)
    def decline(card: str) -> str:
        monkeypatch.delenv("KIQBRIDGE_ENCRYPTION_KEYS")
        return f"declined {card}"

    with real_jobs(redis_url) as jobs:
        jid = decline.perform_async(CARD)
        jobs.drain()

        assert fetch_result(jid).is_omitted
    assert "is not kept: KIQBRIDGE_ENCRYPTION_KEYS" in caplog.text
