"""The heat map of a simulation."""

import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from kiqbridge.commands.heat_map import _SHADES, box, heat_map, limits_of, shade_of, svg, text
from kiqbridge.schedule.simulation import Load

ROOT = Path(__file__).parents[2]
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
