"""Sums over the firings of a simulation."""

from datetime import UTC, datetime

from kiqbridge.schedule.simulation import Load

START = int(datetime(2026, 3, 29, tzinfo=UTC).timestamp())


def test_nothing():
    load = Load()

    load.add([])

    assert (load.total, load.busiest, load.busiest_at) == (0, 0, None)
    assert sum(load.by_minute) == 0


def test_counts_and_spans_over_days():
    load = Load()

    load.add([(START, 0), (START + 30, 1), (START + 3600, 0)])
    load.add([(START + 86_400, 1)])

    assert load.total == 4
    assert load.counts == {0: 2, 1: 2}
    assert load.first == {0: START, 1: START + 30}
    assert load.last == {0: START + 3600, 1: START + 86_400}


def test_the_busiest_minute_and_how_many_are_like_it():
    load = Load()

    load.add([(START, 0), (START + 59, 1), (START + 60, 0)])
    load.add([(START + 86_400, 0), (START + 86_400, 1)])

    assert (load.busiest, load.busiest_at, load.busiest_minutes) == (2, START, 2)


def test_minutes_are_those_of_the_zones_clock():
    load = Load("Europe/Paris")

    load.add([(START, 0), (START + 2 * 3600, 0)])  # 01:00 CET, and 04:00 CEST

    assert [minute for minute, count in enumerate(load.by_minute) if count] == [60, 240]
    assert [hour for hour, count in enumerate(load.by_hour()) if count] == [1, 4]
