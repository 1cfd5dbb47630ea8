"""How much is measured: in full for docs/benchmarks.md, quick while tuning, tiny for the tests."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Counts are jobs, unless the name says otherwise."""

    rounds: int
    noop: int
    log_lines: int
    distant: int
    failing: int
    io_threads: int
    io_async: int
    pick_ups: int
    due: int
    scheduled: int
    pushes: int
    bulk: int
    carried: int
    idle_s: float
    fleets: tuple[int, ...]
    fleet_s: float
    real_fleets: tuple[int, ...]
    idle_fleets: tuple[int, ...]
    idle_fleet_s: float
    deploy: int
    deploy_normal_s: float
    memory: int
    peer: int
    few_queued: int
    many_queued: int
    lambda_starts: int
    next_runs: int


FULL = Sizes(
    rounds=5,
    noop=100_000,
    log_lines=50_000,
    distant=10_000,
    failing=10_000,
    io_threads=10_000,
    io_async=50_000,
    pick_ups=200,
    due=50_000,
    scheduled=300,
    pushes=10_000,
    bulk=100_000,
    carried=20_000,
    idle_s=60,
    fleets=(1, 20, 200, 1_000),
    fleet_s=10,
    real_fleets=(1, 20, 50),
    idle_fleets=(1, 100, 1000),
    idle_fleet_s=30,
    deploy=200,
    deploy_normal_s=10,
    memory=1_000_000,
    peer=5_000,
    few_queued=100_000,
    many_queued=5_000_000,
    lambda_starts=5,
    next_runs=20_000,
)
QUICK = Sizes(
    rounds=1,
    noop=30_000,
    log_lines=15_000,
    distant=2_000,
    failing=2_000,
    io_threads=3_000,
    io_async=10_000,
    pick_ups=50,
    due=10_000,
    scheduled=50,
    pushes=2_000,
    bulk=20_000,
    carried=5_000,
    idle_s=15,
    fleets=(1, 20, 200),
    fleet_s=2,
    real_fleets=(1, 5),
    idle_fleets=(1, 50),
    idle_fleet_s=6,
    deploy=30,
    deploy_normal_s=4,
    memory=50_000,
    peer=2_000,
    few_queued=30_000,
    many_queued=500_000,
    lambda_starts=1,
    next_runs=20_000,
)
TINY = Sizes(
    rounds=1,
    noop=300,
    log_lines=300,
    distant=50,
    failing=50,
    io_threads=50,
    io_async=100,
    pick_ups=5,
    due=200,
    scheduled=3,
    pushes=50,
    bulk=2_000,
    carried=500,
    idle_s=0.5,
    fleets=(2,),
    fleet_s=0.2,
    real_fleets=(1,),
    idle_fleets=(1, 3),
    idle_fleet_s=0.3,
    deploy=3,
    deploy_normal_s=1.5,
    memory=500,
    peer=50,
    few_queued=200,
    many_queued=1_000,
    lambda_starts=1,
    next_runs=500,
)
