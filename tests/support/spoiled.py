"""A system in which nearly everything goes wrong."""

import json
import time

from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


def text(jid, at, name="Mail"):
    item = {"class": name, "args": [], "jid": jid, "queue": "default", "enqueued_at": at}
    return json.dumps(item).encode()


def live(redis, identity="host:1:aaa", queues=("default",), **fields):
    info = {"queues": list(queues), "concurrency": 5, "labels": ["kiqbridge"]}
    redis.sadd("processes", identity)
    redis.hset(
        identity,
        mapping={
            "info": json.dumps(info),
            "busy": 1,
            "beat": time.time(),
            "quiet": "false",
            **fields,
        },
    )


def spoil(redis, redis_url, operator, now):
    """Let nearly everything go wrong that a server can show."""
    redis.sadd("queues", "default", "mail")
    redis.lpush("queue:default", text("a", now - 120), text("b", now))
    redis.lpush("queue:mail", b"no json")
    redis.lpush("kb:suspects:mail", text("c", now))
    live(redis)
    work = {"queue": "default", "payload": text("r", now).decode(), "run_at": int(now) - 9000}
    redis.hset("host:1:aaa:work", "tid", json.dumps(work))
    redis.zadd("retry", {text("x", now): now - 70, text("y", now): now + 70})
    redis.zadd("schedule", {text("z", now): now + 70})
    redis.zadd("dead", {text("d", now): now - 60, text("e", now): now - 7200})
    operator.client.pause_queue("mail", reason="migration", by="ann")
    at = int(now) - 600
    redis.zadd("kb:missed", {f"{at} shop/Nightly": at, f"{at - 60} shop/Other": at - 60})
    redis.zadd("kb:ticks:shop/Other", {"{}": at - 60})
    metrics = Metrics(Keys(), identity="host:1:aaa", forms="both")
    for _ in range(30):
        metrics.record("Mail", 1.0, True)
    metrics.flush(RedisPool(redis_url).connection(), now)
