"""How a job of a schedule ended: of its payload, and of a text that nobody parses."""

import json

import pytest

from kiqbridge.settle.job_end import end_of
from kiqbridge.wire.marks import marked_payload
from kiqbridge.wire.tick_mark import JobEnd, tick_mark_of

TICK = {"schedule": "shop/Nightly", "at": 1_700_000_000}
NOW = 1_700_000_009.25


def payload(**more):
    return {"class": "A", "args": [], "jid": "j1", "tick": TICK, **more}


def test_it_names_the_job_its_occurrence_and_what_became_of_it():
    end = end_of(payload(retry_count=2), "dead", NOW, took_s=1.5, error=ValueError("no"))

    assert (end.schedule, end.at) == ("shop/Nightly", 1_700_000_000)
    assert JobEnd.from_text(end.text) == JobEnd(
        at=1_700_000_000,
        jid="j1",
        outcome="dead",
        ended_at=NOW,
        took_s=1.5,
        error="ValueError",
        retries=3,
    )


@pytest.mark.parametrize("tick", [None, [], {"schedule": "a"}, {"schedule": "\ud800", "at": 1}])
def test_a_job_that_names_no_occurrence_has_none(tick):
    assert end_of(payload(tick=tick), "done", NOW) is None
    assert end_of({"class": "A"}, "done", NOW) is None


@pytest.mark.parametrize("count", [None, "3", -1, True])
def test_a_count_of_retries_that_is_none_is_zero(count):
    end = end_of(payload(retry_count=count), "done", NOW)

    assert JobEnd.from_text(end.text).retries == 0


def test_a_jid_that_json_cannot_carry_keeps_no_end_from_being_written():
    end = end_of(payload(jid="\ud800"), "done", NOW)

    assert JobEnd.from_text(end.text).jid == "?"


@pytest.mark.parametrize("length", [0, 200_000])
def test_the_text_of_a_job_says_the_same(length):
    text = json.dumps(
        {**payload(args=["x" * length, {"tick": {"schedule": "other", "at": 1}}]), "retry_count": 0}
    ).encode()

    end = end_of(marked_payload(text), "dead", NOW, error=ValueError("no"))

    assert (end.schedule, end.at) == ("shop/Nightly", 1_700_000_000)
    read = JobEnd.from_text(end.text)
    assert (read.jid, read.error, read.retries, read.took_s) == ("j1", "ValueError", 1, None)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"class":"A"}', b'{"tick"', b'["tick"]', b'{"tick":{"schedule":3}}'],
)
@pytest.mark.parametrize("padding", [b"", b" " * 200_000])
def test_a_text_without_an_occurrence_has_none(text, padding):
    assert end_of(marked_payload(padding + text), "dead", NOW) is None


def test_a_long_text_that_would_kill_its_parser_is_no_error():
    assert tick_mark_of(marked_payload(b'{"tick":' + b"[" * 500_000)) is None
