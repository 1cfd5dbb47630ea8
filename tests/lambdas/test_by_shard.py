"""The enqueue function with several shards: what a failure cuts in two, and a batch with one shard away."""

import json

import pytest
from support.enqueue_function import Context
from support.servers import find_free_port
from support.sqs import Queue, arn_of, simulated_sqs

from kiqbridge import RedisRefused
from kiqbridge.wire.json_text import loads

QUEUE_OF = {"mail": "mail", "fast": "critical", "rest": "default"}


@pytest.fixture
def start(load, environment, shards):
    """A new warm environment; `away` names a shard whose address refuses connections."""
    environment.setenv("KIQBRIDGE_ALLOWED_QUEUES", "*")

    def start(*, away=None):
        setting = dict(shards.setting)
        if away is not None:
            setting[away] = {**setting[away], "url": f"redis://127.0.0.1:{find_free_port()}/0"}
        environment.setenv("KIQBRIDGE_SHARDS", json.dumps(setting))
        app = load()
        return lambda event, context=None: app.lambda_handler(event, context or Context())

    return start


def job(number, shard="rest", **more):
    return {"class": "HealthPulse", "args": [number], "queue": QUEUE_OF[shard], **more}


def batch(*jobs, groups=None):
    return {
        "Records": [
            {
                "messageId": f"m{place}",
                "body": json.dumps(body),
                "eventSource": "aws:sqs",
                "eventSourceARN": arn_of("orders.fifo" if groups else "orders"),
                "attributes": {"MessageGroupId": groups[place]} if groups else {},
            }
            for place, body in enumerate(jobs)
        ]
    }


def failures(answer):
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


def waiting(shards):
    """Shard → the arguments of the jobs in its queue, the oldest first."""
    return {
        name: [
            loads(text)["args"][0]
            for text in reversed(raw.lrange(f"queue:{QUEUE_OF[name]}", 0, -1))
        ]
        for name, raw in shards.raw.items()
    }


def guards(shards):
    return {name: raw.hlen("kb:guards") for name, raw in shards.raw.items()}


def test_a_repeated_request_completes_what_was_cut_in_two(start, shards):
    invoke = start()
    event = {"jobs": [job(1, "mail"), job(2, "fast"), job(3, "mail")]}
    shards.raw["fast"].set("queues", "of another type")
    with pytest.raises(RedisRefused):
        invoke(event)
    assert waiting(shards)["mail"] == [1, 3]
    shards.raw["fast"].delete("queues")

    invoke(event)
    invoke(event)

    assert waiting(shards) == {"mail": [1, 3], "fast": [2], "rest": []}


def test_another_request_asks_for_jobs_of_its_own(start, shards):
    invoke = start()
    event = {"jobs": [job(1, "mail"), job(2, "fast")]}

    invoke(event)
    invoke(event, Context(aws_request_id="another"))

    assert waiting(shards) == {"mail": [1, 1], "fast": [2, 2], "rest": []}


def test_jobs_on_one_shard_have_no_guard(start, shards):
    invoke = start()

    invoke({"jobs": [job(1, "mail"), job(2, "mail", queue="mail-bulk")]})
    invoke(job(3, "fast"))

    assert guards(shards) == {"mail": 0, "fast": 0, "rest": 0}


def test_a_queue_that_was_moved_away_and_back_is_still_on_several(start, shards):
    """The repetition finds its guard, wherever the queue lies by then."""
    invoke = start()
    shards.raw["rest"].hset("kb:routes", "default", "mail 1")
    event = {"jobs": [job(1, "mail"), job(2, "rest")]}

    invoke(event)
    invoke(event)

    assert waiting(shards)["mail"] == [1]
    assert shards.raw["mail"].llen("queue:default") == 1


def test_of_a_batch_only_the_records_of_the_shard_that_is_away_fail(start, shards):
    invoke = start(away="fast")
    both = {"jobs": [job(5, "mail"), job(6, "fast")]}

    answer = invoke(batch(job(1, "mail"), job(2, "fast"), job(3, "rest"), job(4, "fast"), both))

    assert failures(answer) == ["m1", "m3", "m4"]
    assert waiting(shards) == {"mail": [1], "fast": [], "rest": [3]}


def test_a_batch_with_a_queue_of_no_shard_fails_only_there(start, shards):
    del shards.setting["rest"]
    invoke = start(away="fast")

    answer = invoke(batch(job(1, "rest"), job(2, "mail"), job(3, "fast")))

    assert failures(answer) == ["m0", "m2"]
    assert waiting(shards)["mail"] == [2]


def test_in_order_what_follows_in_the_group_is_held_back(start, shards):
    invoke = start(away="fast")
    jobs = [job(1, "mail"), job(2, "fast"), job(3, "mail"), job(4, "mail"), job(5, "rest")]

    answer = invoke(batch(*jobs, groups="aaabb"))

    assert failures(answer) == ["m1", "m2"]
    assert waiting(shards) == {"mail": [1, 4], "fast": [], "rest": [5]}


def test_in_order_a_group_goes_back_and_forth_between_shards(start, shards):
    invoke = start()
    jobs = [job(number, ("mail", "fast")[number % 2]) for number in range(8)]

    assert failures(invoke(batch(*jobs, groups="aaaaaaaa"))) == []

    assert waiting(shards) == {"mail": [0, 2, 4, 6], "fast": [1, 3, 5, 7], "rest": []}


class TestSpill:
    @pytest.fixture(autouse=True)
    def queue(self, monkeypatch, environment):
        with simulated_sqs(monkeypatch):
            queue = Queue("spill", receives=3)
            environment.setenv("KIQBRIDGE_SPILL_QUEUE_URL", queue.url)
            yield queue

    def test_only_the_records_of_the_shard_that_is_away_spill(self, start, shards, queue):
        invoke = start(away="fast")

        for first in (1, 4):  # the second time the shard is not asked
            event = batch(job(first, "mail"), job(first + 1, "fast"), job(first + 2, "rest"))
            for record in event["Records"]:
                record["messageId"] += f"-{first}"
            assert failures(invoke(event)) == []
        assert waiting(shards) == {"mail": [1, 4], "fast": [], "rest": [3, 6]}
        assert queue.size() == 2

        queue.deliver(start())
        assert sorted(waiting(shards)["fast"]) == [2, 5]

    def test_what_was_pushed_in_part_is_completed_out_of_the_spill_queue(
        self, start, shards, queue
    ):
        event = {"jobs": [job(1, "mail"), job(2, "fast")]}

        assert start(away="fast")(event)["spilled"]
        assert waiting(shards) == {"mail": [1], "fast": [], "rest": []}
        queue.deliver(start())

        assert waiting(shards) == {"mail": [1], "fast": [2], "rest": []}
