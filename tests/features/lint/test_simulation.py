"""A virtual clock over many schedules, its sums and its heat map; what each expression names: test_cron.py."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from kiqbridge.features.lint.heat_map import _SHADES, box, heat_map, limits_of, shade_of, svg, text
from kiqbridge.features.lint.simulation import DAY_S, Load, simulate
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState

JOBS = ({"class": "Report", "args": []},)
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())


def schedule(expression, timezone="UTC", **more):
    return ScheduleDefinition(
        name=more.pop("name", "s"), expression=expression, jobs=JOBS, timezone=timezone, **more
    )


def flat(definitions, start, end):
    return [firing for day in simulate(definitions, start, end) for firing in day]


@pytest.mark.parametrize(
    ("definitions", "end", "firings"),
    [
        ([schedule("cron(0 * * * ? *)")], START + 7200, [(START, 0), (START + 3600, 0)]),
        (
            [schedule("cron(0 3 * * ? *)"), schedule("0 3 * * *")],
            START + DAY_S,
            [(START + 10800, 0), (START + 10800, 1)],
        ),
        ([schedule("rate(1 minute)", enabled=False)], START + DAY_S, []),
        ([schedule("rate(1 minute)")], START, []),
        ([], START + DAY_S, []),
    ],
)
def test_each_instant_of_the_window_fires_in_the_order_of_the_schedules(definitions, end, firings):
    assert flat(definitions, START, end) == firings


def test_what_is_paused_or_skipped_does_not_fire():
    hours = [START + hour * 3600 for hour in range(24)]
    states = [
        ScheduleState(paused=SchedulePause(until=hours[20])),
        ScheduleState(paused=SchedulePause()),
        ScheduleState(skipped=(hours[0], hours[5])),
        ScheduleState(),
    ]
    definitions = [schedule("cron(0 * * * ? *)")] * 4

    [day] = simulate(definitions, START, START + DAY_S, states)

    fired = [[at for at, index in day if index == which] for which in range(4)]
    assert fired == [hours[20:], [], hours[1:5] + hours[6:], hours]


def test_a_firing_that_jitter_puts_off_beyond_midnight_comes_on_the_next_day():
    both = [
        schedule("cron(59 23 * * ? *)", jitter_s=3600),
        schedule("cron(0 0 * * ? *)"),
        schedule("cron(30 12 * * ? *)"),
    ]
    days = list(simulate(both, START, START + 3 * DAY_S))

    late = [START + day * DAY_S - 60 for day in (1, 2, 3)]
    assert [at for day in days for at, index in day if index == 0] == [
        at + both[0].put_off_s(at) for at in late
    ]
    assert len(days) == 4  # the last one is put off beyond the end
    for number, day in enumerate(days):
        begin = START + number * DAY_S
        assert all(begin <= at < begin + DAY_S for at, _ in day)


ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"


def drawn(firings, timezone="UTC"):
    load = Load(timezone)
    load.add(sorted(firings))
    return ET.fromstring(heat_map(load, schedules=2, period="2026-01-01 to 2026-01-02"))


def labels(root):
    return [each.find(f"{SVG}title").text for each in root.iter(f"{SVG}rect") if len(each)]


def test_each_minute_that_fires_is_a_cell_with_its_count():
    root = drawn([(0, 0), (0, 1), (5 * 3600 + 300, 0)])

    assert labels(root) == [
        "00:00: 2 firings",
        "05:05: 1 firing",
        "00:00-00:59: 2 firings",
        "05:00-05:59: 1 firing",
        ":00 of every hour: 2 firings",
        ":05 of every hour: 1 firing",
    ]


def test_title_axes_and_legend():
    texts = [each.text for each in drawn([(0, 0), (0, 1), (300, 0)]).iter(f"{SVG}text")]

    assert "Firings by minute of the day" in texts
    assert "2 schedules, 2026-01-01 to 2026-01-02, 3 firings, clock of UTC" in texts
    assert "Busiest minute of the day: 00:00 with 2 firings; at most 2 at once" in texts
    assert {"Hour", "00", "23", "Minute", ":00", ":55", "Firings in the minute"} <= set(texts)
    assert texts[-3:] == ["0", "1", "2"]


def test_texts_are_escaped():
    shapes = [text(1, 2.125, "a<b>&c"), box(1, 2, 3, 4, "#123456", "03:00 & more")]

    root = ET.fromstring(svg(200, 100, title='a "b" & <c>', about="d < e", shapes=shapes))

    assert root.get("aria-label") == root.find(f"{SVG}title").text == 'a "b" & <c>'
    assert root.find(f"{SVG}desc").text == "d < e"
    assert root.find(f"{SVG}text").text == "a<b>&c"
    assert labels(root) == ["03:00 & more"]


def test_nothing_fires():
    assert "Nothing fires." in [each.text for each in drawn([]).iter(f"{SVG}text")]


@pytest.mark.parametrize(
    ("counts", "limits"),
    [
        ([0, 0], []),
        ([0, 7], [7]),
        ([0, 365, 730, 365], [365, 730]),
        (range(1, 7), [1, 2, 3, 4, 5, 6]),
        (range(1, 8), [1, 2, 3, 4, 5, 7]),
        (range(1, 1_000_001), [10, 100, 1000, 10_000, 100_000, 1_000_000]),
    ],
)
def test_limits(counts, limits):
    assert limits_of(counts) == limits


@pytest.mark.parametrize("most", [1, 2, 6, 7, 8, 9, 20, 365, 14_418, 525_600])
def test_each_count_has_a_shade_and_more_is_never_lighter(most):
    counts = list(range(most + 1))
    limits = limits_of(counts)

    shades = [_SHADES.index(shade_of(count, limits)) for count in counts[1:]]
    assert all(one <= other for one, other in pairwise(shades))
    assert shades[-1] == len(_SHADES) - 1


def test_the_shades_are_one_hue_that_grows_darker():
    brightness = [
        sum(
            weight * int(shade[place : place + 2], 16) for weight, place in ((3, 1), (6, 3), (1, 5))
        )
        for shade in _SHADES
    ]

    assert brightness == sorted(brightness, reverse=True)
    assert all(int(shade[5:7], 16) > int(shade[1:3], 16) for shade in _SHADES)  # blue above red


def test_the_picture_of_the_documents_is_what_the_program_draws():
    script = [sys.executable, ROOT / "tests/heat_map_picture.py"]
    drawn_now = subprocess.run(script, capture_output=True, check=True).stdout

    assert (ROOT / "docs/images/heat_map.svg").read_bytes() == drawn_now, "run make docs"


SPRING = int(datetime(2026, 3, 29, tzinfo=UTC).timestamp())


def test_counts_and_spans_over_days():
    load = Load()
    load.add([])
    assert (load.total, load.busiest, load.busiest_at) == (0, 0, None)
    assert sum(load.by_minute) == 0
    load.add([(SPRING, 0), (SPRING + 30, 1), (SPRING + 3600, 0)])
    load.add([(SPRING + 86_400, 1)])
    assert load.total == 4
    assert load.counts == {0: 2, 1: 2}
    assert load.first == {0: SPRING, 1: SPRING + 30}
    assert load.last == {0: SPRING + 3600, 1: SPRING + 86_400}


def test_the_busiest_minute_and_how_many_are_like_it():
    load = Load()

    load.add([(SPRING, 0), (SPRING + 59, 1), (SPRING + 60, 0)])
    load.add([(SPRING + 86_400, 0), (SPRING + 86_400, 1)])

    assert (load.busiest, load.busiest_at, load.busiest_minutes) == (2, SPRING, 2)


def test_minutes_are_those_of_the_zones_clock():
    load = Load("Europe/Paris")

    load.add([(SPRING, 0), (SPRING + 2 * 3600, 0)])  # 01:00 CET, and 04:00 CEST

    assert [minute for minute, count in enumerate(load.by_minute) if count] == [60, 240]
    assert [hour for hour, count in enumerate(load.by_hour()) if count] == [1, 4]
