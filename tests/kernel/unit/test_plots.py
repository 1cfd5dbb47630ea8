"""Plots: markup that a browser reads, the numbers at their places, and nothing that a strict policy forbids."""

import itertools
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.api import ClassCounts, Counts, Histogram, TopJobs
from kiqbridge.web.context import build_templates
from kiqbridge.web.plots import (
    AT_MOST,
    Series,
    bucket_labels,
    fold,
    heat_map,
    histogram,
    place_of,
    sparkline,
    time_label,
    time_series,
    time_ticks,
    value_label,
    value_ticks,
)
from kiqbridge.wire.measures import BOUNDS_MS

NOON = 1_795_348_800.0
"""2026-11-22 12:00 UTC."""
KINDS = ("on time", "late", "duplicate", "missed", "caught up", "left out")
SIGNS = build_templates().get_template("schedule_macros.html").module


@given(st.floats(min_value=0.01, max_value=1e12))
def test_ticks_of_values_begin_at_0_reach_the_highest_value_and_are_few_and_even(most):
    ticks = value_ticks(most)

    steps = {
        round(second / ticks[1] - first / ticks[1], 6)
        for first, second in itertools.pairwise(ticks)
    }
    assert ticks[0] == 0
    assert ticks[-1] >= most * (1 - 1e-6)
    assert len(ticks) <= 6
    assert steps == {1.0}
    assert all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(7, [0, 2, 4, 6, 8]), (1, [0, 1]), (430, [0, 200, 400, 600]), (0, [0, 1])],
)
def test_values_are_round_and_short(most, expected):
    assert value_ticks(most) == expected
    labels = [value_label(value) for value in (950, 1200, 43_000, 1.1e6, 0.5)]
    assert labels == ["950", "1.2k", "43k", "1.1M", "0.5"]


@given(st.integers(0, 4_000_000_000), st.integers(60, 40_000_000))
def test_ticks_of_time_are_within_the_plot_and_few(first, long):
    ticks = time_ticks(first, first + long)

    assert len(ticks) <= 7
    assert all(first <= tick <= first + long for tick in ticks)
    assert all(tick % 60 == 0 for tick in ticks)


def test_an_hour_is_marked_at_round_minutes_and_midnight_by_the_day():
    labels = [time_label(at) for at in time_ticks(NOON - 3420, NOON + 180)]
    assert labels == ["11:10", "11:20", "11:30", "11:40", "11:50", "12:00"]
    assert time_label(NOON + 43_200) == "23 Nov"


def test_a_series_counts_all_that_it_was_given():
    figure = series_of([3.0, 0.0, 4.0], [1.0, 0.0, 0.0])

    root = parsed(figure)
    assert root.find(".//desc").text == (
        "executions per minute from 2026-11-22 12:00 to 2026-11-22 12:03 UTC: executions 7; failures 1"
    )
    titles = [each.text for each in root.iterfind(".//rect/title")]
    assert titles[2] == "2026-11-22 12:02 UTC, minute: executions 4, failures 0"


def test_the_highest_value_is_drawn_highest_as_an_area_and_lines_of_two_classes():
    root = parsed(series_of([3.0, 0.0, 4.0], [0.0, 0.0, 0.0]))
    points = root.find(".//polyline").get("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert 0 == heights[2] < heights[0] < heights[1]
    lines = [each.get("class") for each in root.iterfind(".//polyline")]
    assert lines == ["plot-line plot-ok", "plot-line plot-bad"]
    assert len(list(root.iterfind(".//polygon"))) == 1


def test_a_mark_is_drawn_at_its_time_and_listed_and_one_outside_is_not():
    marks = {NOON + 90: "abc123 <Fix>", NOON - 1: "before"}

    root = parsed(series_of([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], marks=marks))

    [mark] = root.iterfind(".//g[@class='plot-mark']")
    assert mark.find("line").get("x1") == "50%"
    assert mark.find("title").text == "2026-11-22 12:01 UTC: abc123 <Fix>"
    assert [each.find("b").tail for each in root.iterfind(".//ul[@class='plot-marks']/li")] == [
        " 2026-11-22 12:01 UTC: abc123 <Fix>"
    ]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=500))
def test_a_long_series_is_added_up_without_loss(values):
    [folded], step = fold([Series("executions", values)], 60)

    assert sum(folded.values) == sum(values)
    assert len(folded.values) <= AT_MOST
    assert 60 * len(values) <= step * len(folded.values) < 60 * len(values) + step


def test_a_histogram_has_a_bar_for_each_bucket_and_its_percentiles():
    figure = histogram(Histogram((0, 8, 0, 0, 2, *[0] * 20, 1)), name="took", title="Mail took")

    root = parsed(figure)
    bars = [float(each.get("height")) for each in root.iterfind(".//rect[@class='plot-bar']")]
    assert bars[1] == max(bars)
    assert bars[0] == bars[2] == 0
    assert (
        root.find(".//desc").text == "11 executions; p50 27 ms, p95 ≥ 5 min 35 s, p99 ≥ 5 min 35 s"
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (10, 0.5), (20, 1), (25, 1.5), (99, 4 + 34 / 35), (335_000, 25.5), (9e9, 25.5)],
)
def test_a_percentile_lies_in_its_bucket(value, expected):
    assert place_of(value) * 26 == pytest.approx(expected)


def test_buckets_are_named_by_what_they_hold():
    labels = bucket_labels()

    assert labels[:2] == ["below 20 ms", "20 ms to 30 ms"]
    assert labels[-2:] == ["3 min 45 s to 5 min 35 s", "5 min 35 s or more"]
    assert len(labels) == len(BOUNDS_MS) + 1


def test_each_state_of_a_tick_has_a_shape_of_its_own_and_a_meaning_in_the_legend():
    strips = [parsed(SIGNS.strip("a", [(kind, "", False)])) for kind in KINDS]

    shapes = {str([path.attrib for path in each.iterfind(".//path")]) for each in strips}
    meanings = [each.get("aria-label").removeprefix("a: 1 ") for each in strips]
    legend = parsed(SIGNS.legend()).iterfind(".//li")
    assert len(shapes) == len(KINDS)
    assert ["".join(each.itertext()) for each in legend] == [f"{each} {each}" for each in meanings]


def test_a_strip_says_in_words_what_it_shows():
    ticks = [("on time", "12:00 <done>", False), ("on time", "12:01", True), ("missed", "", False)]
    root = parsed(SIGNS.strip("Nightly", ticks))
    assert root.get("aria-label") == "Nightly: 2 on time, 1 missed; 1 with a job that died"
    assert [each.text for each in root.iterfind(".//title")][:2] == ["12:00 <done>", "12:01"]
    assert len(list(root.iterfind(".//rect[@class='tick-dead']"))) == 1
    assert parsed(SIGNS.strip("Nightly", [])).text == "none yet"


def test_a_heat_map_compares_each_class_with_its_own_median_and_joins_equal_steps():
    buckets = [NOON + 60 * each for each in range(5)]
    took = dict(zip(buckets, (100, 100, 110, 250), strict=False))
    counts = {at: Counts(executions=2, ms=2 * ms) for at, ms in took.items()}
    mail = ClassCounts(job_class="<Mail>", total=Counts(), series=counts)
    idle = ClassCounts(job_class="Idle", total=Counts(), series={})
    span = TopJobs(bucket_s=60, buckets=buckets, classes={}, marks={NOON + 180: "v2"})

    root = parsed(heat_map(span, [mail, idle], title="Took"))

    assert [each.text for each in root.iterfind(".//dt")] == ["<Mail>"]
    cells = [
        (each.get("x"), each.get("width"), each.get("class"))
        for each in root.iterfind(".//dd/svg/rect")
    ]
    assert cells == [("0", "3", "heat-2"), ("3", "1", "heat-4")]
    assert root.find(".//dd/svg/line").get("x1") == "3"
    assert root.find(".//dd/svg").get("aria-label") == "<Mail>: 1 of 4 steps took longer than usual"


@pytest.mark.parametrize("values", [[0.0], [1.0, 5.0, 2.0]])
def test_a_sparkline_is_drawn_of_any_history(values):
    root = parsed(sparkline(values, label="last hour"))

    points = root.find(".//polyline").get("points").split()
    assert len(points) == len(values)


HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    "markup",
    [
        lambda: series_of([5.0], [1.0], marks={NOON: HOSTILE}),
        lambda: histogram(Histogram((1, *[0] * 25)), name="h", title=HOSTILE),
        lambda: SIGNS.strip(HOSTILE, [("late", HOSTILE, True)]),
        lambda: sparkline([1.0], label=HOSTILE),
    ],
)
def test_what_others_named_is_text_and_no_plot_has_a_style_or_a_script(markup):
    text = markup()

    root = parsed(text)
    assert "style" not in {key for each in root.iter() for key in each.attrib}
    assert not {each.tag for each in root.iter()} & {"script", "style"}


def series_of(executions, failures, marks=None):
    buckets = [NOON + 60 * place for place in range(len(executions))]
    return time_series(
        [
            Series("executions", executions, sum(executions), is_area=True),
            Series("failures", failures, sum(failures), "bad"),
        ],
        TopJobs(bucket_s=60, buckets=buckets, classes={}, marks=marks or {}),
        name="throughput",
        title="Throughput",
    )


def parsed(markup):
    return ET.fromstring(str(markup))
