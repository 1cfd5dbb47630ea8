"""What Ruby's readers raise over is put aside, and nothing else is touched."""

import json

import pytest

from kiqbridge.engine.perform.running_job import RunningJob, shown_text
from kiqbridge.engine.settle.retry import failed_payload
from kiqbridge.wire.raw_job import failed_text, replacements, showable

GOOD = {
    "class": "A",
    "args": ["often", {"tags": 5}],
    "jid": "j",
    "tags": ["x", 5],
    "created_at": 1.5,
    "enqueued_at": 1_700_000_000_000,
    "failed_at": None,
}
ODD = [
    ("tags", "often"),
    ("tags", True),
    ("created_at", "often"),
    ("created_at", True),
    ("enqueued_at", float("inf")),
    ("failed_at", [1]),
    ("retried_at", {}),
    ("error_backtrace", "often"),
    ("error_backtrace", 5),
    ("error_backtrace", "eJzLTy1JzQMABr4CFQ=="),  # inflates to a text, no list
]


def failed(payload):
    return failed_payload(payload, ValueError(), queue="q", profile="7", now=9.0)


def test_a_backtrace_that_we_wrote_and_the_time_of_a_first_failure_can_be_shown():
    with_backtrace = failed(GOOD | {"backtrace": True})
    assert showable(with_backtrace) is with_backtrace
    kept = failed({"class": "A", "args": [], "retry_count": -1})  # counted from below
    assert kept["retry_count"] == 0 and kept["failed_at"] == kept["retried_at"] == 9.0


@pytest.mark.parametrize(("name", "value"), ODD)
def test_what_cannot_be_shown_is_put_aside_with_its_value(name, value):
    payload = GOOD | {name: value}

    shown = showable(payload)

    assert name not in shown and shown["unreadable"] == {name: value}
    assert {**shown, name: value} == {**payload, "unreadable": {name: value}}


def test_a_jid_that_is_no_text_is_replaced_and_what_was_put_aside_before_kept():
    shown = showable(GOOD | {"jid": 5})
    assert len(shown["jid"]) == 24 and shown["unreadable"] == {"jid": 5}
    shown = showable(GOOD | {"tags": 5, "unreadable": {"created_at": "x"}})
    assert shown["unreadable"] == {"created_at": "x", "tags": 5}
    assert showable(GOOD) is GOOD


def test_of_a_text_that_is_not_parsed_readers_take_what_is_written_behind():
    text = b'{"class":"A","args":[],"tags":5,"created_at":"often","jid":7,"error_backtrace":"x"}'

    kept = json.loads(
        failed_text(text, error_class="E", error_message="m", queue="q", now=1.0, profile="7")
    )

    assert [kept[name] for name in ("tags", "created_at", "error_backtrace")] == [None] * 3
    assert len(kept["jid"]) == 24


def test_a_text_that_can_be_shown_gets_nothing_behind_it():
    others = {b"tags": b"[", b"created_at": b"1", b"enqueued_at": b"n", b"jid": b'"'}

    assert replacements({}, others) == {}


@pytest.mark.parametrize("padding", [0, 200_000])
def test_the_busy_page_gets_a_running_job_without_odd_tags_and_a_usual_one_as_it_is(padding):
    usual = json.dumps({"note": "x" * padding} | GOOD).encode()
    assert shown_text(RunningJob("q", usual, 1.0)) is usual
    odd = json.dumps({"note": "x" * padding} | GOOD | {"tags": "often"}).encode()
    shown = json.loads(shown_text(RunningJob("q", odd, 1.0)))
    assert shown.get("tags") is None and shown["args"] == GOOD["args"]


def test_the_busy_page_gets_what_is_no_job_as_the_argument_of_one():
    shown = json.loads(shown_text(RunningJob("q", b"{no json", 1.0)))

    assert (shown["class"], shown["args"]) == ("Unreadable", ["{no json"])


@pytest.mark.parametrize("levels", [101, 100_000])
def test_the_busy_page_gets_what_is_nested_too_deep_for_ruby_as_an_argument(levels):
    text = b'{"class":"Deep","jid":"1","args":[%b%b]}' % (b"[" * levels, b"]" * levels)

    shown = json.loads(shown_text(RunningJob("q", text, 1.0)))

    assert shown["class"] == "Unreadable"


def test_a_long_text_with_many_brackets_side_by_side_stays_as_it_is():
    text = json.dumps(GOOD | {"args": [[{}] * 50_000, "[" * 200]}).encode()

    assert shown_text(RunningJob("q", text, 1.0)) is text
