"""What is remarked of a payload."""

import json

import pytest
from support.web_jobs import failed, job

from kiqbridge.api import JobRecord
from kiqbridge.wire.job_faults import remarks

JID = "0123456789abcdef01234567"


def said(text):
    return [f"{remark.severity}: {remark.text}" for remark in remarks(JobRecord(text))]


def test_a_job_as_sidekiq_writes_it_has_no_remark():
    assert said(job(JID)) == []
    assert said(job(JID, created_at=1_700_000_000_123, enqueued_at=1_700_000_000_124)) == []


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        (b"\xff", "bad: The text is no UTF-8: at byte 0."),
        (b"[1]", "bad: The text is no JSON object: no worker can perform it."),
        (job(JID, **{"class": None}), "bad: class is missing: no worker can perform it."),
        (job(JID, args=None), "bad: args is no list: it cannot be performed."),
        (job(""), "bad: jid is missing: it cannot be followed or found by it."),
        (job("x"), "note: jid is not the 24 hexadecimal digits of Sidekiq."),
        (job(JID, queue=None), "note: queue is missing: it goes to default when it is retried."),
        (job(JID, enqueued_at="now"), "warn: enqueued_at is no number."),
        (job(JID, retry="often"), "warn: retry is neither true, false nor a number."),
    ],
)
def test_what_is_strange_is_remarked(text, remark):
    assert said(text) == [remark]


@pytest.mark.parametrize(
    ("fields", "begin"),
    [
        ({"created_at": 1_700_000_000}, "warn: created_at is an integer of seconds"),
        ({"bid": "B"}, "warn: bid: It belongs to a batch"),
        ({"encrypt": True}, "warn: encrypt: Its last argument is encrypted"),
        ({"unique_for": 60}, "warn: unique_for: It holds a lock"),
        ({"lock_digest": "uniquejobs:5f4d"}, "warn: lock_digest: It holds a lock"),
        ({"args": ["x" * 100_001]}, "warn: It has 100,"),
    ],
)
def test_what_ruby_alone_honours_or_takes_otherwise_is_remarked(fields, begin):
    [remark] = said(job(JID, **fields))

    assert remark.startswith(begin)


def test_an_unknown_class_comes_first():
    text = failed(JID, error="NameError", error_message="uninitialized constant Mial", bid="B")

    assert [remark[:4] for remark in said(text)] == ["bad:", "warn"]


def test_a_text_too_long_to_be_parsed_is_no_fault():
    text = json.dumps({"class": "A", "jid": JID, "args": ["x" * 1_100_000]}).encode()

    assert [remark[:4] for remark in said(text)] == ["warn", "note"]
