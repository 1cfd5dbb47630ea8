"""What a payload says about the task that waits for its job."""

import json

import pytest

from kiqbridge.wire.job_text import watched_payload
from kiqbridge.wire.payload import MAX_TASK_TOKEN
from kiqbridge.wire.task_token import task_of

JOB = {"class": "Bill", "args": [], "jid": "j1"}


def in_text(text):
    return task_of(watched_payload(text))


def test_a_job_with_a_token_has_a_task():
    task = task_of({**JOB, "task_token": "AQC=", "task_heartbeat_s": 5})

    assert (task.token, task.heartbeat_s, task.jid, task.job_class) == ("AQC=", 5.0, "j1", "Bill")


def test_of_a_rails_job_the_inner_class_is_shown():
    job = {**JOB, "class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "NightlyJob"}

    assert task_of({**job, "task_token": "t"}).job_class == "NightlyJob"


@pytest.mark.parametrize("token", [None, "", 5, ["t"], {"t": 1}, "t" * (MAX_TASK_TOKEN + 1)])
def test_what_cannot_be_a_token_is_none(token):
    assert task_of({**JOB, "task_token": token}) is None
    assert in_text(json.dumps({**JOB, "task_token": token}).encode()) is None


@pytest.mark.parametrize("value", [None, True, "5", -1, 0.5, float("inf"), float("nan"), [5]])
def test_an_interval_that_is_no_number_of_seconds_says_nothing(value):
    assert task_of({**JOB, "task_token": "t", "task_heartbeat_s": value}).heartbeat_s is None


def test_the_interval_0_asks_for_none():
    assert task_of({**JOB, "task_token": "t", "task_heartbeat_s": 0}).heartbeat_s == 0


def test_the_token_is_not_in_its_repr():
    assert "AQC=" not in repr(task_of({**JOB, "task_token": "AQC="}))


@pytest.mark.parametrize("length", [10, 200_000])
def test_it_is_found_in_a_text_of_any_length_but_never_among_the_arguments(length):
    own = {**JOB, "args": ["x" * length, {"task_token": "other"}], "task_token": "own"}
    without = {**JOB, "args": ["x" * length, {"task_token": "other"}]}

    task = in_text(json.dumps(own).encode())

    assert (task.token, task.jid, task.job_class) == ("own", "j1", "Bill")
    assert in_text(json.dumps(without).encode()) is None


@pytest.mark.parametrize("text", [b"", b'"task_token"', b'["task_token"]', b'{"task_token":"t"'])
def test_what_is_no_object_has_no_task(text):
    assert in_text(text) is None


def test_an_escaped_token_is_read_as_json_has_it():
    assert in_text(b'{"task_token":"a\\/b","class":"A"}').token == "a/b"
