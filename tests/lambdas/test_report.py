"""What operators see of an invocation: a line for each record and the metrics, and never an argument."""

import io
import json
import time
from datetime import datetime

import pytest
from support.enqueue_function import Context, read_event

from kiqbridge import EventError, RedisUnavailable
from kiqbridge.aws.enqueue import Handled
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Record, Result
from kiqbridge.aws.report import Reporting
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.wire.guards import Identity, Source

ARN = "arn:aws:sqs:eu-west-1:123456789012:jobs"


def written(handled, level="INFO"):
    """Log lines, and the metrics' line or None."""
    out = io.StringIO()
    report = Reporting(service="shop", namespace="Shop", level=level).begin("r1")
    report.handled(handled)
    report.write(out)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    metrics = [line for line in lines if "_aws" in line]
    return [line for line in lines if "_aws" not in line], metrics[0] if metrics else None


def record(number=1, **more):
    return Record(
        source="sqs",
        event={"body": "4111 1111"},
        origin=ARN,
        identity=Identity(Source.SQS, (ARN, f"m{number}")),
        **more,
    )


def enqueued(number=1, *, duplicate=False, at=None):
    return Enqueued(
        index=0, jid=f"j{number}", job_class="A", queue="low", at=at, duplicate=duplicate
    )


def test_a_record_of_one_job_is_a_line_with_its_class_queue_and_jid():
    handled = Handled(
        source="sqs", results=[Result(record=record(), jobs=[enqueued(at=5.5)])], push_ms=1.5
    )

    [line], _ = written(handled)

    at = datetime.fromisoformat(line.pop("timestamp"))
    assert abs(at.timestamp() - time.time()) < 60
    assert line.pop("ms") >= 0
    assert line == {
        "level": "INFO",
        "message": "done",
        "service": "shop",
        "function_request_id": "r1",
        "source": "sqs",
        "origin": ARN,
        "event_id": "m1",
        "outcome": "enqueued",
        "class": "A",
        "queue": "low",
        "jid": "j1",
        "at": 5.5,
    }


def test_several_jobs_of_a_record_are_lists_as_in_the_answer():
    jobs = [enqueued(1), enqueued(2, duplicate=True)]

    [line], _ = written(Handled(source="sqs", results=[Result(record=record(), jobs=jobs)]))

    assert line["outcome"] == "enqueued"
    assert [job["jid"] for job in line["enqueued"]] == ["j1"]
    assert [job["jid"] for job in line["duplicates"]] == ["j2"]
    assert "jid" not in line


@pytest.mark.parametrize(
    ("result", "level", "outcome"),
    [
        ({"jobs": [enqueued(duplicate=True)]}, "INFO", "duplicate"),
        ({"stale": [{"class": "A", "queue": "low", "schedule": "s", "at": 1}]}, "INFO", "stale"),
        ({"paused": [{"class": "A", "queue": "low", "schedule": "s", "at": 1}]}, "INFO", "paused"),
        ({"skipped": [{"class": "A", "queue": "l", "schedule": "s", "at": 1}]}, "INFO", "skipped"),
        ({}, "INFO", "stopped by middleware"),
        ({"ignored": "the filter says no"}, "INFO", "ignored"),
        ({"error": EventError("no")}, "WARNING", "refused"),
        ({"error": HeldBack("later")}, "INFO", "held back"),
        ({"error": RedisUnavailable("away")}, "ERROR", "failed"),
    ],
)
def test_the_line_names_the_outcome(result, level, outcome):
    [line], _ = written(Handled(source="sqs", results=[Result(record=record(), **result)]))

    assert (line["level"], line["outcome"], line["event_id"]) == (level, outcome, "m1")


def test_metrics_are_of_the_whole_function_and_of_the_source():
    results = [
        Result(record=record(1), jobs=[enqueued(1), enqueued(2)]),
        Result(record=record(2), jobs=[enqueued(3, duplicate=True)]),
        Result(record=record(3), error=EventError("no")),
    ]

    _, metrics = written(Handled(source="sqs", results=results, push_ms=1.5))

    names = ("Enqueued", "Duplicates", "Stale", "Refused", "PushMs")
    assert [metrics[name] for name in names] == [[2.0], [1.0], [0.0], [1.0], [1.5]]
    whole, of_source = metrics["_aws"]["CloudWatchMetrics"]
    assert [each["Name"] for each in whole["Metrics"]] == list(names)
    assert of_source == {
        "Namespace": "Shop",
        "Dimensions": [["service", "source"]],
        "Metrics": [
            {"Name": "Enqueued", "Unit": "Count"},
            {"Name": "Duplicates", "Unit": "Count"},
            {"Name": "Refused", "Unit": "Count"},
            {"Name": "PushMs", "Unit": "Milliseconds"},
        ],
    }
    assert (metrics["service"], metrics["source"]) == ("shop", "sqs")
    assert abs(metrics["_aws"]["Timestamp"] / 1000 - time.time()) < 60


def test_a_level_leaves_lines_out_and_metrics_not():
    results = [
        Result(record=record(1), jobs=[enqueued()]),
        Result(record=record(2), error=EventError("no")),
    ]

    lines, metrics = written(Handled(source="sqs", results=results), level="warning")

    assert [line["message"] for line in lines] == ["refused"]
    assert (metrics["Enqueued"], metrics["Refused"]) == ([1.0], [1.0])


def test_an_error_that_nobody_expected_and_nobody_raises_is_logged_with_its_traceback():
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        result = Result(record=record(), error=error)

    [unraised], _ = written(Handled(source="sqs", results=[result]))
    [raised], _ = written(Handled(source="sqs", results=[result], error=result.error))

    assert "test_report.py" in unraised["exception"]
    assert unraised["exception"].endswith("ZeroDivisionError: division by zero\n")
    assert "exception" not in raised


def test_a_text_that_json_cannot_carry_is_shown_in_another_form():
    [line], _ = written(Handled(source="bus", error=EventError("detail: \ud800")))

    assert line["reason"] == "'detail: \\ud800'"


def test_an_event_that_asks_for_nothing_is_a_line():
    [line], metrics = written(Handled(source="s3", ignored="a test event"))

    assert (line["message"], line["source"], line["reason"]) == ("ignored", "s3", "a test event")
    assert metrics is None


def test_lines_and_metrics_are_written_at_once(load, environment, monkeypatch):
    writes = []
    monkeypatch.setattr(
        "sys.stdout", type("Out", (), {"write": writes.append, "flush": lambda self: None})()
    )

    load().lambda_handler(read_event("direct_many"), Context())

    [text] = [text for text in writes if "function_request_id" in text]
    assert [("_aws" in line) for line in text.splitlines()] == [False, True]


def test_settings_that_are_wrong_are_logged_and_raised(load, environment, capsys):
    environment.setenv("REDIS_URL", "nowhere")

    with pytest.raises(Exception, match="nowhere"):
        load().lambda_handler(read_event("direct_one"), Context())

    [line, _] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["message"], line["source"]) == ("failed", "unknown")
