"""Reports for Step Functions: whose they are, and what is sent of a value and of an error."""

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.engine.settle.task_report import (
    MAX_CAUSE,
    MAX_ERROR,
    MAX_OUTPUT_BYTES,
    TaskOutput,
    TaskReport,
    encode_output,
    failure_report,
    success_report,
)
from kiqbridge.wire.job_text import watched_payload
from kiqbridge.wire.payload import MAX_TASK_TOKEN
from kiqbridge.wire.task_token import Task, task_of

NOW = 1_700_000_000.5
TASK = Task(token="AQC=", jid="j1", job_class="Bill")


class Unprintable:
    def __repr__(self):
        raise SystemExit


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def nested(depth):
    value = ["x"]
    for _ in range(depth):
        value = [value]
    return value


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
        max_leaves=20,
    )
)
def test_a_value_that_is_json_comes_out_as_it_is(value):
    output = encode_output(value)
    assert not output.omitted
    assert json.loads(output.text) == value
    assert encode_output(output) is output  # as a child has encoded it
    assert encode_output((1, 2**70)).text == f"[1,{2**70}]"
    assert not encode_output(nested(97)).omitted


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        b"bytes",
        {1, 2},
        dt.datetime.now(dt.UTC),
        Unprintable(),
        {("a",): 1},
        {1: 2},
        {"a": [({"b": 1, None: 2},)]},
        {"1": 2, 1: 3},
        nested(100_000),
        nested(98),
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_no_json_is_left_out_with_its_type(value):
    output = encode_output(value)

    assert output.text == ""
    assert output.omitted.startswith("is no JSON (")
    assert output.omitted.endswith(f": type {type(value).__name__})")


def test_a_value_that_holds_itself_or_is_endless_is_left_out():
    class Endless(list):
        def __iter__(self):
            while True:
                yield "x" * 1000

    value = []
    value.append(value)
    assert encode_output(value).omitted.startswith("is no JSON (")
    assert "longer" in encode_output(Endless([1])).omitted


def test_a_value_may_have_256_kib_of_utf8_and_no_byte_more():
    fits, longer = "é" * (MAX_OUTPUT_BYTES // 2 - 1), "é" * (MAX_OUTPUT_BYTES // 2)

    assert len(encode_output(fits).text.encode()) == MAX_OUTPUT_BYTES
    assert encode_output(longer) == TaskOutput(
        "", "is longer than the 262144 bytes that Step Functions takes"
    )


def test_a_success_is_read_back_or_why_its_value_is_left_out():
    report = TaskReport.from_text(success_report(TASK, TaskOutput("[1]"), NOW))
    assert report == TaskReport(token="AQC=", jid="j1", job_class="Bill", at=NOW, output="[1]")
    assert "AQC=" not in repr(report)
    text = success_report(TASK, TaskOutput("", "is no JSON"), NOW)
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
