"""Jobs as Python and Ruby write them, for the tests of the operator's page."""

import json
import time


def job(jid, name="Mail", **more):
    """The text of a job; a field given as None is left out."""
    now = time.time()
    item = {
        "class": name,
        "args": [jid, {"password": "hunter2"}],
        "jid": jid,
        "queue": "default",
        "retry": True,
        "created_at": now - 200.0,
        "enqueued_at": now - 100.0,
        **more,
    }
    return json.dumps({name: value for name, value in item.items() if value is not None}).encode()


def failed(jid, name="Mail", error="OSError", **more):
    """The text of a job that has failed twice."""
    now = time.time()
    given = {
        "error_class": error,
        "error_message": f"{error} of {jid}",
        "failed_at": now - 90.0,
        "retried_at": now - 50.0,
        "retry_count": 1,
        **more,
    }
    return job(jid, name, **given)


def push(redis, queue, *texts):
    """Texts pushed to a queue in their order: the first is taken first."""
    redis.sadd("queues", queue)
    for text in texts:
        redis.lpush(f"queue:{queue}", text)


def dead(redis, count, **more):
    """So many dead jobs d0, d1 …, the first died last."""
    at = time.time()
    redis.zadd("dead", {failed(f"d{number}", **more): at - number for number in range(count)})
