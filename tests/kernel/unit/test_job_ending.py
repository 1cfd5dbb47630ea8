"""What is to become known of a job that has ended."""

import json
import math

import pytest
from support.runners import end_in, ledger_end_in

from kiqbridge.engine.settle.ending import ending
from kiqbridge.engine.settle.output import encode_output
from kiqbridge.errors import JobRemoved
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.job_record import watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd, TickMark, policy_faults, tick_mark_of

KEYS = Keys("app")
JOB = {"class": "Bill", "args": [7], "jid": "b1", "queue": "low"}
FLOW = {"bid": "f3"}


def text_of(**attributes):
    return json.dumps({**JOB, **attributes}).encode()


def done(payload):
    return ending(KEYS, payload, "done", 5.0, output=encode_output(None))


def failed(payload, outcome="dead", error=None):
    return ending(KEYS, payload, outcome, 5.0, error=error or ValueError("no"))


def test_the_end_of_a_job_under_flow_control_names_what_happened():
    for effects in (done(JOB), failed(JOB), failed(watched_payload(text_of()))):
        assert effects == ()  # of a plain job
    payload, error = {**JOB, "flow": FLOW}, JobRemoved("ada deleted it")
    [effect] = done(payload)
    dead = end_in(failed(payload))
    assert (effect.keys, effect.args[0]) == (["app:kb:flow:ends"], 0)
    assert FlowEnd.from_text(effect.args[1]) == FlowEnd(
        flow=FLOW, jid="b1", job_class="Bill", queue="low", outcome="done", at=5.0
    )
    assert (dead.outcome, dead.error, dead.message) == ("dead", "ValueError", "no")
    from_text = failed(watched_payload(text_of(flow=FLOW)), "discarded", error)
    assert from_text == failed(payload, "discarded", error)


@pytest.mark.parametrize("value", [None, {}, [], "x", 7, True])
def test_what_can_be_no_mark_is_none(value):
    assert flow_of({**JOB, "flow": value}) is None
    assert flow_of(watched_payload(text_of(flow=value))) is None


def test_the_mark_of_a_long_text_is_the_last_one():
    long = text_of(args=[{"flow": {"bid": "inner"}}, "x" * 1_200_000], flow=FLOW)

    assert flow_of(watched_payload(long)) == FLOW
    assert flow_of(watched_payload(b'{"flow"' + b"[" * 1_200_000)) is None


@pytest.mark.parametrize(
    "text",
    [b"{}", b"[]", b'{"flow":{}}', b'{"flow":{"a":1},"jid":"a","class":"b","outcome":"x","at":1}'],
)
def test_what_is_no_end_is_refused(text):
    with pytest.raises(ValueError, match=r"it lacks|its outcome"):
        FlowEnd.from_text(text)


TICK = {"schedule": "shop/Nightly", "at": 1_700_000_000}
NOW = 1_700_000_009.25


def of_schedule(**more):
    return {"class": "A", "args": [], "jid": "j1", "tick": TICK, **more}


def test_it_names_the_job_its_occurrence_and_what_became_of_it():
    at, job = TICK["at"], of_schedule(retry_count=2)
    [effect] = ending(KEYS, job, "dead", NOW, took_s=1.5, error=ValueError("no"))
    assert effect.keys == ["app:kb:ends:shop/Nightly", "app:kb:ticks:shop/Nightly"]
    assert effect.args[0] == at
    wanted = {"ended_at": NOW, "took_s": 1.5, "error": "ValueError", "retries": 3}
    assert JobEnd.from_text(effect.args[1]) == JobEnd(at=at, jid="j1", outcome="dead", **wanted)
    # A jid that JSON cannot carry keeps no end from being written.
    effects = ending(KEYS, of_schedule(jid="\ud800"), "done", NOW)
    assert ledger_end_in(effects).jid == "?"


@pytest.mark.parametrize("tick", [None, [], {"schedule": "a"}, {"schedule": "\ud800", "at": 1}])
def test_a_job_that_names_no_occurrence_has_none(tick):
    assert not ending(KEYS, of_schedule(tick=tick), "done", NOW)


@pytest.mark.parametrize("count", [None, "3", -1, True])
def test_a_count_of_retries_that_is_none_is_zero(count):
    effects = ending(KEYS, of_schedule(retry_count=count), "done", NOW)

    assert ledger_end_in(effects).retries == 0


@pytest.mark.parametrize("length", [0, 1_200_000])
def test_the_text_of_a_job_says_the_same(length):
    args = ["x" * length, {"tick": {"schedule": "other", "at": 1}}]
    payload = watched_payload(json.dumps(of_schedule(args=args) | {"retry_count": 0}).encode())
    read = ledger_end_in(ending(KEYS, payload, "dead", NOW, error=ValueError("no")))
    assert read.at == 1_700_000_000
    assert (read.jid, read.error, read.retries, read.took_s) == ("j1", "ValueError", 1, None)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"class":"A"}', b'{"tick"', b'["tick"]', b'{"tick":{"schedule":3}}'],
)
@pytest.mark.parametrize("padding", [b"", b" " * 1_200_000])
def test_a_text_without_an_occurrence_has_none(text, padding):
    assert not ending(KEYS, watched_payload(padding + text), "dead", NOW)
    # Nor has one that would kill its parser.
    assert tick_mark_of(watched_payload(b'{"tick":' + b"[" * 500_000)) is None


PLAIN = {"schedule": "shop/A", "at": "2026-11-20T02:00:00Z"}


@pytest.mark.parametrize(
    "mark",
    [
        TickMark(schedule="shop/Nightly", at=1_700_000_000),
        TickMark(schedule="n", at=0, overlap="skip", max_age_s=600.0),
    ],
)
def test_a_mark_is_read_as_it_was_written(mark):
    assert tick_mark_of({"class": "A", "tick": mark.to_attribute()}) == mark


@pytest.mark.parametrize(
    "tick",
    [
        None, 7, "x", [], {}, {"schedule": "a"}, {"schedule": "", "at": 1}, {"schedule": "a", "at": 1.5},
        {"schedule": "a", "at": True}, {"schedule": "a" * 257, "at": 1}, {"schedule": 3, "at": 1},
        {"schedule": "a", "at": -1},
    ],
)  # fmt: skip
def test_what_is_no_mark_is_none_and_one_with_odd_options_a_plain_one(tick):
    assert tick_mark_of({"tick": tick}) is None
    mark = tick_mark_of({"tick": {"schedule": "a", "at": 1, "overlap": "no", "max_age_s": "x"}})
    assert mark == TickMark(schedule="a", at=1)
    assert mark.is_plain


def test_an_end_is_read_as_it_was_written_and_what_is_none_refused():
    for end in (
        JobEnd(at=1_700_000_000, jid="b4a5", outcome="done", ended_at=1_700_000_003.25, took_s=3.1),
        JobEnd(at=0, jid="j", outcome="dead", ended_at=5.0, error="OSError", retries=25),
    ):
        assert JobEnd.from_text(end.to_text()) == end
    for text in (b"[]", b"{}", b"7", b"{", b'{"at":1,"jid":"a"}'):
        with pytest.raises(ValueError, match=r"."):
            JobEnd.from_text(text)


def test_what_is_no_policy_is_named_with_what_is_allowed():
    for more in (
        {},
        {"missed": "alert"},
        {"missed": "last", "grace_s": 0, "max_age_s": 1.5, "overlap": "cancel"},
        {"missed": "all", "on_stale": "ignore"},
    ):
        assert list(policy_faults(PLAIN | more)) == []
    for name, value, says in (
        ("missed", "newest", "'newest' is none of alert, last, all"),
        ("overlap", None, "None is none of allow, skip, cancel"),
        ("grace_s", -1, "-1 is no number of seconds from 0"),
        ("max_age_s", True, "True is no number of seconds from 0"),
        ("max_age_s", math.inf, "inf is no number of seconds from 0"),
        ("missed", [], "[] is none of alert, last, all"),
    ):
        assert list(policy_faults(PLAIN | {name: value})) == [f"{name}: {says}"]
