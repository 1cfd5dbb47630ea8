"""Reports for Step Functions: whose they are, and what is sent of a value and of an error."""

import json

import pytest

from kiqbridge.engine.settle.output import JobOutput
from kiqbridge.features.step_functions.report import (
    MAX_CAUSE,
    MAX_ERROR,
    Task,
    TaskReport,
    failure_report,
    success_report,
    task_of,
)
from kiqbridge.wire.job_record import watched_payload
from kiqbridge.wire.payload import MAX_TASK_TOKEN

NOW = 1_700_000_000.5
TASK = Task(token="AQC=", jid="j1", job_class="Bill")


def test_a_success_is_read_back_or_why_its_value_is_left_out():
    report = TaskReport.from_text(success_report(TASK, JobOutput("[1]"), NOW))
    assert report == TaskReport(token="AQC=", jid="j1", job_class="Bill", at=NOW, output="[1]")
    assert "AQC=" not in repr(report)
    text = success_report(TASK, JobOutput("", "is no JSON"), NOW)
    output = json.loads(TaskReport.from_text(text).output)
    assert output == {"jid": "j1", "omitted": "the return value is no JSON"}


def test_a_failure_names_class_and_message_of_the_error():
    text = failure_report(TASK, OSError("no route"), NOW, {"retry_count": 4})

    report = TaskReport.from_text(text)
    assert (report.output, report.error) == (None, "OSError")
    assert json.loads(report.cause) == {
        "errorType": "OSError",
        "errorMessage": "no route",
        "jid": "j1",
        "class": "Bill",
        "retry_count": 4,
    }


@pytest.mark.parametrize("letter", ["x", '"', "\n", "é", "😀", "\x01"])
def test_error_and_cause_stay_within_the_limits_and_the_cause_stays_json(letter):
    error = type("E" * 1000, (Exception,), {})(letter * 100_000)

    report = TaskReport.from_text(failure_report(TASK, error, NOW, {}))

    assert len(report.error) == MAX_ERROR
    assert len(report.cause) <= MAX_CAUSE
    assert json.loads(report.cause)["errorMessage"].startswith(letter * 100)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"5", b"{}", b'{"task_token":"t","jid":"j"}', b"\xff"]
)
def test_what_is_no_report_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - of whatever kind
        TaskReport.from_text(text)


JOB = {"class": "Bill", "args": [], "jid": "j1"}


def in_text(text):
    return task_of(watched_payload(text))


def test_a_job_with_a_token_has_a_task():
    task = task_of({**JOB, "task_token": "AQC=", "task_heartbeat_s": 5})
    assert (task.token, task.heartbeat_s, task.jid, task.job_class) == ("AQC=", 5.0, "j1", "Bill")
    assert "AQC=" not in repr(task)
    job = {**JOB, "class": "Sidekiq::ActiveJob::Wrapper", "wrapped": "NightlyJob"}
    assert task_of({**job, "task_token": "t"}).job_class == "NightlyJob"
    for value in (None, True, "5", -1, 0.5, float("inf"), float("nan"), [5]):
        assert task_of({**JOB, "task_token": "t", "task_heartbeat_s": value}).heartbeat_s is None
    assert task_of({**JOB, "task_token": "t", "task_heartbeat_s": 0}).heartbeat_s == 0


@pytest.mark.parametrize("token", [None, "", 5, ["t"], {"t": 1}, "t" * (MAX_TASK_TOKEN + 1)])
def test_what_cannot_be_a_token_is_none(token):
    assert task_of({**JOB, "task_token": token}) is None
    assert in_text(json.dumps({**JOB, "task_token": token}).encode()) is None


@pytest.mark.parametrize("length", [10, 200_000])
def test_it_is_found_in_a_text_of_any_length_but_never_among_the_arguments(length):
    own = {**JOB, "args": ["x" * length, {"task_token": "other"}], "task_token": "own"}
    without = {**JOB, "args": ["x" * length, {"task_token": "other"}]}

    task = in_text(json.dumps(own).encode())

    assert (task.token, task.jid, task.job_class) == ("own", "j1", "Bill")
    assert in_text(json.dumps(without).encode()) is None


def test_what_is_no_object_has_no_task_and_an_escaped_token_is_read():
    for text in (b"", b'"task_token"', b'["task_token"]', b'{"task_token":"t"'):
        assert in_text(text) is None
    assert in_text(b'{"task_token":"a\\/b","class":"A"}').token == "a/b"
