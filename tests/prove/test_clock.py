"""Somebody sets the clock of a worker, or of Redis, by an hour: nothing stalls, and nobody is reaped.

The wall clock alone jumps (libfaketime, preloaded into one process); the other clocks go on.
"""

import signal
import time

import pytest
from support.faketime import WallClock
from support.fleet import KEYS, incarnations
from support.proving import (
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
from support.workers import find_identity

from kiqbridge.client.client import Client

pytestmark = pytest.mark.faketime

HOUR_S = 3600
JUMPS = sized(full=(HOUR_S, 0, -HOUR_S, HOUR_S), sample=(HOUR_S, -HOUR_S))
RECOVER_AFTER_S = sized(full=30.0, sample=3.0)
DUE_IN_S = 1.0
LATE_S = 3.0
"""A leader that is not there takes longer to be replaced; a poller that stalls an hour."""


@pytest.mark.parametrize("whose", ["worker", "server"])
def test_a_clock_that_jumps_by_an_hour_stalls_nothing_and_reaps_nobody(
    fleet, tmp_path, tell, whose
):
    library = {"worker": "libfaketimeMT.so.1", "server": "libfaketime.so.1"}[whose]
    clock = WallClock(tmp_path / "clock", library)
    late = []
    # Debian's redis-server allocates with jemalloc, which asks for the time before libfaketime can tell.
    server = ServerProcess(
        "valkey", tmp_path / "server", env=clock.env if whose == "server" else None
    )
    with server.start(), server.client() as raw:
        client = Client(server.url)
        # The one whose clock jumps also polls, since it is the first.
        jumper = fleet.start(
            "-c",
            "2",
            recover_after_s=RECOVER_AFTER_S,
            url=server.url,
            env=clock.env if whose == "worker" else None,
        )
        jumper.wait_for(lambda: raw.exists(KEYS.poller), what="its lead")
        other = fleet.start("-c", "2", recover_after_s=RECOVER_AFTER_S, url=server.url)
        leases = fleet.wait_leased(raw)
        wait_until(lambda: find_identity(raw, other.pid), 10, "its heartbeat")
        hold(1.0)  # which comes just before its poller asks what time it is
        jids = []

        for offset in JUMPS:
            clock.jump(offset)
            if whose == "server":
                wait_until(lambda o=offset: abs(raw.time()[0] - time.time() - o) < 5, 5, "the jump")
            now_jids = client.push_bulk({"class": "Mark", "args": [[1]] * 100})
            wait_performed(fleet, now_jids, 10)

            due = time.time() + DUE_IN_S
            at_due = time.monotonic() + DUE_IN_S
            scheduled = client.push_bulk({"class": "Mark", "args": [[0]] * 5, "at": due})
            failing = client.push_bulk({"class": "FailOnce", "args": [[]] * 5})
            wait_performed(fleet, scheduled, DUE_IN_S + 15)
            done_at = {
                jid: at
                for (jid, _), at in zip(
                    fleet.marks.lines["performed"], fleet.marks.times["performed"], strict=True
                )
            }
            late += [done_at[jid] - at_due for jid in scheduled]
            wait_performed(fleet, failing, 15, retried_in=raw)
            hold(RECOVER_AFTER_S)  # who should be taken for dead would have been by now
            assert incarnations(raw) == leases
            jids += [*now_jids, *scheduled, *failing]

        wait_settled(raw)
        wait_counted(fleet, raw)
        assert find_identity(raw, jumper.pid)
        running = client.push_bulk({"class": "Work", "args": [[1500]] * 4})
        jids += running
        wait_until(
            lambda: (
                set().union(*(fleet.marks.look().running(w.pid) for w in fleet.live)) == {*running}
            ),
            10,
            "jobs that run at the shutdown",
        )
        clock.jump(-JUMPS[-1])  # in the midst of it
        asked_at = time.monotonic()
        for worker in fleet.live:
            worker.signal(signal.SIGTERM)
        clock.jump(JUMPS[-1])
        codes = [worker.wait(20) for worker in fleet.live]
        ended_after = time.monotonic() - asked_at
        outputs = jumper.output + other.output
        fleet.live.clear()
        client.close()

        performed = fleet.marks.look().count("performed")
        tell(
            f"clock of the {whose}: {', '.join(f'{jump:+d} s' for jump in JUMPS)}; performed "
            f"{len(performed)} of {len(jids)}, performed twice "
            f"{sum(n > 1 for n in performed.values())}; scheduled jobs {min(late):+.2f} to "
            f"{max(late):+.2f} s after they were due; leases kept {len(leases)} of 2, reaped "
            f"{outputs.count(' died: ')}; the shutdown took {ended_after:.1f} s"
        )
        assert performed == dict.fromkeys(jids, 1)
        assert max(late) < LATE_S
        assert min(late) > -0.1
        assert " died: " not in outputs
        assert "is gone" not in outputs
        assert unasked_tracebacks(outputs) == 0
        assert ended_after < 10
        assert left_over(raw) == {}
        assert codes == [0, 0]
