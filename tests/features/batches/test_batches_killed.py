"""Workers are killed while they perform the jobs of batches and chains: each callback is pushed once."""

import json
from collections import Counter
from pathlib import Path

import pytest
from support.waiting import wait_until
from support.workers import started_workers

from kiqbridge import Client
from kiqbridge.features.batches.calls import Call
from kiqbridge.flow import Batch, chain

JOBS = Path(__file__).parent / "jobs" / "flows.py"
BATCHES, JOBS_EACH, LINKS = 3, 40, 10
KILLED_AFTER = (10, 45, 90)
"""Performed jobs after which the worker is killed."""


def called(name, *args, queue="default"):
    return Call({"class": name, "args": list(args), "queue": queue})


def performed(marks):
    return marks.read_text().splitlines() if marks.exists() else []


def pushed_callbacks(redis):
    """What waits in a queue that nobody serves."""
    return [json.loads(text) for text in redis.lrange("queue:callbacks", 0, -1)]


@pytest.mark.slow
def test_each_callback_is_pushed_once_and_a_chain_goes_on_whatever_is_killed(
    redis, redis_url, tmp_path, tell
):
    marks = tmp_path / "marks"
    client = Client(redis_url)
    made = []
    for number in range(BATCHES):
        callbacks = {
            f"on_{event}": called("Callback", f"{number} {event}", queue="callbacks")
            for event in ("success", "complete", "death")
        }
        with Batch(client=client, **callbacks) as batch:
            client.push_bulk(
                {"class": "FlowStep", "args": [[f"{number}.{place}"] for place in range(JOBS_EACH)]}
            )
        made.append(batch)
    links = [called("FlowStep", f"chain.{place}") for place in range(LINKS)]
    end = called("Callback", "end of the chain", queue="callbacks")
    chain(*links, end).perform_async(client=client)
    due = BATCHES * 2 + 1

    env = {"MARKS": str(marks), "KIQBRIDGE_RECOVER_AFTER_S": "4", "KIQBRIDGE_LOG_FORMAT": "plain"}
    with started_workers("-r", str(JOBS), "-c", "4", env=env, redis_url=redis_url) as start:
        worker = start()
        for count in KILLED_AFTER:
            wait_until(lambda: len(performed(marks)) >= count, 60)  # noqa: B023 - waited for here
            worker.kill()
            worker = start()
        wait_until(
            lambda: len(pushed_callbacks(redis)) >= due and not redis.exists("kb:flow:ends"),
            90,
            lambda: f"{len(pushed_callbacks(redis))} callbacks of {due}",
            interval_s=0.1,
        )
        assert worker.stop() == 0

    lines = performed(marks)
    in_chain = list(dict.fromkeys(line for line in lines if line.startswith("chain.")))
    again = len(lines) - len(set(lines))
    tell(
        f"batches: {BATCHES} of {JOBS_EACH} jobs and a chain of {LINKS}, {len(KILLED_AFTER)} SIGKILLs; performed "
        f"{len(lines)}, so again {again}; each of {due} callbacks pushed once"
    )
    counts = Counter(payload["args"][0] for payload in pushed_callbacks(redis))
    assert counts == {
        **{
            f"{number} {event}": 1 for number in range(BATCHES) for event in ("success", "complete")
        },
        "end of the chain": 1,
    }
    assert in_chain == [f"chain.{place}" for place in range(LINKS)]
    assert len(set(lines)) == BATCHES * JOBS_EACH + LINKS
    for batch in made:
        assert batch.status().success
        assert (batch.status().total, batch.status().pending) == (JOBS_EACH, 0)
    client.close()
