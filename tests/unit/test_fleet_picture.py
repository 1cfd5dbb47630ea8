"""The picture of the simulation shows what it found, and is the one of docs/scaling.md."""

from xml.etree import ElementTree as ET

import pytest
from support.documents import ROOT

from kiqbridge.sizing.fleet_picture import main, picture, summary
from kiqbridge.sizing.fleet_simulation import SHARD, Event, Fleet, simulate

AWAY = Event(kind=SHARD, at=5, seconds=10, number=2)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result():
    return simulate(Fleet(), (AWAY,), seconds=60)


@pytest.fixture(scope="module")
def drawn(result):
    return ET.fromstring(picture(result))


def test_it_says_what_was_found(result, drawn):
    text = " ".join(each.text or "" for each in drawn.iter(f"{SVG}text"))

    assert "1,000,000 jobs a second over 16 shards, with failures" in text
    assert "shard 2 is away, 10 s" in text
    assert f"shard 2 is away: {result.drained_s[0]:.0f} s" in text
    assert drawn.find(f"{SVG}desc").text == summary(result)
    assert f"{result.lost:,} are lost" in summary(result)


def test_everything_lies_within_it(drawn):
    width, height = float(drawn.get("width")), float(drawn.get("height"))
    places = [
        tuple(map(float, point.split(",")))
        for shape in (*drawn.iter(f"{SVG}polyline"), *drawn.iter(f"{SVG}polygon"))
        for point in shape.get("points").split()
    ]

    assert len(places) > 50
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_a_failure_that_is_not_caught_up_is_said():
    unfinished = simulate(Fleet(), (AWAY,), seconds=18)

    assert "shard 2 is away: never" in picture(unfinished)
    assert "not within the run" in summary(unfinished)


def test_only_the_strip_of_the_shard_that_was_away_shows_jobs_that_wait(drawn):
    strips = [each for each in drawn.iter(f"{SVG}rect") if each.get("height") == "8"]

    assert len({each.get("y") for each in strips}) == 1
    assert len({each.get("fill") for each in strips}) > 1  # it fills, and is worked off


def test_the_picture_of_the_document_is_the_one_that_is_made(capsys):
    assert main() == 0

    assert (ROOT / "docs/images/fleet.svg").read_text("utf-8") == capsys.readouterr().out, (
        "run make scale"
    )
