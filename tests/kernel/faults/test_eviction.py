"""A server whose memory is full, with a policy that evicts what has a TTL; and one that is busy."""

import signal

import pytest
import redis as redis_py
from support.fleet import Fleet, freeze, incarnations, settle
from support.servers import debian_server, embedded_server
from support.waiting import wait_until

from kiqbridge.client.client import Client

pytestmark = pytest.mark.slow

RECOVER_AFTER_S = 3.0
PADDING = b"x" * 10_000


@pytest.fixture
def own_server(session_server):
    """Of this test alone: its settings are changed."""
    make = {"valkey": embedded_server, "redis": debian_server}[session_server.name]
    with make() as server:
        yield server


@pytest.fixture
def redis(own_server):
    with redis_py.Redis(port=own_server.port, socket_timeout=60) as client:
        yield client


@pytest.fixture
def fleet(own_server, tmp_path):
    with Fleet(own_server.url, tmp_path) as fleet:
        yield fleet


def start_holding(fleet, redis, url, count, recover_after_s=RECOVER_AFTER_S):
    """So many workers, each with a job that does not end."""
    client = Client(url)
    jids = client.push_bulk({"class": "Hold", "args": [[]] * count})
    client.close()
    workers = [fleet.start("-c", "1", recover_after_s=recover_after_s) for _ in range(count)]
    for worker in workers:
        worker.wait_for(lambda pid=worker.pid: incarnations(redis, pid), what="its lease")
        worker.wait_for(lambda pid=worker.pid: fleet.marks.look().running(pid), what="a job")
    return jids


def test_the_living_do_not_reap_each_other_while_everything_with_a_ttl_is_evicted(
    fleet, own_server, redis, tell
):
    jids = start_holding(fleet, redis, own_server.url, 3)
    leases = incarnations(redis)
    redis.config_set("maxmemory-policy", "volatile-lru")
    redis.config_set("maxmemory", redis.info("memory")["used_memory"] + 1_000_000)
    ends_at = redis.time()[0] + 4 * RECOVER_AFTER_S
    refused = 0

    def keep_it_full():
        nonlocal refused
        try:
            redis.lpush("queue:backlog", PADDING)
        except redis_py.RedisError:
            refused += 1
        return refused > 100 and redis.time()[0] > ends_at

    wait_until(keep_it_full, 60, "four times the bound with a full memory")
    outputs = "".join(worker.output for worker in fleet.live)
    tell(
        f"eviction test: memory full for {4 * RECOVER_AFTER_S:.0f} s (bound {RECOVER_AFTER_S:.0f} s), "
        f"{redis.info('stats')['evicted_keys']} keys evicted, {refused} writes refused; leases kept "
        f"{len(leases & incarnations(redis))} of {len(leases)}"
    )

    assert redis.info("stats")["evicted_keys"] > 0
    assert incarnations(redis) == leases
    assert "died" not in outputs
    assert "is gone" not in outputs
    assert fleet.marks.look().count("begun") == dict.fromkeys(jids, 1)
    redis.config_set("maxmemory", 0)


def test_while_redis_is_busy_nobody_is_watched(fleet, own_server, redis):
    redis.config_set("busy-reply-threshold", 100)
    jids = start_holding(fleet, redis, own_server.url, 2, recover_after_s=6)
    frozen, watcher = fleet.live
    [of_frozen] = incarnations(redis, frozen.pid)
    [of_watcher] = incarnations(redis, watcher.pid)
    freeze(frozen, redis)
    # Silent for longer than it may be (2 s), and watched for less than it takes: the fault is the time.
    silent_at = redis.time()[0] + 3
    wait_until(lambda: redis.time()[0] >= silent_at, 20, interval_s=0.1)

    before = redis.hget("kb:alive", of_watcher)
    redis.eval(
        "local from = redis.call('TIME')[1] + 0 "
        "repeat until redis.call('TIME')[1] - from >= tonumber(ARGV[1])",
        0,
        10,
    )
    wait_until(lambda: redis.hget("kb:alive", of_watcher) != before, 20, "a beat of the watcher")
    settle(redis)  # with the look that follows a beat
    assert of_frozen in incarnations(redis)
    frozen.signal(signal.SIGCONT)

    seen = redis.hget("kb:alive", of_frozen)
    wait_until(lambda: redis.hget("kb:alive", of_frozen) != seen, 20, "a beat of the frozen one")
    assert incarnations(redis) == {of_frozen, of_watcher}
    assert "died" not in watcher.output
    assert fleet.marks.look().count("begun") == dict.fromkeys(jids, 1)
