"""Changes of a schedule while the poller promotes what was placed ahead: promoted or withdrawn, never both, never lost."""

import json
import threading
import time

import pytest
from support.engine import poller_on
from support.waiting import wait_until

from kiqbridge import Client, Schedule, Schedules
from kiqbridge.features.dynamic.placing import Placer
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = pytest.mark.any_server

KEYS = Keys()


@pytest.fixture
def promote(redis_url):
    """Promote what is due, as the poller of another process does, until the test ends."""
    pool = RedisPool(redis_url)
    poller = poller_on(pool)
    with running(lambda: poller.move_due(KEYS.schedule, time.time())):
        yield
    pool.close()


class running:  # noqa: N801 - a context manager, named as a function
    """Calls a function again and again on a thread."""

    def __init__(self, call):
        self._ended = threading.Event()
        self._errors = []
        self._thread = threading.Thread(target=self._run, args=(call,))

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        assert self._errors == []

    def _run(self, call):
        try:
            while not self._ended.is_set():
                call()
        except Exception as error:  # noqa: BLE001 - shown at the end
            self._errors.append(error)


def placer(redis_url, number):
    client = Client(redis_url)
    made = Placer(client, KEYS, by=f"worker:{number}", horizon_s=3)
    return lambda: made.place(client.pool)


def jobs(redis) -> list[int]:
    """Instants of all jobs, waiting or promoted."""
    texts = [
        *redis.zrange("schedule", 0, -1),
        *redis.lrange("queue:a", 0, -1),
        *redis.lrange("queue:b", 0, -1),
    ]
    return sorted(json.loads(text)["tick"]["at"] for text in texts)


def ledger(redis) -> list[int]:
    return sorted(json.loads(text)["at"] for text in redis.zrange("kb:ticks:s", 0, -1))


def promoted(redis) -> int:
    return redis.llen("queue:a") + redis.llen("queue:b")


@pytest.mark.slow
def test_what_is_changed_again_and_again_fires_each_second_once(redis, redis_url, promote):
    schedules = Schedules(Client(redis_url))
    schedules.save(Schedule("s", "Nop", every=1, queue="a"))
    queues = iter(range(10**9))
    clocks = []

    def change():
        clocks.append(time.time() - time.monotonic())
        schedules.save(Schedule("s", "Nop", every=1, queue="ab"[next(queues) % 2]))

    with running(change), running(placer(redis_url, 1)), running(placer(redis_url, 2)):
        wait_until(lambda: promoted(redis) >= 5, 60)
    placer(redis_url, 3)()

    found = jobs(redis)
    assert ledger(redis) == found == sorted(set(found))
    # Seconds are left out only if somebody has set the clock meanwhile.
    if max(clocks) - min(clocks) < 1:
        assert found == list(range(found[0], found[-1] + 1))


@pytest.mark.slow
def test_what_is_paused_and_resumed_again_and_again_fires_nothing_twice(redis, redis_url, promote):
    schedules = Schedules(Client(redis_url))
    schedules.save(Schedule("s", "Nop", every=1, queue="a"))

    def hold():
        schedules.pause("s")
        schedules.resume("s")
        time.sleep(0.05)  # else it would hardly ever be placed

    with running(hold), running(placer(redis_url, 1)), running(placer(redis_url, 2)):
        wait_until(lambda: promoted(redis) >= 3, 60)

    found = jobs(redis)
    assert len(found) == len(set(found))
    assert ledger(redis) == found
