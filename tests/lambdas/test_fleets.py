"""The function where there are several fleets: each record goes to that of its queue."""

import json

import pytest
import redis as redis_py
from support.enqueue_function import Context
from support.servers import embedded_server
from support.sqs import Queue, arn_of, simulated_sqs

AWAY = "redis://127.0.0.1:1"


@pytest.fixture(scope="module")
def second_server():
    with embedded_server() as server:
        yield server


@pytest.fixture
def other(second_server):
    """The server of the fleet `pay`."""
    second_server.flush()
    with redis_py.Redis.from_url(second_server.url) as raw:
        yield raw


@pytest.fixture
def start(environment, load, second_server):
    """A new warm environment; `mail` lies in a namespace of the first server, `pay` on another one."""

    def start(pay_url=second_server.url):
        fleets = {
            "mail": {"namespace": "mail", "queues": ["mail"]},
            "pay": {"url": pay_url, "queues": ["pay"]},
        }
        environment.setenv("KIQBRIDGE_FLEETS", json.dumps(fleets))
        environment.setenv("KIQBRIDGE_ALLOWED_QUEUES", "*")
        return load().lambda_handler

    return start


def job(queue):
    return {"class": "HealthPulse", "args": [], "queue": queue}


def batch(*queues):
    return {
        "Records": [
            {
                "messageId": f"id-{place}",
                "body": json.dumps(job(queue)),
                "eventSource": "aws:sqs",
                "eventSourceARN": arn_of("orders"),
                "attributes": {},
            }
            for place, queue in enumerate(queues)
        ]
    }


def failed(answer) -> list[str]:
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def test_the_records_of_a_batch_go_to_the_fleets_of_their_queues(start, redis, other):
    answer = start()(batch("mail", "pay", "mail"), Context())

    assert failed(answer) == []
    assert redis.llen("mail:queue:mail") == 2
    assert other.llen("queue:pay") == 1


def test_a_fleet_that_is_away_fails_its_own_records(start, redis):
    answer = start(pay_url=AWAY)(batch("pay", "mail", "pay"), Context())

    assert failed(answer) == ["id-0", "id-2"]
    assert redis.llen("mail:queue:mail") == 1


def test_a_fleet_that_is_away_spills_its_own_records(start, environment, monkeypatch, redis):
    with simulated_sqs(monkeypatch):
        queue = Queue("spill", receives=3)
        environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
        handler = start(pay_url=AWAY)

        assert failed(handler(batch("pay", "mail"), Context())) == []
        assert failed(handler(batch("mail"), Context())) == []

    assert redis.llen("mail:queue:mail") == 2


def test_a_record_of_no_fleet_fails_alone(start, redis):
    answer = start()(batch("other", "mail"), Context())

    assert failed(answer) == ["id-0"]
    assert redis.llen("mail:queue:mail") == 1


def test_each_fleet_gets_the_schedules_of_its_queues(start, environment, tmp_path, redis, other):
    rule = {"expression": "rate(1 hour)", "origin": "template"}
    schedules = {
        "Mail": {**rule, "jobs": [job("mail")]},
        "Pay": {**rule, "jobs": [job("pay")]},
        "None": {**rule, "jobs": [job("other")]},
    }
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"version": 1, "hash": "a", "schedules": schedules}))
    environment.setattr("kiqbridge.aws.publishing.MANIFEST", path)
    environment.setenv("KIQBRIDGE_STACK", "shop")
    handler = start()

    answer = handler({"kiqbridge": "publish"}, Context())

    assert {name: each["schedules"] for name, each in answer["fleets"].items()} == {
        "mail": 1,
        "pay": 1,
    }
    assert redis.hkeys("mail:kb:schedules") == [b"shop/Mail"]
    assert other.hkeys("kb:schedules") == [b"shop/Pay"]
