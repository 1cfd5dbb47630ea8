"""What is to become known of a job that has ended."""

import json

import pytest

from kiqbridge.errors import JobRemoved
from kiqbridge.settle.end_report import (
    end_of,
    is_awaited,
    report_failure,
    report_success,
    wants_output,
)
from kiqbridge.settle.task_report import TaskReport, encode_output
from kiqbridge.wire.flow_mark import FlowEnd, flow_of, report_key
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.marks import marked_payload
from kiqbridge.wire.tick_mark import JobEnd, tick_mark_of

JOB = {"class": "Bill", "args": [7], "jid": "b1", "queue": "low"}
FLOW = {"bid": "f3"}


def text_of(**attributes):
    return json.dumps({**JOB, **attributes}).encode()


def test_a_plain_job_leaves_nothing():
    assert not is_awaited(JOB)
    assert report_success(JOB, encode_output(1), 5.0) == b""
    assert report_failure(JOB, "dead", ValueError("no"), 5.0) == b""
    assert report_failure(marked_payload(text_of()), "dead", ValueError("no"), 5.0) == b""


def test_the_end_of_a_job_under_flow_control_names_what_happened():
    payload = {**JOB, "flow": FLOW}

    done = FlowEnd.from_text(report_success(payload, encode_output(None), 5.0))
    dead = FlowEnd.from_text(report_failure(payload, "dead", ValueError("no"), 5.0))

    assert done == FlowEnd(
        flow=FLOW, jid="b1", job_class="Bill", queue="low", outcome="done", at=5.0
    )
    assert (dead.outcome, dead.error, dead.message) == ("dead", "ValueError", "no")


def test_an_end_is_the_same_from_a_text_as_from_a_payload():
    payload = {**JOB, "flow": FLOW}
    error = JobRemoved("ada deleted it")

    from_text = report_failure(marked_payload(text_of(flow=FLOW)), "discarded", error, 5.0)

    assert from_text == report_failure(payload, "discarded", error, 5.0)


def test_the_value_is_kept_where_a_result_is_asked_for():
    asked = {**JOB, "flow": {"result_ttl_s": 60}}

    assert wants_output(asked) and not wants_output({**JOB, "flow": FLOW})
    assert FlowEnd.from_text(report_success(asked, encode_output([1]), 5.0)).output == "[1]"
    other = {**JOB, "flow": FLOW}
    assert FlowEnd.from_text(report_success(other, encode_output([1]), 5.0)).output is None


def test_an_end_carries_the_report_of_a_task_that_waits_too():
    payload = {**JOB, "flow": FLOW, "task_token": "AQC"}

    end = FlowEnd.from_text(report_success(payload, encode_output(7), 5.0))

    assert TaskReport.from_text(end.report.encode()).output == "7"


def test_each_report_goes_to_its_key():
    keys = Keys("app")
    flow = report_success({**JOB, "flow": FLOW}, encode_output(None), 5.0)
    task = report_success({**JOB, "task_token": "AQC"}, encode_output(None), 5.0)

    assert report_key(keys, flow) == keys.flow_ends == "app:kb:flow:ends"
    assert report_key(keys, task) == keys.task_reports


@pytest.mark.parametrize("value", [None, {}, [], "x", 7, True])
def test_what_can_be_no_mark_is_none(value):
    assert flow_of({**JOB, "flow": value}) is None
    assert flow_of(marked_payload(text_of(flow=value))) is None


def test_the_mark_of_a_long_text_is_the_last_one():
    long = text_of(args=[{"flow": {"bid": "inner"}}, "x" * 200_000], flow=FLOW)

    assert flow_of(marked_payload(long)) == FLOW
    assert flow_of(marked_payload(b'{"flow"' + b"[" * 200_000)) is None


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
    end = end_of(of_schedule(retry_count=2), "dead", NOW, took_s=1.5, error=ValueError("no"))

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
    assert end_of(of_schedule(tick=tick), "done", NOW) is None
    assert end_of({"class": "A"}, "done", NOW) is None


@pytest.mark.parametrize("count", [None, "3", -1, True])
def test_a_count_of_retries_that_is_none_is_zero(count):
    end = end_of(of_schedule(retry_count=count), "done", NOW)

    assert JobEnd.from_text(end.text).retries == 0


def test_a_jid_that_json_cannot_carry_keeps_no_end_from_being_written():
    end = end_of(of_schedule(jid="\ud800"), "done", NOW)

    assert JobEnd.from_text(end.text).jid == "?"


@pytest.mark.parametrize("length", [0, 200_000])
def test_the_text_of_a_job_says_the_same(length):
    text = json.dumps(
        {
            **of_schedule(args=["x" * length, {"tick": {"schedule": "other", "at": 1}}]),
            "retry_count": 0,
        }
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
