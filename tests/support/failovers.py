"""What proofs need in which a primary changes: the jobs, and who holds which of them."""

import json
import random
import time

import redis as redis_py

from kiqbridge.wire.keys import Keys
from support.fleet import KEYS, lists_in_flight


def any_job(rng: random.Random) -> dict:
    draw = rng.random()
    if draw < 0.03:
        return {"class": "FailOnce", "args": []}
    if draw < 0.06:
        return {"class": "Work", "args": [rng.randint(100, 400)]}
    if draw < 0.12:
        return {"class": "Mark", "args": [0], "at": time.time() + rng.uniform(0.2, 1.5)}
    return {"class": "Mark", "args": [rng.choice([0, 0, 1, 12])]}


class Holders:
    """Which incarnation held which jobs, seen often enough that what stays in flight is seen."""

    def __init__(self, keys: Keys = KEYS) -> None:
        self._keys = keys
        self._held: dict[str, set[str]] = {}

    def look(self, raw: redis_py.Redis) -> None:
        for name, jobs in lists_in_flight(raw, self._keys).items():
            incarnation = name.removeprefix(f"{self._keys.inflight}:").rsplit(":", 2)[0]
            self._held.setdefault(incarnation, set()).update(json.loads(job)["jid"] for job in jobs)

    def held_by_others_than(self, living: set[str]) -> set[str]:
        return set().union(*(jids for name, jids in self._held.items() if name not in living))


def jids_in(raw: redis_py.Redis, keys: Keys = KEYS) -> list[str]:
    """The jobs that a server knows, wherever they are."""
    texts = raw.lrange(keys.queue("default"), 0, -1)
    for key in (keys.retry, keys.schedule, keys.dead):
        texts += raw.zrange(key, 0, -1)
    for jobs in lists_in_flight(raw, keys).values():
        texts += jobs
    return [json.loads(text)["jid"] for text in texts]
