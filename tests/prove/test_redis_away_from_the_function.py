"""The server is stopped under events of four sources and started again: each event is one job.

What plays AWS is small: a source delivers until it got a success (a direct caller and a schedule try again,
queues show a message again), the spill queue is polled as Lambda's event source mapping does it.
"""

import json
import os
import random
from collections import Counter

from support.enqueue_function import ENVIRONMENT, Context, load_app
from support.proving import sized
from support.servers import AOF, ServerProcess
from support.sqs import Queue, simulated_sqs

EVENTS = sized(full=5_000, sample=240)
ENVIRONMENTS = 3
SOURCES = ("direct", "bus", "standard", "fifo")
GROUPS = 7


def test_every_event_of_an_outage_is_one_job(tmp_path, tell, monkeypatch):
    rng = random.Random(12)
    with (
        simulated_sqs(monkeypatch),
        ServerProcess("valkey", tmp_path / "server", **AOF).start() as server,
        server.client() as raw,
    ):
        spill, fifo = Queue("spill"), Queue("ordered", fifo=True)
        orders, groups = Queue("orders"), Queue("groups", fifo=True)
        for name, value in {
            **ENVIRONMENT,
            "REDIS_URL": server.url,
            "KIQBRIDGE_SPILL_QUEUE_URL": spill.url,
            "KIQBRIDGE_SPILL_FIFO_QUEUE_URL": fifo.url,
        }.items():
            monkeypatch.setenv(name, value)
        apps = [load_app() for _ in range(ENVIRONMENTS)]
        counts: Counter[str] = Counter()
        jids: dict[int, str] = {}

        def invoke(event):
            answer = rng.choice(apps).lambda_handler(event, Context())
            if "batchItemFailures" not in answer:
                for kind in ("enqueued", "duplicates", "spilled"):
                    counts[f"answered {kind}"] += len(answer.get(kind, ()))
            return answer

        kinds = {number: SOURCES[number % len(SOURCES)] for number in range(EVENTS)}
        stop_at, start_at = EVENTS // 4, 3 * EVENTS // 4
        for number, source in kinds.items():
            if number == stop_at:
                server.kill()
            if number == start_at:
                counts["spilled when it came back"] = spill.size() + fifo.size()
                server.start()
            wanted = {"class": "HealthPulse", "args": [source, number]}
            if source == "standard":
                orders.send(json.dumps(wanted))
            elif source == "fifo":
                group = str(number // len(SOURCES) % GROUPS)
                groups.send(
                    json.dumps(wanted), MessageGroupId=group, MessageDeduplicationId=str(number)
                )
            else:
                deliver_alone(invoke, wanted, number, rng, jids)
            if number % 40 == 39:
                orders.deliver(invoke)
                groups.deliver(invoke)
            if number % (EVENTS // 3) == 0:
                spill.deliver(invoke)
                fifo.deliver(invoke)
        rounds = 0
        while any(queue.size() for queue in (orders, groups, spill, fifo)):
            rounds += 1
            assert rounds < 100, "the queues do not become empty"
            for queue in (orders, groups, spill, fifo):
                queue.deliver(invoke)

        pushed = [json.loads(text) for text in reversed(raw.lrange("queue:default", 0, -1))]
        numbers = Counter(each["args"][1] for each in pushed)
        distinct = {each["jid"] for each in pushed}
        dead = sum(queue.size(queue.dead_url) for queue in (orders, groups, spill, fifo))
        tell(
            f"outage test: {EVENTS} events of {len(SOURCES)} sources, server away under "
            f"{start_at - stop_at}; {counts['spilled when it came back']} messages in the spill queues when it "
            f"came back; {dict(counts)}; in Redis {len(pushed)} jobs, {len(distinct)} distinct jids, twice "
            f"{sum(count > 1 for count in numbers.values())}, missing {EVENTS - len(numbers)}, dead {dead}"
        )
        assert counts["spilled when it came back"] > 0
        assert counts["answered spilled"] > 0
        assert numbers == dict.fromkeys(kinds, 1)
        assert len(distinct) == EVENTS
        assert dead == 0
        by_number = {each["args"][1]: each["jid"] for each in pushed}
        assert {number: by_number[number] for number in jids} == jids
        assert os.environ["REDIS_URL"] == server.url


def deliver_alone(invoke, wanted, number, rng, jids):
    """A caller, or EventBridge; now and then it delivers twice. The first answer names the job."""
    if wanted["args"][0] == "bus":
        event = {
            "id": f"id-{number}",
            "source": "shop.orders",
            "detail-type": "Order placed",
            "detail": wanted,
        }
    else:
        event = {**wanted, "dedupe_key": f"id-{number}"}
    answer = invoke(event)
    [job] = [*answer["enqueued"], *answer.get("spilled", ())]
    repeats = rng.random() < 0.2
    # One that is spilled twice has two jids, and the first that comes back counts.
    again = invoke(event) if repeats else {}
    if not (again.get("spilled") or (again and not answer["enqueued"])):
        jids[number] = job["jid"]
