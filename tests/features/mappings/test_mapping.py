"""Mappings in the function: an event that is no job becomes one in Redis."""

import json
import os
import shutil

import pytest
from support.enqueue_function import (
    APP,
    ENVIRONMENT,
    Context,
    arguments,
    messages,
    queued,
    read_event,
)
from support.mappings import document_of, write

from kiqbridge import ConfigError, EventError, NotAllowed, PayloadError
from kiqbridge.dev.local_function import LocalFunction


@pytest.fixture
def invoke(load, environment, tmp_path):
    """Invoke the function with a file of mappings."""

    def invoke(text, event):
        environment.setenv("KIQBRIDGE_MAPPINGS", str(write(tmp_path, text)))
        return load().lambda_handler(event, Context())

    return invoke


PULSE = "mappings: [{match: {source: sqs}, class: HealthPulse, args: [body.id, messageId]}]"


def test_each_message_is_mapped_and_enqueued_once(invoke, redis):
    event = messages({"id": 1}, {"class": "HealthPulse", "args": ["itself"]}, {"id": 3})

    assert invoke(PULSE, event) == invoke(PULSE, event) == {"batchItemFailures": []}

    assert arguments(redis) == [[1, "m0"], ["itself"], [3, "m2"]]


def test_only_what_cannot_be_mapped_fails(invoke, redis):
    answer = invoke(PULSE, messages({"id": 1}, {"number": 2}))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    assert len(queued(redis)) == 1


@pytest.mark.parametrize(
    "word",
    [{"class": "gold"}, {"args": 1}, {"active_job": True}, {"jobs": 3}, {"jobs": [{"title": "x"}]}],
    ids=str,
)
def test_a_word_of_a_job_makes_no_job_of_an_event(invoke, redis, word):
    text = PULSE.replace("}]", "}, {match: {source: direct}, class: HealthPulse, args: [id]}]")

    assert invoke(text, messages({"id": 1, **word})) == {"batchItemFailures": []}
    invoke(text, {"id": 2, **word})

    assert arguments(redis) == [[1, "m0"], [2]]


def test_a_filtered_message_is_answered_and_logged(invoke, redis, capsys):
    text = PULSE.replace("class:", 'filter: "body.id > `1`", class:')

    assert invoke(text, messages({"id": 1}, {"id": 2})) == {"batchItemFailures": []}

    assert arguments(redis) == [[2, "m1"]]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [ignored] = [line for line in lines if line.get("message") == "ignored"]
    assert ignored["reason"] == "the filter of mappings.yml:1 mappings[0] leaves it out"


def test_the_jobs_of_an_event_are_all_or_none(invoke, redis):
    text = "mappings: [{match: {detail-type: '*'}, jobs: [{class: HealthPulse}, {class: Kernel}]}]"
    event = read_event("bus_event", detail={"order": 5})

    with pytest.raises(NotAllowed, match="class: 'Kernel' is not among the classes in KIQBRIDGE_"):
        invoke(text, event)
    assert queued(redis) == []

    first = invoke(text.replace("Kernel", "NightlyReport"), event)
    second = invoke(text.replace("Kernel", "NightlyReport"), event)
    assert [job["class"] for job in first["enqueued"]] == ["HealthPulse", "NightlyReport"]
    assert second["duplicates"] == first["enqueued"]


def test_a_rule_restricts_what_its_source_may_enqueue(invoke, redis):
    text = """
        allow:
          - {source: sqs, origin: "arn:*", classes: [HealthPulse], queues: [default]}
        """
    job = {"class": "HealthPulse", "args": []}

    answer = invoke(text, messages(job, {"class": "NightlyReport", "args": []}))

    assert answer == {"batchItemFailures": [{"itemIdentifier": "m1"}]}
    with pytest.raises(NotAllowed, match="source 'direct' may enqueue nothing"):
        invoke(text, job)
    assert len(queued(redis)) == 1


def test_a_schema_is_checked_before_the_push_whoever_sends_the_job(invoke, redis):
    text = """
        schemas:
          HealthPulse: {items: [{type: integer}]}
        """

    with pytest.raises(
        PayloadError, match=r"args\[0\]: must be integer \(JSON schema of HealthPulse"
    ):
        invoke(text, {"class": "HealthPulse", "args": ["1"]})
    invoke(text, {"class": "HealthPulse", "args": [1]})

    assert arguments(redis) == [[1]]


def test_a_file_with_faults_refuses_every_event(invoke, redis):
    with pytest.raises(ConfigError, match=r"mappings.yml:1 mapping: is not known here"):
        invoke("mapping: []", {"class": "HealthPulse", "args": []})

    assert queued(redis) == []


def test_what_the_build_writes_does_the_same(invoke, redis, tmp_path):
    built = document_of(tmp_path, PULSE).as_json()
    write(tmp_path, built, "mappings.json")

    invoke("this: [is not read", messages({"id": 1}))

    assert arguments(redis) == [[1, "m0"]]


def test_without_a_mapping_the_refusal_shows_one(invoke):
    with pytest.raises(EventError) as raised:
        invoke("mappings: []", read_event("bus_event", detail={"order": 5}))

    assert "mappings: [{match: {source: 'bus', origin: " in str(raised.value)


def test_make_up_uses_the_same_file(redis, redis_url, tmp_path):
    folder = shutil.copytree(APP.parent, tmp_path / "enqueue")
    write(folder, PULSE)
    function = LocalFunction(
        folder=folder,
        handler="app.lambda_handler",
        environ={**os.environ, **ENVIRONMENT, "REDIS_URL": redis_url},
        log=tmp_path / "log",
    )
    try:
        assert function.invoke(messages({"id": 1})) == {"batchItemFailures": []}
    finally:
        function.stop()

    assert arguments(redis) == [[1, "m0"]]
