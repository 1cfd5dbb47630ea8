"""Every recorded event is read as what it is, and no changed one brings the function down.

`events/README.md` names where each was recorded. `sam/` is what `sam local generate-event` writes.
"""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.enqueue_function import EVENTS, ROOT, read_event
from support.parsed_event import parse_event
from support.proving import sized
from support.sources import closed, opened, outcome, places, recorded
from support.strategies import JSON_VALUES

from kiqbridge.aws import sources
from kiqbridge.aws.record import Result
from kiqbridge.aws.requests import read_jobs
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.features.service_events import services

OUTCOMES = json.loads(Path(__file__).with_name("outcomes.json").read_text(encoding="utf-8"))
"""Event → its source, and for each record: whether it is a job, what it carries, what identifies it."""


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_recorded_event_is_read_as_what_it_is(name):
    assert outcome(recorded(name)) == OUTCOMES[name]


def test_no_event_of_the_generator_is_left_out():
    names = {f"sam/{path.stem}" for path in (EVENTS / "sam").glob("*.json")}

    assert names == {name for name in OUTCOMES if name.startswith("sam/")}
    assert len(names) == 65


def test_each_recorded_event_is_named_with_its_source():
    text = (EVENTS / "README.md").read_text(encoding="utf-8")

    assert [path.stem for path in EVENTS.glob("*.json") if f"`{path.stem}`" not in text] == []


TABLES = [(sources, "OF_RECORDS"), (sources, "BY_KEYS"), (services, "FORMS")]


@pytest.mark.parametrize(
    ("module", "table", "row"),
    [
        pytest.param(module, table, row, id=f"{table}-{row}")
        for module, table in TABLES
        for row in getattr(module, table)
    ],
)
def test_a_row_that_is_taken_out_of_a_table_is_missed(monkeypatch, module, table, row):
    rows = {name: value for name, value in getattr(module, table).items() if name != row}
    monkeypatch.setattr(module, table, rows)

    assert any(outcome(recorded(name)) != expected for name, expected in OUTCOMES.items())


# Unknown events


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            None,
            "event: None is not an object, nor the text or the list of jobs; send a job such as",
        ),
        ("hello", "event: 'hello' is not an object"),
        ("[1, 2]", "event: '[1, 2]' is not an object"),
        ([], "event: [] is not an object"),
        ([{"class": "A", "args": []}, 5], "is not an object, nor the text"),
        ({"orderId": 5}, "event: {'orderId': 5} holds no job; it needs the keys class and args"),
        (
            [{"orderId": 5}],
            "event: [{'orderId': 5}] is not an object, nor the text or the list of jobs",
        ),
        (
            [{"eventSource": "aws:amq"}],
            "event: this looks like a pipe's batch of 'aws:amq', which holds no",
        ),
        ({"Records": []}, "Records: [] is not a list with at least one record; an invocation"),
        ({"Records": "x"}, "Records: 'x' is not a list"),
        ({"Records": [5]}, "Records[0]: 5 is not an object"),
        ({"Records": [{}]}, "Records: records of None are of no service that this function knows"),
        ({"Records": [{"eventSource": "aws:new"}]}, "Records: records of 'aws:new' are of no serv"),
    ],
    ids=str,
)
def test_what_is_unknown_is_refused_with_what_was_seen(event, message):
    with pytest.raises(EventError) as raised:
        parse_event(event, 1e9)

    assert message in str(raised.value)


@pytest.mark.parametrize(
    "event",
    [
        {"source": "serverless-plugin-warmup"},
        {"source": "warmup"},
        {"keep-warm": {"functions": 3}},
        {"warmer": True, "concurrency": 3},
    ],
    ids=str,
)
def test_a_ping_that_keeps_warm_is_answered(invoke, redis, event):
    assert invoke(event) == {"enqueued": [], "duplicates": [], "stale": []}

    assert redis.dbsize() == 0


def test_a_job_is_no_ping_whatever_stands_beside_it(invoke):
    assert invoke(read_event("direct_one") | {"warmup": True})["enqueued"]


def test_a_record_of_another_service_fails_alone(invoke, redis):
    event = recorded("sqs_fifo")
    event["Records"][1]["eventSource"] = "aws:s3"

    answer = invoke(event)

    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == [
        event["Records"][1]["messageId"]
    ]
    assert redis.llen("queue:default") == 1


def test_of_a_pipe_the_failed_messages_are_answered_as_of_a_queue(invoke, redis):
    messages = recorded("pipe_sqs")
    bad = messages[0] | {"messageId": "bad", "body": "no json"}

    assert invoke([*messages, bad]) == {"batchItemFailures": [{"itemIdentifier": "bad"}]}

    assert redis.llen("queue:default") == 1


@pytest.mark.parametrize(
    "name", ["http/url_iam", "kinesis_jobs", "sqs_s3_one", "s3_object_created"]
)
def test_an_event_whose_feature_was_taken_away_is_refused_with_its_name(monkeypatch, name):
    sources.family.cache_clear()
    monkeypatch.setattr(sources.seams, "named", lambda _name: None)

    with pytest.raises(
        EventError, match=r"the feature (http_events|streams|s3_events), which reads"
    ):
        parse_event(recorded(name), 1e9)


# Changed events

VALUES = st.one_of(
    JSON_VALUES,
    st.sampled_from(
        [
            {"class": "HealthPulse", "args": []},
            [{"class": "HealthPulse", "args": []}],
            "\ud800",
            "AAEC",
            "H4sIAAAAAAAAA6tWSlSyUkpSqgUAcZzqpQoAAAA=",
            "[" * 300,
            json.loads("[" * 500 + "]" * 500),
            json.loads('{"M": {"a": ' * 200 + "{}" + "}}" * 200),
        ]
    ),
)


@st.composite
def changed(draw):
    """A recorded event in which a few things are missing or are something else."""
    event = copy.deepcopy(opened(recorded(draw(st.sampled_from(sorted(OUTCOMES))))))
    for _ in range(draw(st.integers(1, 3))):
        found = list(places(event))
        if not found:
            break
        container, key = found[draw(st.integers(0, len(found) - 1))]
        if draw(st.booleans()):
            container[key] = copy.deepcopy(draw(VALUES))
        else:
            del container[key]
    return closed(event)


@given(event=changed())
@settings(max_examples=sized(full=3000, sample=80))
def test_a_changed_event_is_read_or_refused_and_nothing_else(event):
    """Any other exception would end the invocation with a message for nobody."""
    try:
        delivery = sources.read(event)
    except EventError:
        return
    results = []
    for record in delivery.records:
        try:
            read_jobs(record, 1e9)
            results.append(Result(record=record))
        except (EventError, PayloadError) as error:
            results.append(Result(record=record, error=error))
    if delivery.answer is not None:
        json.dumps(delivery.answer(results))


@given(
    event=st.one_of(
        JSON_VALUES,
        st.dictionaries(
            st.sampled_from(
                [
                    "Records",
                    "detail-type",
                    "awslogs",
                    "tasks",
                    "invocationSchemaVersion",
                    "requestContext",
                    "requestPayload",
                    "source",
                    "methodArn",
                ]
            ),
            VALUES,
            min_size=1,
        ),
    )
)
@settings(max_examples=sized(full=2000, sample=60))
def test_any_value_is_read_or_refused(event):
    try:
        delivery = sources.read(event)
        for record in delivery.records:
            read_jobs(record, 1e9)
    except (EventError, PayloadError):
        pass


# What is loaded

LOADED = """
import json, sys
from kiqbridge.aws import sources
before = set(sys.modules)
sources.read(json.loads(sys.argv[1]))
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize(
    ("name", "modules"),
    [
        ("direct_one", "direct"),
        ("sqs_records", "queues"),
        ("bus_event", "event_bridge"),
    ],
)
def test_an_event_loads_its_own_source_only(name, modules):
    result = subprocess.run(
        [sys.executable, "-c", LOADED, json.dumps(recorded(name))],
        cwd=ROOT / "worker",
        capture_output=True,
        text=True,
        check=True,
    )

    prefix = "kiqbridge.aws.sources."
    assert result.stdout.split() == [f"{prefix}{module}" for module in modules.split()]
