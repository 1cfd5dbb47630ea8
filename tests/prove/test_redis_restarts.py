"""Redis is killed and started again and again under load, from its append-only file."""

import random

import pytest
from support.fleet import incarnations, lists_in_flight
from support.proving import (
    Pushers,
    counted,
    hold,
    hurry_retries,
    left_over,
    sized,
    unasked_tracebacks,
    wait_counted,
    wait_performed,
    wait_settled,
)
from support.servers import AOF, ServerProcess
from support.waiting import wait_until

RESTARTS = sized(full=20, sample=3)
WORKERS = 2
PER_SECOND = sized(full=150, sample=120)


def any_job(rng: random.Random) -> dict:
    draw = rng.random()
    if draw < 0.02:
        return {"class": "FailOnce", "args": []}
    if draw < 0.05:
        return {"class": "Work", "args": [rng.randint(100, 400)]}
    return {"class": "Mark", "args": [rng.choice([0, 0, 0, 1, 12])]}


@pytest.mark.parametrize(
    "kind", [pytest.param("redis", marks=pytest.mark.redis_server), pytest.param("valkey")]
)
def test_redis_restarts_repeatedly_under_load_and_no_job_is_lost(fleet, tmp_path, tell, kind):
    rng = random.Random(5)
    away = []
    with (
        ServerProcess(kind, tmp_path / "server", **AOF).start() as server,
        server.client() as raw,
        Pushers() as pushers,
    ):
        workers = [
            fleet.start("-c", "4", recover_after_s=None, url=server.url) for _ in range(WORKERS)
        ]
        leases = fleet.wait_leased(raw)
        pusher = pushers.start(server.url, any_job, per_second=PER_SECOND)

        for _ in range(RESTARTS):
            goal = len(fleet.marks.look().lines["performed"]) + 100
            wait_until(
                lambda goal=goal: len(fleet.marks.look().lines["performed"]) > goal,
                20,
                lambda: f"work under way: {len(fleet.marks.lines['performed'])}",
            )
            server.kill()
            away.append(rng.uniform(0, 1.5))
            hold(away[-1])
            server.start()
        hold(1.0)
        pusher.stop()

        wait_performed(fleet, pusher.sure, 60, retried_in=raw)
        wait_until(
            lambda: not hurry_retries(raw) and not left_over(raw) and not lists_in_flight(raw), 30
        )
        wait_settled(raw)
        executions = wait_counted(fleet, raw)

        begun, performed = fleet.marks.look().count("begun"), fleet.marks.count("performed")
        outputs = "".join(worker.output for worker in workers)
        tell(
            f"restarts ({kind}): {RESTARTS} SIGKILLs, away 0 to {max(away):.1f} s each; pushes "
            f"acknowledged {len(pusher.sure)}, refused or in doubt {pusher.unsure}; performed "
            f"{len(performed)}, of the acknowledged lost {len(pusher.sure.keys() - performed.keys())}, "
            f"failed and tried again {len(fleet.marks.lines['failed'])}, performed twice "
            f"{sum(n > 1 for n in performed.values())}; stat:processed {counted(raw)} for {executions}"
        )
        again = {jid for jid, n in begun.items() if n > 1} - fleet.marks.count("failed").keys()
        assert pusher.sure.keys() <= performed.keys()
        assert performed == dict.fromkeys(performed, 1)
        assert again == set()
        assert incarnations(raw) == leases
        assert left_over(raw) == {}
        assert unasked_tracebacks(outputs) == 0
        assert fleet.stop() == [0] * WORKERS
