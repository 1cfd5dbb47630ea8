"""Measures of schedules: how fast it is known when one is due next."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime

from benchmarks.outcome import OURS, Outcome, at_least
from benchmarks.stage import Stage

from kiqbridge.schedule.expression import parse_expression

COMMON = (
    ("cron(0 3 * * ? *)", "Europe/Paris"),
    ("cron(*/5 * * * ? *)", "UTC"),
    ("cron(30 8 ? * MON-FRI *)", "America/New_York"),
    ("0 3 * * 1-5", "Europe/Paris"),
    ("every 5m", "UTC"),
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def next_run(stage: Stage) -> list[Outcome]:
    """Next run after next run of common schedules, each computed from the one before."""
    runs = stage.sizes.next_runs
    slowest: list[float] = []
    told = []
    for number in range(stage.sizes.rounds):
        stage.progress.step(f"round {number + 1}")
        rates = {text: _rate(text, zone, runs) for text, zone in COMMON}
        slowest.append(min(rates.values()))
        told = [f"{text} {rate / 1000:.0f}k" for text, rate in rates.items()]
    return [
        Outcome(
            what="next run of a common schedule, the slowest of five",
            unit="runs/s",
            samples={OURS: slowest},
            target="≥ 100,000",
            met=at_least(sorted(slowest)[len(slowest) // 2], 100_000),
            note=f"{runs:,} each, CPU time of one thread; last round: {', '.join(told)}",
        )
    ]


def _rate(text: str, zone: str, runs: int) -> float:
    schedule, instant = parse_expression(text, zone, start=START), START
    began = time.thread_time()
    for _ in range(runs):
        following = schedule.next_after(instant)
        assert following is not None, text
        instant = following
    return runs / (time.thread_time() - began)


MEASURES: Sequence = (next_run,)
