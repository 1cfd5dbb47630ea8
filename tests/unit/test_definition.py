"""What a schedule is, as JSON and back."""

import re
from datetime import UTC, datetime

import pytest

from kiqbridge.errors import ConfigError
from kiqbridge.schedule.definition import ScheduleDefinition

JOBS = ({"class": "Nightly", "args": [1]},)
PLAIN = ScheduleDefinition(name="nightly", expression="0 3 * * *", jobs=JOBS)
FULL = ScheduleDefinition(
    name="shop/Nightly",
    expression="cron(0 3 * * ? *)",
    jobs=JOBS,
    timezone="Europe/Paris",
    start=datetime(2026, 1, 1, tzinfo=UTC),
    end=datetime(2027, 1, 1, tzinfo=UTC),
    origin="template",
    enabled=False,
    missed="last",
    max_age_s=600.0,
    grace_s=60.0,
    overlap="skip",
    jitter_s=30,
    description="the nightly report",
)


@pytest.mark.parametrize("definition", [PLAIN, FULL])
def test_a_definition_is_read_as_it_was_written(definition):
    document = definition.to_document()

    assert ScheduleDefinition.from_document(definition.name, document) == definition


def test_what_is_the_default_is_left_out():
    assert PLAIN.to_document() == {
        "expression": "0 3 * * *",
        "jobs": [{"class": "Nightly", "args": [1]}],
        "origin": "dynamic",
    }


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"expression": 3}, "expression: 3 is no text"),
        ({"jobs": []}, "jobs: [] is no list of jobs"),
        ({"jobs": [3]}, "is no list of jobs"),
        ({"missed": "never"}, "missed: 'never' is none of alert, last, all"),
        ({"overlap": 1}, "is none of allow, skip, cancel"),
        ({"grace_s": -1}, "grace_s: -1 is no number of seconds from 0"),
        ({"jitter_s": True}, "jitter_s: True is no number"),
        ({"max_age_s": float("nan")}, "max_age_s: nan is no number"),
        ({"start": "2026-01-01T00:00:00"}, "is no ISO 8601 time with a zone"),
        ({"end": 3}, "is no ISO 8601 time with a zone"),
    ],
)
def test_a_wrong_member_is_named(change, reason):
    document = {**PLAIN.to_document(), **change}

    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        ScheduleDefinition.from_document("nightly", document)

    assert "'nightly'" in str(raised.value)


def test_no_mapping_is_refused():
    with pytest.raises(ConfigError, match="is no mapping"):
        ScheduleDefinition.from_document("nightly", [])


def test_jitter_is_stable_and_within_its_bound():
    spread = ScheduleDefinition(name="a", expression="* * * * *", jobs=JOBS, jitter_s=30)

    found = [spread.put_off_s(60 * minute) for minute in range(500)]

    assert found == [spread.put_off_s(60 * minute) for minute in range(500)]
    assert set(found) == set(range(31))
    assert PLAIN.put_off_s(60) == 0


def test_a_rate_without_start_counts_from_1970():
    every = ScheduleDefinition(name="a", expression="rate(5 minutes)", jobs=JOBS)

    found = every.when.next_after(datetime(2026, 1, 1, 0, 7, tzinfo=UTC))

    assert found == datetime(2026, 1, 1, 0, 10, tzinfo=UTC)


def test_further_expressions_are_due_as_well_and_kept():
    either = ScheduleDefinition(
        name="a", expression="cron(0 0 13 * ? *)", also=("cron(0 0 ? * FRI *)",), jobs=JOBS
    )

    assert ScheduleDefinition.from_document("a", either.to_document()) == either
    due = list(
        either.when.between(datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 21, tzinfo=UTC))
    )
    assert [each.day for each in due] == [6, 13, 20]


def test_further_expressions_are_a_list_of_texts():
    with pytest.raises(ConfigError, match="also: 'x' is no list of texts"):
        ScheduleDefinition.from_document("a", {**PLAIN.to_document(), "also": "x"})
