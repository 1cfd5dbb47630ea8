"""What each source accepts, recognizes as repeated, and refuses: `pytest -s` prints the table.

Every recorded event is delivered twice to the real function, with a mapping for what is no job. Then it is
read without the mapping, and once for each of its keys with that key taken out.
"""

import copy
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest
from features.test_sources import OUTCOMES
from support.enqueue_function import ENVIRONMENT
from support.sources import closed, opened, places, recorded

from kiqbridge.aws import sources
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.aws.record import Delivery
from kiqbridge.aws.requests import read_jobs
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.features.mappings import declared, document
from kiqbridge.features.mappings.mapper import Mapper

TAKE_ALL = "mappings: [{match: {source: '*'}, class: HealthPulse, args: []}]"
NEVER_ACCEPTED = {"warm-up", "unknown"}
"""`unknown` is that of events that are refused as a whole."""
WITHOUT_IDENTITY = {
    "amazon-mq",
    "appsync",
    "batch",
    "bedrock-agent",
    "cognito",
    "cognito-sync",
    "connect",
    "direct",
    "documentdb",
    "http",
    "iot-button",
    "kafka",
    "lex",
    "lex-v2",
    "rabbit-mq",
    "sagemaker",
    "step-functions-error",
}
"""Sources whose events are new at each delivery, unless a job has a `dedupe_key`."""


@pytest.fixture(scope="module")
def events():
    """By name, with ticks that are due now."""
    found = {name: recorded(name) for name in OUTCOMES}
    for event in found.values():
        if isinstance(event, dict) and isinstance(event.get("tick"), dict):
            event["tick"]["at"] = f"{datetime.now(UTC):%FT%H:%M:00Z}"
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mappings.yml").write_text(TAKE_ALL)
    return tmp_path


@pytest.fixture
def mapper(folder):
    found = document.load(folder / "mappings.yml")
    return Mapper(found, declared.read(found))


@pytest.fixture
def enqueuer(redis, redis_url, folder):
    return Enqueuer.from_environment(ENVIRONMENT | {"REDIS_URL": redis_url}, folder)


def test_each_source_accepts_recognizes_and_refuses(enqueuer, events, mapper):
    table = delivered_twice(enqueuer, events)
    count_refusals(events, table, mapper)

    print_table(table)
    rows = {name: row for name, row in table.items() if name not in NEVER_ACCEPTED}
    assert len(rows) > 35
    assert {name for name, row in rows.items() if not row["accepted"]} == set()
    assert {name for name, row in rows.items() if row["accepted again"]} == WITHOUT_IDENTITY
    # Of direct invocations some have a tick or a `dedupe_key`.
    unrecognized = {name for name, row in rows.items() if not row["duplicate"]}
    assert unrecognized == WITHOUT_IDENTITY - {"direct"}
    unrefused = {name for name, row in rows.items() if not row["unmapped"] + row["broken"]}
    assert unrefused == set()
    assert table["unknown"]["broken"] > 100


def delivered_twice(enqueuer, events):
    """Source → what became of its jobs; `accepted` of the first delivery only."""
    table = defaultdict(Counter)
    for name, event in events.items():
        first = enqueuer.handle(event, now=datetime.now(UTC).timestamp())
        second = enqueuer.handle(event, now=datetime.now(UTC).timestamp())
        row = table[first.source]
        row["events"] += 1
        for handled, column in ((first, "accepted"), (second, "accepted again")):
            jobs = [job for result in handled.results for job in result.jobs]
            row[column] += sum(not job.duplicate for job in jobs)
        repeated = [job for result in second.results for job in result.jobs]
        row["duplicate"] += sum(job.duplicate for job in repeated)
        row["answered"] += bool(first.ignored) + sum(
            bool(each.record.ignored) for each in first.results
        )
        errors = [each.error for each in first.results if each.error]
        assert [each for each in errors if not isinstance(each, EventError)] == [], name
    return table


def count_refusals(events, table, mapper):
    """`unmapped`: records that are no jobs. `broken`: those of events that lack a key, with a mapping."""
    for event in events.values():
        source, refused = refusals(event, None)
        table[source]["unmapped"] += refused
        whole = opened(event)
        for number in range(sum(1 for _ in places(whole))):
            changed = copy.deepcopy(whole)
            container, key = list(places(changed))[number]
            del container[key]
            source, refused = refusals(closed(changed), mapper)
            table[source]["broken"] += refused


def refusals(event, mapper):
    """The source, and how many records are refused; any other exception is a fault."""
    try:
        delivery = sources.read(event)
    except EventError:
        return "unknown", 1
    refused = 0
    for record in delivery.records if isinstance(delivery, Delivery) else ():
        try:
            read_jobs(record, datetime.now(UTC).timestamp(), mapper)
        except (EventError, PayloadError):
            refused += 1
    return delivery.source, refused


def print_table(table):
    columns = (
        "events",
        "accepted",
        "duplicate",
        "accepted again",
        "answered",
        "unmapped",
        "broken",
    )
    print(f"\n{'source':22}" + "".join(f"{column:>16}" for column in columns))
    for source, row in sorted(table.items()):
        print(f"{source:22}" + "".join(f"{row[column]:>16}" for column in columns))
