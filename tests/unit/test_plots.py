"""Plots: markup that a browser reads, the numbers at their places, and nothing that a strict policy forbids."""

import itertools
import math
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.web.plots import (
    TICK_STATES,
    Mark,
    Series,
    Tick,
    histogram,
    meter,
    sparkline,
    tick_legend,
    tick_strip,
    time_series,
)
from kiqbridge.web.plots.drawing import (
    milliseconds,
    time_label,
    time_ticks,
    value_label,
    value_ticks,
)
from kiqbridge.web.plots.histogram import bucket_labels, place_of
from kiqbridge.web.plots.time_series import AT_MOST, fold

NOON = 1_795_348_800.0
"""2026-11-22 12:00 UTC."""
BOUNDS = (20, 30, 45, 65, 100)


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
def test_values_are_round(most, expected):
    assert value_ticks(most) == expected


def test_a_number_that_is_none_has_an_axis_all_the_same():
    assert value_ticks(math.nan) == [0, 1]


@given(st.integers(0, 4_000_000_000), st.integers(60, 40_000_000))
def test_ticks_of_time_are_within_the_plot_and_few(first, long):
    ticks = time_ticks(first, first + long)

    assert len(ticks) <= 7
    assert all(first <= tick <= first + long for tick in ticks)
    assert all(tick % 60 == 0 for tick in ticks)


def test_an_hour_is_marked_at_round_minutes():
    labels = [time_label(at) for at in time_ticks(NOON - 3420, NOON + 180)]

    assert labels == ["11:10", "11:20", "11:30", "11:40", "11:50", "12:00"]


def test_midnight_shows_the_day():
    assert time_label(NOON + 43_200) == "23 Nov"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(950, "950"), (1200, "1.2k"), (43_000, "43k"), (1.1e6, "1.1M"), (0.5, "0.5")],
)
def test_a_large_value_is_short(value, expected):
    assert value_label(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(45, "45 ms"), (1700, "1.7 s"), (65_000, "65 s"), (335_000, "5 min 35 s"), (120_000, "2 min")],
)
def test_a_duration_is_in_the_unit_that_fits(value, expected):
    assert milliseconds(value) == expected


def test_a_series_counts_all_that_it_was_given():
    figure = series_of([3.0, 0.0, 4.0], [1.0, 0.0, 0.0])

    root = parsed(figure)
    assert root.find(".//desc").text == (
        "executions per minute from 2026-11-22 12:00 to 2026-11-22 12:03 UTC: executions 7; failures 1"
    )
    assert [cell.text for cell in root.iterfind(".//tbody/tr/td")] == ["3", "1", "0", "0", "4", "0"]
    titles = [each.text for each in root.iterfind(".//rect/title")]
    assert titles[2] == "2026-11-22 12:02 UTC, minute: executions 4, failures 0"


def test_the_highest_value_is_drawn_highest():
    root = parsed(series_of([3.0, 0.0, 4.0], [0.0, 0.0, 0.0]))

    points = root.find(".//polyline").get("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert heights[2] < heights[0] < heights[1]
    assert heights[2] == 0


def test_a_mark_is_drawn_at_its_time_and_listed_and_one_outside_is_not():
    marks = [Mark(at=NOON + 90, label="abc123 <Fix>"), Mark(at=NOON - 1, label="before")]

    root = parsed(series_of([1.0, 1.0, 1.0], [0.0, 0.0, 0.0], marks=marks))

    [mark] = root.iterfind(".//g[@class='plot-mark']")
    assert mark.find("line").get("x1") == "50%"
    assert mark.find("title").text == "2026-11-22 12:01 UTC: abc123 <Fix>"
    assert [each.find("b").tail for each in root.iterfind(".//ul[@class='plot-marks']/li")] == [
        " 2026-11-22 12:01 UTC: abc123 <Fix>"
    ]


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=500))
def test_a_long_series_is_added_up_without_loss(values):
    [folded], step = fold([Series(name="executions", values=values)], 60)

    assert sum(folded.values) == sum(values)
    assert len(folded.values) <= AT_MOST
    assert 60 * len(values) <= step * len(folded.values) < 60 * len(values) + step


def test_an_area_and_lines_differ_in_their_classes():
    root = parsed(series_of([1.0], [1.0]))

    assert [each.get("class") for each in root.iterfind(".//polyline")] == [
        "plot-line plot-ok",
        "plot-line plot-bad",
    ]
    assert len(list(root.iterfind(".//polygon"))) == 1


def test_a_histogram_has_a_bar_for_each_bucket_and_its_percentiles():
    figure = histogram(
        [0, 8, 0, 0, 2, 1],
        BOUNDS,
        name="took",
        title="Mail took",
        percentiles={"p50": 25.0, "p95": 90.0, "p99": None},
    )

    root = parsed(figure)
    bars = [float(each.get("height")) for each in root.iterfind(".//rect[@class='plot-bar']")]
    assert bars[1] == max(bars)
    assert bars[0] == bars[2] == 0
    assert root.find(".//desc").text == "11 executions; p50 25 ms, p95 90 ms"
    assert [row.find("th").text for row in root.iterfind(".//tbody/tr")] == [
        "20 ms to 30 ms",
        "65 ms to 100 ms",
        "100 ms or more",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (10, 0.5), (20, 1), (25, 1.5), (99, 4 + 34 / 35), (100, 5.5), (9e9, 5.5)],
)
def test_a_percentile_lies_in_its_bucket(value, expected):
    assert place_of(value, BOUNDS, 6) * 6 == pytest.approx(expected)


def test_buckets_are_named_by_what_they_hold():
    assert bucket_labels(BOUNDS) == [
        "below 20 ms",
        "20 ms to 30 ms",
        "30 ms to 45 ms",
        "45 ms to 65 ms",
        "65 ms to 100 ms",
        "100 ms or more",
    ]


def test_each_state_of_a_tick_has_a_shape_of_its_own():
    shapes = {
        state: [
            (each.tag, each.get("d"), each.get("r"), each.get("class"))
            for each in parsed(tick_strip([Tick(state=state, title="")], label="a")).iterfind(
                ".//g/*"
            )
            if each.get("class") != "plot-hit" and each.tag != "title"
        ]
        for state in TICK_STATES
    }

    assert all(shapes.values())
    assert len({str(shape) for shape in shapes.values()}) == len(TICK_STATES)


def test_a_strip_says_in_words_what_it_shows():
    ticks = [
        Tick(state="on time", title="12:00 <done>"),
        Tick(state="on time", title="12:01", is_bad=True),
        Tick(state="missed", title="12:02"),
    ]

    root = parsed(tick_strip(ticks, label="Nightly"))

    assert root.get("aria-label") == "Nightly: 2 on time, 1 missed; 1 with a job that died"
    assert [each.text for each in root.iterfind(".//title")] == ["12:00 <done>", "12:01", "12:02"]
    assert len(list(root.iterfind(".//rect[@class='tick-dead']"))) == 1


def test_a_schedule_that_never_fired_has_words_in_place_of_a_strip():
    assert parsed(tick_strip([], label="Nightly")).text == "none yet"


def test_the_legend_explains_each_state():
    entries = [
        "".join(entry.itertext()).strip() for entry in parsed(tick_legend()).iterfind(".//li")
    ]

    assert all(words in entry for words, entry in zip(TICK_STATES.values(), entries, strict=True))


@pytest.mark.parametrize(("share", "width"), [(0.5, "50%"), (3.0, "100%"), (-1.0, "0%")])
def test_a_meter_is_as_long_as_its_share(share, width):
    root = parsed(meter(share, label="5 of 10 busy", shade="warn"))

    assert root.find(".//rect[@class='meter-fill meter-warn']").get("width") == width
    assert root.get("aria-label") == "5 of 10 busy"


@pytest.mark.parametrize("values", [[], [0.0], [1.0, 5.0, 2.0]])
def test_a_sparkline_is_drawn_of_any_history(values):
    root = parsed(sparkline(values, label="last hour"))

    points = root.find(".//polyline").get("points").split()
    assert len(points) == len(values)


@pytest.mark.parametrize(
    "markup",
    [
        lambda: series_of([5.0], [1.0], marks=[Mark(at=NOON, label='"><script>alert(1)</script>')]),
        lambda: histogram(
            [1] * 6, BOUNDS, name="h", title='"><script>alert(1)</script>', percentiles={}
        ),
        lambda: tick_strip([Tick(state="late", title="<script>")], label='"><script>'),
        lambda: meter(0.1, label='"><script>', shade="ok"),
        lambda: sparkline([1.0], label='"><script>'),
    ],
)
def test_what_others_named_is_text_and_no_plot_has_a_style_or_a_script(markup):
    text = markup()

    root = parsed(text)
    assert "style" not in {key for each in root.iter() for key in each.attrib}
    assert not {each.tag for each in root.iter()} & {"script", "style"}


def series_of(executions, failures, marks=()):
    return time_series(
        [
            Series(name="executions", values=executions, is_area=True),
            Series(name="failures", values=failures, shade="bad"),
        ],
        name="throughput",
        title="Throughput",
        starts_at=NOON,
        step_s=60,
        marks=marks,
    )


def parsed(markup):
    return ET.fromstring(str(markup))
