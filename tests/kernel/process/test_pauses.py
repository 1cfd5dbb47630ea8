"""A pause of a queue with the real command: how soon it is noticed, and its end."""

import time

import pytest
from support.ruby import run_ruby
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = """
import time
from kiqbridge import job
from support.noting import note

@job
def short(name):
    note(name)
    time.sleep(0.005)
"""
FLAGS = ("-c", "2")
ENV = {"KIQBRIDGE_BEAT_S": "0.1", "KIQBRIDGE_LOG_LEVEL": "warning"}


def stands_still(read, seconds=0.5):
    """The value once it has not changed for a while."""
    seen = {"value": read(), "since": time.monotonic()}

    def settled():
        value = read()
        if value != seen["value"]:
            seen.update(value=value, since=time.monotonic())
        return time.monotonic() - seen["since"] > seconds

    wait_until(settled, 10, lambda: f"no change for {seconds} s: {seen}")
    return seen["value"]


@pytest.mark.interop
@pytest.mark.parametrize("paused_by", ["us", "ruby"])
def test_a_paused_queue_stands_still_within_a_second_and_goes_on_when_resumed(  # noqa: PLR0917 - fixtures
    start, client, seen, redis, redis_url, paused_by, tell
):
    count = 1000
    worker = start()
    client.push_bulk({"class": "short", "args": [[str(number)] for number in range(count)]})
    worker.wait_for(lambda: len(seen.all()) >= 50)

    if paused_by == "us":
        client.pause_queue("default", reason="a test")
    else:
        redis.sadd("paused", "default")
    paused_at = time.time()
    ran = stands_still(lambda: len(seen.all()))

    last = max(each["at"] for each in seen.all()) - paused_at
    tell(f"queue paused by {paused_by}: the last job began {last * 1000:.0f} ms afterwards")
    assert last < 1
    assert 50 <= ran < count
    sizes = run_ruby(
        "queue = Sidekiq::Queue.new; answer [queue.size, queue.to_a.size, Sidekiq::Stats.new.enqueued]",
        redis_url,
    )
    assert sizes == [count - ran] * 3

    if paused_by == "us":
        client.resume_queue("default")
    else:
        redis.srem("paused", "default")
    resumed_at = time.time()
    worker.wait_for(lambda: len(seen.all()) == count)
    first = seen.all()[ran]["at"] - resumed_at
    tell(f"queue resumed by {paused_by}: the first job began {first * 1000:.0f} ms afterwards")
    assert first < 1
    assert len(set(seen.events())) == count
    assert worker.stop() == 0
