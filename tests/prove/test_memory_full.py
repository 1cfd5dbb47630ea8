"""Redis' memory is full (maxmemory, noeviction): draining goes on, pushes are refused clearly, and
nothing is lost.
"""

import pytest
import redis as redis_py
from support.fleet import incarnations
from support.proving import (
    KEYS,
    counted,
    hold,
    left_over,
    sized,
    unasked_tracebacks,
    wait_counted,
    wait_performed,
    wait_settled,
)
from support.servers import ServerProcess
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.errors import RedisUnavailable

JOBS = sized(full=20_000, sample=1500)
FAILING = sized(full=300, sample=40)
FULL_S = sized(full=60.0, sample=4.0)
RECOVER_AFTER_S = sized(full=30.0, sample=3.0)
WORKERS = 2


def is_full(raw: redis_py.Redis) -> bool:
    try:
        raw.set("probe", "x")
    except redis_py.exceptions.OutOfMemoryError:
        return True
    return False


def refusals(client: Client) -> int:
    """Try every way of pushing; how many were refused, each with a message that says why."""
    item = {"class": "Mark", "args": [0]}
    pushes = (
        lambda: client.push(item),
        lambda: client.push({**item, "at": 4_000_000_000}),
        lambda: client.push_bulk({"class": "Mark", "args": [[0]] * 5}),
        lambda: client.push_once([item], ["event"]),
    )
    for push in pushes:
        with pytest.raises(RedisUnavailable, match=r"refused the call: OOM .*maxmemory"):
            push()
    return len(pushes)


@pytest.mark.parametrize(
    "kind", [pytest.param("redis", marks=pytest.mark.redis_server), pytest.param("valkey")]
)
def test_with_memory_full_workers_drain_and_pushes_are_refused(fleet, tmp_path, tell, kind):
    with (
        ServerProcess(kind, tmp_path / "server", maxmemory_policy="noeviction").start() as server,
        server.client() as raw,
    ):
        client = Client(server.url)
        first = fleet.start("-c", "4", recover_after_s=RECOVER_AFTER_S, url=server.url)
        fleet.wait_leased(raw)
        done_before = client.push_bulk({"class": "Mark", "args": [[0]] * 200})
        wait_performed(fleet, done_before, 20)
        jids = client.push_bulk({"class": "Mark", "args": [[8]] * JOBS})
        jids += client.push_bulk({"class": "FailOnce", "args": [[]] * FAILING})

        raw.config_set(
            "maxmemory", "1mb"
        )  # less than an empty server takes: draining frees nothing
        assert is_full(raw)
        refused = refusals(client)
        # One that starts now must be able to register, and to take part.
        second = fleet.start("-c", "4", recover_after_s=RECOVER_AFTER_S, url=server.url)
        leases = fleet.wait_leased(raw)
        wait_performed(fleet, jids, 90, retried_in=raw)
        wait_settled(raw)
        assert is_full(raw)
        while_full = len(fleet.marks.count("performed"))
        hold(FULL_S)  # long enough for leases to end, were they not renewed
        refused += refusals(client)
        assert incarnations(raw) == leases
        assert left_over(raw) == {}
        shares = [len(fleet.marks.by("performed", worker.pid)) for worker in (first, second)]

        raw.config_set("maxmemory", "0")
        later = client.push_bulk({"class": "Mark", "args": [[0]] * 100})
        later += client.push_bulk({"class": "FailOnce", "args": [[]] * 10})
        wait_performed(fleet, later, 30, retried_in=raw)
        executions = wait_counted(fleet, raw)
        wait_until(lambda: raw.scard(KEYS.processes) == WORKERS, 30, "both heartbeats")
        outputs = first.output + second.output
        codes = fleet.stop()
        client.close()

        ends = fleet.marks.look().count("performed")
        tell(
            f"memory full ({kind}): {while_full} jobs performed while full ({shares} by the worker of "
            f"before and by one started then), {FAILING} of them after a failure and a retry; pushes "
            f"refused {refused} of {refused}; lost {len({*jids, *later} - ends.keys())}, performed "
            f"twice {sum(n > 1 for n in ends.values())}; afterwards {len(later)} more performed; "
            f"stat:processed {counted(raw)} for {executions}"
        )
        assert ends == dict.fromkeys([*done_before, *jids, *later], 1)
        assert min(shares) > 0
        assert counted(raw) == executions
        assert left_over(raw) == {}
        assert unasked_tracebacks(outputs) == 0
        assert codes == [0] * WORKERS
