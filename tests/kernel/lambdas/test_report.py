"""What operators see of an invocation: lines for its records and the metrics, and never an argument."""

import contextlib
import logging
import time
from datetime import datetime

import pytest
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from support.enqueue_function import INVOKED, REQUEST, Context, read_event, read_lines

from kiqbridge import EventError, RedisUnavailable
from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.handler import JOBS_A_LINE
from kiqbridge.aws.job_forms import JobRequest, Tick
from kiqbridge.aws.push import HeldBack
from kiqbridge.aws.record import Record, Result
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.wire.guards import Identity, Source

ARN = "arn:aws:sqs:eu-west-1:123456789012:jobs"


@pytest.fixture
def written(load, environment, capsys, monkeypatch):
    """Handle an event of which that becomes; log lines, and the metrics' line or None."""
    environment.setenv("POWERTOOLS_SERVICE_NAME", "shop")
    environment.setenv("POWERTOOLS_METRICS_NAMESPACE", "Shop")

    def written(handled):
        app = load()
        monkeypatch.setattr(Enqueuer, "handle", lambda *_, **__: handled)
        raised = pytest.raises(type(handled.error)) if handled.error else contextlib.nullcontext()
        with raised:
            app.lambda_handler({}, Context())
        lines = read_lines(capsys.readouterr().out)
        metrics = [line for line in lines if "_aws" in line]
        return [line for line in lines if "_aws" not in line], metrics[0] if metrics else None

    return written


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


def ticking():
    tick = Tick(schedule="s", instant=60, at=60)
    return record(jobs=[JobRequest(item={"class": "A", "args": []})], tick=tick)


def test_a_record_of_one_job_is_a_line_with_its_class_queue_and_jid(written):
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
        "cold_start": True,
        "function_name": "enqueue",
        "function_memory_size": "512",
        "function_arn": INVOKED,
        "function_request_id": REQUEST,
        "source": "sqs",
        "origin": ARN,
        "event_id": "m1",
        "outcome": "enqueued",
        "class": "A",
        "queue": "low",
        "jid": "j1",
        "at": 5.5,
    }


def test_several_jobs_of_a_record_are_lists_as_in_the_answer(written):
    jobs = [enqueued(1), enqueued(2, duplicate=True)]

    [line], _ = written(Handled(source="sqs", results=[Result(record=record(), jobs=jobs)]))

    assert line["outcome"] == "enqueued"
    assert [job["jid"] for job in line["enqueued"]] == ["j1"]
    assert [job["jid"] for job in line["duplicates"]] == ["j2"]
    assert "jid" not in line


def test_records_of_one_job_each_that_became_the_same_share_a_line(written):
    jobs = [enqueued(1), enqueued(2, duplicate=True), enqueued(3, at=5.5)]
    results = [Result(record=record(n), jobs=[job]) for n, job in enumerate(jobs, 1)]
    results.append(Result(record=record(4), jobs=[enqueued(4), enqueued(5)]))
    results.append(Result(record=record(6), error=EventError("no")))

    lines, metrics = written(Handled(source="sqs", results=results))

    several, refused, first, duplicate = lines
    about = {"class": "A", "queue": "low"}
    assert first["jobs"] == [
        {"event_id": "m1", "jid": "j1", **about},
        {"event_id": "m3", "jid": "j3", **about, "at": 5.5},
    ]
    assert (first["source"], first["origin"], first["outcome"]) == ("sqs", ARN, "enqueued")
    assert first["ms"] >= 0
    assert "jid" not in first
    assert "event_id" not in first
    assert (duplicate["event_id"], duplicate["jid"]) == ("m2", "j2")
    assert "jobs" not in duplicate
    assert [job["jid"] for job in several["enqueued"]] == ["j4", "j5"]
    assert (refused["event_id"], refused["reason"]) == ("m6", "no")
    assert (metrics["Enqueued"], metrics["Duplicates"]) == ([4.0], [1.0])


def test_records_of_different_senders_share_no_line(written):
    other = Record(source="sqs", event={}, origin="arn:aws:sqs:eu-west-1:123456789012:other")
    results = [Result(record=each, jobs=[enqueued()]) for each in (record(), other)]

    lines, _ = written(Handled(source="sqs", results=results))

    assert [line["origin"] for line in lines] == [ARN, other.origin]


def test_a_long_batch_is_several_lines(written):
    results = [Result(record=record(n), jobs=[enqueued(n)]) for n in range(2 * JOBS_A_LINE + 1)]

    lines, _ = written(Handled(source="sqs", results=results))

    assert [len(line["jobs"]) for line in lines] == [JOBS_A_LINE, JOBS_A_LINE, 1]
    assert [job["jid"] for line in lines for job in line["jobs"]] == [
        f"j{n}" for n in range(len(results))
    ]


@pytest.mark.parametrize(
    ("result", "level", "outcome"),
    [
        ({"jobs": [enqueued(duplicate=True)]}, "INFO", "duplicate"),
        ({"record": ticking(), "left_out": "stale"}, "INFO", "stale"),
        ({"record": ticking(), "left_out": "paused"}, "INFO", "paused"),
        ({"record": ticking(), "left_out": "skipped"}, "INFO", "skipped"),
        ({}, "INFO", "stopped by middleware"),
        ({"record": record(ignored="the filter says no")}, "INFO", "ignored"),
        ({"error": EventError("no")}, "WARNING", "refused"),
        ({"error": HeldBack("later")}, "INFO", "held back"),
        ({"error": RedisUnavailable("away")}, "ERROR", "failed"),
    ],
)
def test_the_line_names_the_outcome(written, result, level, outcome):
    [line], _ = written(Handled(source="sqs", results=[Result(**{"record": record()} | result)]))

    assert (line["level"], line["outcome"], line["event_id"]) == (level, outcome, "m1")


def test_metrics_are_of_the_whole_function_and_of_the_source(written):
    results = [
        Result(record=record(1), jobs=[enqueued(1), enqueued(2)]),
        Result(record=record(2), jobs=[enqueued(3, duplicate=True)]),
        Result(record=record(3), error=EventError("no")),
    ]

    _, metrics = written(Handled(source="sqs", results=results, push_ms=1.5))

    counts = {"ColdStart": 1.0, "Enqueued": 2.0, "Duplicates": 1.0, "Refused": 1.0}
    assert {name: metrics[name] for name in counts} == {name: [n] for name, n in counts.items()}
    assert metrics["PushMs"] == [1.5]
    assert metrics["_aws"]["CloudWatchMetrics"] == [
        {
            "Namespace": "Shop",
            "Dimensions": [["service"], ["service", "source"]],
            "Metrics": [
                *({"Name": name, "Unit": "Count"} for name in counts),
                {"Name": "PushMs", "Unit": "Milliseconds"},
            ],
        }
    ]
    assert (metrics["service"], metrics["source"]) == ("shop", "sqs")
    assert abs(metrics["_aws"]["Timestamp"] / 1000 - time.time()) < 60


def test_a_level_leaves_lines_out_and_metrics_not(written, environment):
    environment.setenv("POWERTOOLS_LOG_LEVEL", "warning")
    results = [
        Result(record=record(1), jobs=[enqueued()]),
        Result(record=record(2), error=EventError("no")),
    ]

    lines, metrics = written(Handled(source="sqs", results=results))

    assert [line["message"] for line in lines] == ["refused"]
    assert (metrics["Enqueued"], metrics["Refused"]) == ([1.0], [1.0])


def test_an_error_that_nobody_expected_and_nobody_raises_is_logged_with_its_traceback(written):
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError as error:
        result = Result(record=record(), error=error)

    [unraised], _ = written(Handled(source="sqs", results=[result]))
    [raised], _ = written(Handled(source="sqs", results=[result], error=result.error))

    assert "test_report.py" in unraised["exception"]
    assert unraised["exception"].endswith("ZeroDivisionError: division by zero")
    assert unraised["exception_name"] == "ZeroDivisionError"
    assert "exception" not in raised


def test_a_text_that_utf8_cannot_carry_is_escaped(written):
    [line], _ = written(Handled(source="bus", error=EventError("detail: \ud800")))

    assert line["reason"] == "detail: \ud800"


def test_an_event_that_asks_for_nothing_is_a_line(written):
    [line], metrics = written(Handled(source="s3", ignored="a test event"))

    assert (line["message"], line["source"], line["reason"]) == ("ignored", "s3", "a test event")
    assert [each["Name"] for each in metrics["_aws"]["CloudWatchMetrics"][0]["Metrics"]] == [
        "ColdStart"
    ]


def test_the_context_is_in_each_line_and_the_metrics_are_one(load, environment, capsys):
    environment.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0")
    app = load()
    for _ in range(2):
        app.lambda_handler(read_event("direct_one"), Context())

    first, metrics, second, _ = read_lines(capsys.readouterr().out)

    assert (first["cold_start"], second["cold_start"]) == (True, False)
    assert (first["function_arn"], first["function_name"]) == (INVOKED, "enqueue")
    assert first["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"
    assert metrics["ColdStart"] == metrics["Enqueued"] == [1.0]


@pytest.mark.parametrize("trace", ["", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0"])
def test_a_line_is_the_one_that_powertools_writes(load, environment, trace):
    environment.setenv("_X_AMZN_TRACE_ID", trace)
    logger = load().handler._logger
    logger.append_keys(cold_start=False, function_name="enqueue")
    form = logger.registered_formatter
    one = {"source": "sqs", "jobs": [{"jid": "j", "class": "Ä"}], "at": 5.5, "none": None}
    for error in (None, (ValueError, ValueError("no"), None)):
        record = logger._logger.makeRecord(
            "a", logging.WARNING, "a.py", 1, "done", (), error, "f", one
        )
        assert form.format(record) == LambdaPowertoolsFormatter.format(form, record)


@pytest.mark.parametrize("name", ["POWERTOOLS_LOGGER_LOG_EVENT", "POWERTOOLS_LOGGER_SAMPLE_RATE"])
def test_no_setting_of_powertools_shows_arguments(load, environment, capsys, name):
    environment.setenv(name, "1")
    load().lambda_handler(read_event("direct_one", args=["4111 1111 1111 1111"]), Context())

    logged = capsys.readouterr().out
    assert '"message":"done"' in logged
    assert "4111" not in logged


def test_settings_that_are_wrong_are_logged_and_raised(load, environment, capsys):
    environment.setenv("REDIS_URL", "nowhere")

    with pytest.raises(Exception, match="nowhere"):
        load().lambda_handler(read_event("direct_one"), Context())

    [line, _] = read_lines(capsys.readouterr().out)
    assert (line["message"], line["source"]) == ("failed", "unknown")
