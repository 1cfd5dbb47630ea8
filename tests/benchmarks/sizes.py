"""How much is measured: in full for docs/explanation/benchmarks.md, quick while tuning, tiny for the tests."""

from types import SimpleNamespace


class Sizes(SimpleNamespace):
    """Counts are jobs, unless the name says otherwise."""


_FULL_QUICK_TINY = {
    "rounds": (5, 1, 1),
    "mood_rounds": (11, 1, 1),
    "mixed": (5_000, 1_000, 50),
    "noop": (100_000, 30_000, 300),
    "log_lines": (50_000, 15_000, 300),
    "distant": (10_000, 2_000, 50),
    "failing": (10_000, 2_000, 50),
    "io_threads": (10_000, 3_000, 50),
    "io_async": (50_000, 10_000, 100),
    "pick_ups": (200, 50, 5),
    "due": (50_000, 10_000, 200),
    "scheduled": (300, 50, 3),
    "pushes": (10_000, 2_000, 50),
    "bulk": (100_000, 20_000, 2_000),
    "carried": (20_000, 5_000, 500),
    "idle_s": (60, 15, 0.5),
    "fleets": ((1, 20, 200, 1_000), (1, 20, 200), (2,)),
    "fleet_s": (10, 2, 0.2),
    "real_fleets": ((1, 30), (1, 5), (1,)),
    "idle_fleets": ((1, 100, 1000), (1, 50), (1, 3)),
    "idle_fleet_s": (30, 6, 0.3),
    "deploy": (200, 30, 3),
    "deploy_normal_s": (10, 4, 1.5),
    "memory": (1_000_000, 50_000, 500),
    "peer": (5_000, 2_000, 50),
    "few_queued": (100_000, 30_000, 200),
    "many_queued": (5_000_000, 500_000, 1_000),
    "lambda_starts": (5, 1, 1),
    "next_runs": (20_000, 20_000, 500),
}
FULL, QUICK, TINY = (
    Sizes(**dict(zip(_FULL_QUICK_TINY, column, strict=True)))
    for column in zip(*_FULL_QUICK_TINY.values(), strict=True)
)
TABLE = Sizes(
    **{
        **vars(FULL),
        "rounds": 3,
        "lambda_starts": 3,
        "fleet_s": 2,
        "noop": 50_000,
        "real_fleets": (30,),
    }
)
"""The lines that come first on the page, in seven minutes."""
