"""The picture of the nights in which the clocks turn."""

import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dst_picture import EXPRESSIONS, GAP, REPEAT, firings, picture

FILE = Path(__file__).parents[2] / "docs/images/dst.svg"
HALF_PAST_TWO, THREE, EACH_HOUR = EXPRESSIONS


def test_the_file_is_what_the_program_draws():
    assert FILE.read_text("utf-8") == picture(), "run make docs"


def test_it_is_a_picture_with_a_title_for_who_cannot_see_it():
    root = ET.fromstring(picture())

    assert root.tag.endswith("svg")
    assert root.get("role") == "img"
    assert "daylight saving time" in root.get("aria-label")


@pytest.mark.parametrize(
    ("night", "expression", "expected"),
    [
        (GAP, HALF_PAST_TWO, []),
        (GAP, THREE, [datetime(2026, 3, 29, 1, tzinfo=UTC)]),
        (REPEAT, HALF_PAST_TWO, [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]),
        (REPEAT, THREE, [datetime(2026, 10, 25, 2, tzinfo=UTC)]),
    ],
)
def test_what_fires_in_a_night(night, expression, expected):
    assert firings(expression, night) == expected


@pytest.mark.parametrize("night", [GAP, REPEAT])
def test_a_rate_fires_each_hour_of_both_nights(night):
    assert [each.minute for each in firings(EACH_HOUR, night)] == [15] * 6


@pytest.mark.parametrize("night", [GAP, REPEAT])
def test_what_is_marked_as_not_fired_is_not(night):
    for expression, (instant, _) in night.unfired.items():
        assert instant not in firings(expression, night)


def test_each_firing_is_a_dot_with_its_instants():
    text = picture()

    count = sum(len(firings(each, night)) for each in EXPRESSIONS for night in (GAP, REPEAT))
    assert text.count(" UTC</title></circle>") == count == 15
    assert "<title>02:30 CEST = 00:30 UTC</title>" in text
