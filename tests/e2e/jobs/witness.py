"""What the end-to-end run enqueues for Python, and a record of every job that was performed."""

import json
import os
import time

import redis

from kiqbridge import job, server

PERFORMED = "e2e:performed"
_redis = redis.Redis.from_url(os.environ["REDIS_URL"])


def record(instance, payload, queue, call_next):
    """Write down each job that did not fail, also of those that the repository ships."""
    result = call_next()
    entry = {
        "by": "Python",
        "class": payload["class"],
        "args": payload["args"],
        "jid": payload["jid"],
        "enqueued_at": payload["enqueued_at"],
        "at": time.time(),
    }
    _redis.rpush(PERFORMED, json.dumps(entry))
    return result


server.middleware.add(record)


@job(name="Witness")
def witness(marker: str) -> str:
    """The record is what counts; a state machine gets the marker."""
    return marker


@job(name="Failing")
def failing() -> None:
    """Its error goes to the state machine that waits for it."""
    raise ValueError("as intended")
