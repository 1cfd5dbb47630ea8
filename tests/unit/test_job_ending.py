"""What is to become known of a job that has ended."""

import json

import pytest
from support.runners import end_in, ledger_end_in, report_in

from kiqbridge.errors import JobRemoved
from kiqbridge.settle.ending import ending, wants_output
from kiqbridge.settle.task_report import encode_output
from kiqbridge.wire.flow_mark import FlowEnd, flow_of
from kiqbridge.wire.job_text import watched_payload
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd, tick_mark_of

KEYS = Keys("app")
JOB = {"class": "Bill", "args": [7], "jid": "b1", "queue": "low"}
FLOW = {"bid": "f3"}


def text_of(**attributes):
    return json.dumps({**JOB, **attributes}).encode()


def done(payload, value=None):
    return ending(KEYS, payload, "done", 5.0, output=encode_output(value))


def failed(payload, outcome="dead", error=None):
    return ending(KEYS, payload, outcome, 5.0, error=error or ValueError("no"))


def test_the_end_of_a_plain_job_has_no_effects():
    assert done(JOB) == ()
    assert failed(JOB) == ()
    assert failed(watched_payload(text_of())) == ()


def test_the_end_of_a_job_under_flow_control_names_what_happened():
    payload = {**JOB, "flow": FLOW}

    [effect] = done(payload)
    dead = end_in(failed(payload))

    assert (effect.keys, effect.args[0]) == (["app:kb:flow:ends"], 0)
    assert FlowEnd.from_text(effect.args[1]) == FlowEnd(
        flow=FLOW, jid="b1", job_class="Bill", queue="low", outcome="done", at=5.0
    )
    assert (dead.outcome, dead.error, dead.message) == ("dead", "ValueError", "no")


def test_an_end_is_the_same_from_a_text_as_from_a_payload():
    payload = {**JOB, "flow": FLOW}
    error = JobRemoved("ada deleted it")

    from_text = failed(watched_payload(text_of(flow=FLOW)), "discarded", error)

    assert from_text == failed(payload, "discarded", error)


def test_the_value_is_kept_where_a_result_is_asked_for():
    asked = {**JOB, "flow": {"result_ttl_s": 60}}

    assert wants_output(asked) and not wants_output({**JOB, "flow": FLOW})
    assert end_in(done(asked, [1])).output == "[1]"
    assert end_in(done({**JOB, "flow": FLOW}, [1])).output is None


@pytest.mark.parametrize("flow", [{"flow": FLOW}, {}])
def test_an_end_carries_the_report_of_a_task(flow):
    effects = done({**JOB, **flow, "task_token": "AQC"}, 7)

    assert report_in(effects)["output"] == "7"
    assert end_in(effects).flow == flow.get("flow", {})


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
    [effect] = ending(
        KEYS, of_schedule(retry_count=2), "dead", NOW, took_s=1.5, error=ValueError("no")
    )

    assert effect.keys == ["app:kb:ends:shop/Nightly", "app:kb:ticks:shop/Nightly"]
    assert effect.args[0] == 1_700_000_000
    assert JobEnd.from_text(effect.args[1]) == JobEnd(
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
    assert not ending(KEYS, of_schedule(tick=tick), "done", NOW)


@pytest.mark.parametrize("count", [None, "3", -1, True])
def test_a_count_of_retries_that_is_none_is_zero(count):
    effects = ending(KEYS, of_schedule(retry_count=count), "done", NOW)

    assert ledger_end_in(effects).retries == 0


def test_a_jid_that_json_cannot_carry_keeps_no_end_from_being_written():
    effects = ending(KEYS, of_schedule(jid="\ud800"), "done", NOW)

    assert ledger_end_in(effects).jid == "?"


@pytest.mark.parametrize("length", [0, 1_200_000])
def test_the_text_of_a_job_says_the_same(length):
    text = json.dumps(
        {
            **of_schedule(args=["x" * length, {"tick": {"schedule": "other", "at": 1}}]),
            "retry_count": 0,
        }
    ).encode()

    read = ledger_end_in(ending(KEYS, watched_payload(text), "dead", NOW, error=ValueError("no")))

    assert read.at == 1_700_000_000
    assert (read.jid, read.error, read.retries, read.took_s) == ("j1", "ValueError", 1, None)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"class":"A"}', b'{"tick"', b'["tick"]', b'{"tick":{"schedule":3}}'],
)
@pytest.mark.parametrize("padding", [b"", b" " * 1_200_000])
def test_a_text_without_an_occurrence_has_none(text, padding):
    assert not ending(KEYS, watched_payload(padding + text), "dead", NOW)


def test_a_long_text_that_would_kill_its_parser_is_no_error():
    assert tick_mark_of(watched_payload(b'{"tick":' + b"[" * 500_000)) is None
