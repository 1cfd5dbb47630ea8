"""The network between a worker and Redis misbehaves: it stalls with the socket open, cuts, is slow,
swallows replies and talks nonsense. The worker recovers each time and nothing is lost.
"""

import time

from support.fleet import KEYS, Fleet, incarnations, jids_in_flight
from support.proving import (
    counted,
    hold,
    left_over,
    sized,
    unasked_tracebacks,
    wait_counted,
    wait_performed,
    wait_settled,
)
from support.proxy import UnsteadyProxy
from support.waiting import wait_until
from support.workers import find_identity

from kiqbridge.client.client import Client

STALL_S = sized(full=30.0, sample=5.0)
RECOVER_AFTER_S = sized(full=30.0, sample=4.0)
CUTS = sized(full=40, sample=8)
LOST_REPLIES = sized(full=60, sample=12)
JOBS = sized(full=1500, sample=300)
BEAT_S = 1.0

NONSENSE = [
    b"\xde\xad\xbe\xef\r\n",
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    b"$-7\r\n",
    b"$3\r\nyes\r\n",
    b"*1\r\n$4\r\n",
    b":7\r\n",
    b"+OK\r\n",
    b"*-1\r\n",
    b"*2\r\n:1\r\n:2\r\n",
    b"-ERR what are you talking about\r\n",
    b"\r\n",
]
"""What is no RESP, what is half of it, and what is RESP but not what was asked for."""


class Line:
    """A worker behind an unsteady line, and the truth seen past it."""

    def __init__(self, fleet: Fleet, raw, proxy, *, client, tell) -> None:
        self.fleet, self.raw, self.proxy = fleet, raw, proxy
        self._client, self._tell = client, tell
        self.worker = fleet.start(
            "-c",
            "4",
            recover_after_s=RECOVER_AFTER_S,
            url=proxy.url,
            env={"KIQBRIDGE_BEAT_S": str(BEAT_S)},
        )
        fleet.wait_leased(raw)
        self.jids: list[str] = []

    def push(self, count: int) -> list[str]:
        """A mixed load, pushed past the line."""
        jids = self._client.push_bulk(
            {"class": "Mark", "args": [[0]] * (count * 8 // 10) + [[8]] * (count * 2 // 10)}
        )
        jids += self._client.push_bulk({"class": "FailOnce", "args": [[]] * 5})
        self.jids += jids
        return jids

    def push_long(self, count: int) -> list[str]:
        """Jobs of which some are running whenever one looks."""
        jids = self._client.push_bulk({"class": "Mark", "args": [[50]] * count})
        self.jids += jids
        return jids

    def recover(self, fault: str, jids: list[str]) -> None:
        """The fault is over: all is performed, the heartbeat is back, the counters are right."""
        over_at = time.monotonic()
        wait_performed(self.fleet, jids, 40, retried_in=self.raw)
        work_s = time.monotonic() - over_at
        wait_settled(self.raw, 3 * RECOVER_AFTER_S)
        beat = self._beat()
        wait_until(lambda: self._beat() > beat, 15, f"a heartbeat after: {fault}")
        executions = wait_counted(self.fleet, self.raw)
        again = sum(n > 1 for n in self.fleet.marks.count("performed").values())
        self._tell(
            f"network, {fault}: all {len(jids)} jobs performed {work_s:.1f} s after its end; so far "
            f"performed twice {again}; stat:processed {counted(self.raw)} for {executions} "
            f"executions; replies lost {self.proxy.replies_lost}"
        )
        assert self.worker.is_running

    def _beat(self) -> float:
        identity = find_identity(self.raw, self.worker.pid)
        return float(self.raw.hget(identity, "beat") or 0) if identity else 0.0


def test_the_worker_recovers_from_each_fault_of_the_network(fleet, server, redis, tell):
    client = Client(server.url)
    with UnsteadyProxy(server.port) as proxy:
        line = Line(fleet, redis, proxy, client=client, tell=tell)
        leases = incarnations(redis)

        for delay_ms in (1, 50):
            proxy.delay_s = delay_ms / 1000
            jids = line.push(JOBS)
            wait_performed(fleet, jids[:-5], 60)
            proxy.delay_s = 0
            line.recover(f"{delay_ms} ms later", jids)
            assert counted(redis) == fleet.marks.executions()

        jids = line.push(JOBS)
        cut = 0
        for _ in range(CUTS):
            hold(0.05)
            cut += proxy.cut()
        line.recover(f"{cut} connections cut", jids)
        assert incarnations(redis) == leases
        once = fleet.marks.count("performed")
        assert once == dict.fromkeys(line.jids, 1)

        jids = line.push(JOBS)
        proxy.lose_replies(LOST_REPLIES)
        wait_until(lambda: proxy.is_done, 60, "the replies being swallowed")
        line.recover(f"{LOST_REPLIES} replies swallowed", jids)
        once = fleet.marks.count("performed")
        assert once == dict.fromkeys(line.jids, 1)

        jids = line.push(JOBS)
        proxy.talk_nonsense(NONSENSE * sized(full=5, sample=1))
        wait_until(lambda: proxy.is_done, 90, lambda: f"nonsense; {line.worker.output[-3000:]}")
        line.recover("nonsense for replies", jids)
        complaints = unasked_tracebacks(line.worker.output)
        # Some nonsense is an answer, such as that the lease is gone: then its jobs are given back, and run again.
        believed = {jid for jid, n in fleet.marks.count("performed").items() if n > 1}

        # Alone: nobody else watches, so the lease is still there when the line flows again.
        jids = line.push(JOBS)
        proxy.stall()
        hold(STALL_S)
        proxy.flow()
        line.recover(f"a stall of {STALL_S:.0f} s", jids)

        # Beside one with a line of its own: its jobs are given to that one, and it is fenced off.
        before = incarnations(redis, line.worker.pid)
        jids = line.push(JOBS)
        fleet.start("-c", "2", recover_after_s=RECOVER_AFTER_S, url=server.url)
        fleet.wait_leased(redis)
        jids += line.push(JOBS)
        jids += line.push_long(sized(full=600, sample=150))
        line.worker.wait_for(
            lambda: len(fleet.marks.look().running(line.worker.pid)) == 4,
            what="threads in long jobs",
        )
        proxy.stall()
        held = jids_in_flight(redis, before)
        hold(STALL_S)
        proxy.flow()
        line.recover(f"a stall of {STALL_S:.0f} s beside another worker", jids)
        line.worker.wait_for(lambda: incarnations(redis, line.worker.pid), what="a lease")

        performed = fleet.marks.look().count("performed")
        outputs = "".join(worker.output for worker in fleet.live)
        codes = fleet.stop()
    client.close()
    tell(
        f"network: performed {len(performed)} of {len(line.jids)}, lost "
        f"{len(set(line.jids) - performed.keys())}, performed twice "
        f"{sum(n > 1 for n in performed.values())} (held when the line stalled: {len(held)}); "
        f"stat:processed {counted(redis)} for {fleet.marks.executions()} executions"
    )
    assert performed.keys() == set(line.jids)
    assert {jid for jid, count in performed.items() if count > 1} <= held | believed
    assert counted(redis) == fleet.marks.executions()
    # A thread that looks after others may log what it could not make sense of; none did otherwise.
    assert unasked_tracebacks(outputs) == complaints
    assert left_over(redis) == {}
    assert redis.scard(KEYS.processes) == 0
    assert codes == [0, 0]
