"""The simulation of a fleet: no job appears or vanishes, and failures cost what they must."""

import dataclasses

import pytest

from kiqbridge.sizing.fleet_simulation import (
    HOT,
    SHARD,
    ZONE,
    Event,
    Fleet,
    percentiles,
    simulate,
)

AWAY = Event(kind=SHARD, at=10, seconds=20, number=2)
LOST = Event(kind=ZONE, at=10, seconds=20, number=1)
CROWDED = Event(kind=HOT, at=10, seconds=20, number=5, factor=3.0)


@pytest.fixture(scope="module")
def published():
    """The run of docs/scaling.md."""
    return simulate()


def test_the_same_seed_gives_the_same_result():
    assert simulate(seconds=60, seed=7) == simulate(seconds=60, seed=7)
    assert simulate(seconds=60, seed=7) != simulate(seconds=60, seed=8)


@pytest.mark.parametrize(
    "events",
    [(), (AWAY,), (LOST,), (CROWDED,), (AWAY, LOST, CROWDED)],
    ids=["none", "shard", "zone", "hot", "all at once"],
)
@pytest.mark.parametrize("wait_replicas", [False, True])
def test_each_job_that_arrived_is_done_or_waits_or_runs_or_is_counted_as_lost(
    events, wait_replicas
):
    for fleet in (
        Fleet(wait_replicas=wait_replicas),
        Fleet(wait_replicas=wait_replicas, workers=0.9, lag_s=1.0),
    ):
        for seconds in (15, 45):
            result = simulate(fleet, events, seconds=seconds)

            assert result.arrived == result.done + result.left + result.lost
            assert result.lost <= result.at_risk
            assert all(
                min(*second.waiting, second.held, second.running, second.done) >= 0
                for second in result.seconds
            )


def test_a_million_jobs_a_second_arrive_and_are_done(published):
    rate = published.arrived / len(published.seconds)

    assert 1_000_000 <= rate < 1_050_000  # the hot shard's come on top
    assert published.left < 200_000  # what runs
    assert published.arrived == published.done + published.left + published.lost


def test_the_published_failures_lose_nothing_and_are_caught_up(published):
    assert published.lost == 0
    assert published.at_risk > 0
    assert published.repeated > 0
    assert all(took is not None and took < 150 for took in published.drained_s)


def test_without_failures_nothing_waits():
    result = simulate(events=(), seconds=30)

    assert max(second.p99 for second in result.seconds) < 0.2
    assert result.repeated == result.lost == result.at_risk == 0


def test_a_shard_that_is_away_stops_its_own_jobs_only():
    result = simulate(events=(AWAY,), seconds=60)
    during = result.seconds[20]

    assert during.p99 < 0.2
    assert during.done == pytest.approx(1_000_000 * 15 / 16, rel=0.02)
    assert during.held == pytest.approx(1_000_000 / 16 * 11, rel=0.02)
    assert 10 < result.seconds[31].p99 < 25


def test_a_lost_zone_takes_its_primaries_and_its_workers():
    result = simulate(events=(LOST,), seconds=60)

    assert result.seconds[20].done == pytest.approx(1_000_000 * 11 / 16, rel=0.02)
    assert result.repeated > 0  # what its workers ran
    assert result.drained_s[0] is None or result.drained_s[0] > 10


def test_pushes_that_no_replica_had_and_nobody_had_begun_are_lost():
    """With too few workers jobs wait, and the last of them are not copied."""
    busy = Fleet(workers=0.8)

    result = simulate(busy, (AWAY,), seconds=40)
    confirmed = simulate(dataclasses.replace(busy, wait_replicas=True), (AWAY,), seconds=40)

    assert result.lost == result.at_risk > 0
    assert result.at_risk <= 62_500 * 0.3  # lag_s, and the step it falls into
    assert confirmed.lost == confirmed.at_risk == 0


def test_more_workers_catch_up_sooner():
    few, many = (
        simulate(Fleet(workers=workers), (AWAY,), seconds=160).drained_s[0]
        for workers in (1.2, 2.0)
    )

    assert few is not None
    assert many is not None
    assert many < few / 2


def test_a_hot_shard_gets_more_workers_when_its_jobs_have_waited():
    scaled, left_alone = (
        simulate(Fleet(scale=scale, scale_s=10), (CROWDED,), seconds=100).drained_s[0]
        for scale in (2.0, 1.0)
    )

    assert scaled is not None
    assert left_alone is not None
    assert scaled < left_alone


def test_percentiles_count_jobs_not_groups():
    waits = [(5.0, 1), (1.0, 98), (9.0, 1)]

    assert percentiles(waits, (0.5, 0.98, 0.99, 1.0)) == [1.0, 1.0, 5.0, 9.0]
    assert percentiles([], (0.5,)) == [0.0]
