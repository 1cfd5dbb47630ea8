"""Redis is away for longer than a lease lasts: nobody reaps the living, and nothing is lost."""

import pytest
from support.fleet import incarnations
from support.proving import hold, left_over, sized, wait_performed, wait_settled
from support.servers import AOF, ServerProcess
from support.waiting import wait_until

from kiqbridge.client.client import Client
from kiqbridge.engine.inflight.lease import LeaseTimes

AWAY_S = sized(full=40.0, sample=4.0)
RECOVER_AFTER_S = sized(full=30.0, sample=3.0)
"""In full the default. The outage is longer than the bound: silence and watch would both be over."""
WORKERS = 3
SHORT, LONG = sized(full=(4000, 600), sample=(1500, 200))


@pytest.mark.parametrize("fault", ["frozen", "killed"])
def test_an_outage_longer_than_the_recovery_bound_reaps_nobody(fleet, tmp_path, tell, fault):
    times = LeaseTimes(RECOVER_AFTER_S)
    assert times.silent_after + times.watch_for < AWAY_S
    with (
        ServerProcess("valkey", tmp_path / "server", **AOF).start() as server,
        server.client() as raw,
    ):
        workers = [
            fleet.start("-c", "4", recover_after_s=RECOVER_AFTER_S, url=server.url)
            for _ in range(WORKERS)
        ]
        leases = fleet.wait_leased(raw)
        client = Client(server.url)
        jids = client.push_bulk({"class": "Mark", "args": [[1]] * SHORT + [[15]] * LONG})
        client.close()
        wait_until(lambda: len(fleet.marks.look().lines["performed"]) > 300, 20, "work under way")

        if fault == "frozen":
            server.pause()
            hold(AWAY_S)
            server.resume()
        else:
            server.kill()
            hold(AWAY_S)
            server.start()
        begun_at_the_end = len(fleet.marks.look().lines["begun"])
        wait_performed(fleet, jids, 60)
        hold(times.silent_after + times.watch_for)  # a reaper that meant to act would have
        wait_settled(raw)

        begun, performed = fleet.marks.look().count("begun"), fleet.marks.count("performed")
        outputs = "".join(worker.output for worker in workers)
        kept = leases & incarnations(raw)
        tell(
            f"Redis {fault} for {AWAY_S:.0f} s (bound {RECOVER_AFTER_S:.0f} s): leases kept "
            f"{len(kept)} of {WORKERS}, reaped {outputs.count(' died: ')}; {begun_at_the_end} of "
            f"{len(jids)} jobs begun when it came back; performed {len(performed)}, "
            f"lost {len(set(jids) - set(performed))}, begun twice {sum(n > 1 for n in begun.values())}"
        )
        assert begun_at_the_end < len(jids)
        assert incarnations(raw) == leases
        assert " died: " not in outputs
        assert "is gone" not in outputs
        assert "Traceback" not in outputs
        assert performed == dict.fromkeys(jids, 1)
        assert begun == dict.fromkeys(jids, 1)
        assert left_over(raw) == {}
        assert fleet.stop() == [0] * WORKERS
