"""The leader's watch: who notifies, and under which name it enqueues."""

import json

from kiqbridge.clocks.hooks import MissedTickHooks
from kiqbridge.engine.schedule_leader import MissedWatch

RULE = {
    "expression": "cron(* * * * ? *)",
    "jobs": [{"class": "Report", "args": []}],
    "origin": "template",
    "missed": "last",
}


def test_what_is_missing_is_counted_notified_and_enqueued_by_this_worker(client, redis, pool):
    since = int(redis.time()[0]) - 600
    redis.hset("kb:schedules", "shop/A", json.dumps(RULE | {"since": since}))
    entry = {"version": 1, "hash": "x", "published_at": since, "names": ["shop/A"]}
    redis.hset("kb:manifests", "shop", json.dumps(entry))
    seen = []
    watch = MissedWatch(
        client,
        identity="host:1:abc",
        hooks=lambda: MissedTickHooks([], [seen.append], by="worker:a"),
    )

    watch.step.call(pool.connection())
    watch.step.call(pool.connection())
    watch.stop()

    assert 4 <= len(seen) == watch.found <= 6
    assert [each.enqueued for each in seen] == [False] * (len(seen) - 1) + [True]
    [entry] = redis.zrange("kb:ticks:shop/A", 0, -1)
    assert json.loads(entry)["by"] == "worker:host:1:abc"
