"""Declaring a schedule: what is taken, what is refused at once, and its state in Redis."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
from support.jobs import own_declarations

from kiqbridge import ConfigError, Job, PayloadError, Schedule, job
from kiqbridge.client.declaration import require_definition
from kiqbridge.client.registry import default_registry
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.schedule.state import SchedulePause, ScheduleState


@pytest.fixture
def report():
    with own_declarations():

        @job(name="Reports::Nightly", queue="low", retry=3, tags=["nightly"])
        def report(day: int, full: bool = False) -> None: ...

        yield report


class TestJob:
    def test_a_declared_job_brings_its_name_and_options_and_another_is_enqueued_as_it_is(
        self, report
    ):
        made = Schedule("nightly", report, cron="0 3 * * *", args=[1]).definition
        options = {"retry": 3, "queue": "low", "tags": ["nightly"]}
        assert made.jobs == ({**options, "class": "Reports::Nightly", "args": [1]},)
        assert made.origin == "dynamic"
        options = {"queue": "q", "attributes": {"retry": 1}}
        made = Schedule("n", "Reports::Ruby", cron="0 3 * * *", **options).definition
        assert made.jobs == ({"retry": 1, "queue": "q", "class": "Reports::Ruby", "args": []},)
        with pytest.raises(PayloadError, match="cannot be called like this"):
            Schedule("nightly", report, cron="0 3 * * *")

    @pytest.mark.parametrize(
        ("job", "options", "told"),
        [
            *(
                ("A", {"args": args}, "args")
                for args in ("x", {"a": 1}, [object()], [float("nan")])
            ),
            *((job, {}, "class") for job in (None, "", 5)),
            ("A", {"attributes": {"jid": "x"}}, "at, jid and tick"),
        ],
    )
    def test_what_is_no_job_is_refused(self, job, options, told):
        with pytest.raises(PayloadError, match=told):
            Schedule("nightly", job, cron="0 3 * * *", **options)


class TestTimes:
    @pytest.mark.parametrize(
        ("options", "expression"),
        [
            ({"cron": "0 3 * * *"}, "0 3 * * *"),
            ({"cron": " cron(0 3 * * ? *) "}, "cron(0 3 * * ? *)"),
            ({"expression": "rate(5 minutes)"}, "rate(5 minutes)"),
            ({"every": 300}, "rate(5 minutes)"),
            ({"every": 60}, "rate(1 minute)"),
            ({"every": timedelta(hours=1)}, "rate(1 hour)"),
            ({"every": "2d"}, "rate(2 days)"),
            ({"every": "90m"}, "rate(90 minutes)"),
            ({"every": "1h30m"}, "rate(90 minutes)"),
            ({"every": "5 minutes"}, "rate(5 minutes)"),
            ({"at": "2027-01-31T09:00:00"}, "at(2027-01-31T09:00:00)"),
        ],
    )
    def test_each_form_becomes_an_expression(self, options, expression):
        assert Schedule("s", "A", **options).definition.expression == expression

    def test_instants_are_kept_in_utc_whatever_the_zone(self):
        moment = datetime(2027, 1, 31, 9, tzinfo=UTC)
        made = Schedule("s", "A", at=moment, timezone="Europe/Paris").definition
        assert (made.expression, made.timezone) == ("at(2027-01-31T09:00:00)", "UTC")
        assert made.when.next_after(moment - timedelta(days=1)) == moment
        bounds = {"start": "2027-01-01T01:00:00+01:00", "end": moment}
        made = Schedule("s", "A", every=60, **bounds).definition
        assert (made.start, made.end) == (datetime(2027, 1, 1, tzinfo=UTC), moment)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "no expression given; give one of cron, every, at and expression"),
            ({"cron": "0 3 * * *", "every": 60}, "cron and every given"),
            ({"cron": "61 * * * *"}, "schedule 's': .*61"),
            ({"cron": ""}, "cron: '' is no text"),
            ({"cron": "0 3 * * *", "timezone": "Europe/Pariss"}, "Europe/Paris"),
            ({"every": 0}, "every: 0"),
            ({"every": 1.5}, "every: 1.5"),
            ({"every": True}, "every: True"),
            ({"every": "5 parsecs"}, "every: duration '5 parsecs' cannot be read"),
            ({"every": float("inf")}, "every: inf"),
            ({"at": datetime(2027, 1, 1)}, "at: "),  # noqa: DTZ001 - that is the fault
            ({"at": "soon"}, "at: 'soon'"),
            ({"every": 60, "start": "2027-01-01"}, "start: '2027-01-01'"),
            ({"every": 60, "jitter_s": -1}, "jitter_s: -1"),
            ({"every": 60, "jitter_s": 1.5}, "jitter_s: 1.5"),
            ({"every": 60, "max_age_s": -1}, "max_age_s: -1"),
            ({"every": 60, "overlap": "wait"}, "overlap: 'wait' is none of allow, skip, cancel"),
            ({"every": 60, "missed": "some"}, "missed: 'some' is none of alert, last, all"),
            ({"every": 60, "enabled": "yes"}, "enabled: 'yes' is not true or false"),
            ({"every": 60, "description": 5}, "description: 5 is no text"),
            ({"every": 60, "timezon": "UTC"}, "timezon: no such option; known: cron, every"),
        ],
    )
    def test_what_is_wrong_is_refused_at_once(self, options, said):
        with pytest.raises(ConfigError, match=said):
            Schedule("s", "A", **options)


@pytest.mark.parametrize("name", ["", "a b", "é", "x" * 257, None, 5, "a\n"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match="is not a name"):
        Schedule(name, "A", every=60)
    assert Schedule("shop/Nightly-2.1:eu", "A", every=60).name == "shop/Nightly-2.1:eu"


@pytest.mark.parametrize("cron", ["0 0 31 2 *", "cron(0 0 30 2 ? *)"])
def test_a_cron_expression_that_never_fires_is_refused(cron):
    with pytest.raises(ConfigError, match="never fires"):
        Schedule("s", "A", cron=cron)
    with pytest.raises(ConfigError, match=r"job 'Never': its schedule: .* never fires"):
        job(name="Never", cron=cron)(lambda: None)


class TestDeclaredBesideItsJob:
    @pytest.fixture(autouse=True)
    def own(self):
        with own_declarations():
            yield

    def test_a_function(self):
        times = {"cron": "0 3 * * *", "timezone": "Europe/Paris", "overlap": "skip"}

        @job(name="Reports::Nightly", queue="low", retry=3, args=[date(2026, 1, 1)], **times)
        def report(day: date, full: bool = False) -> None: ...

        made = require_definition(report).schedule
        assert made.name == "Reports::Nightly"
        assert (made.origin, made.expression, made.timezone) == ("code", *list(times.values())[:2])
        assert (made.overlap, made.missed) == ("skip", "last")
        assert made.jobs == (
            {"retry": 3, "queue": "low", "class": "Reports::Nightly", "args": ["2026-01-01"]},
        )
        assert "cron" not in require_definition(report).options

    def test_a_class_and_not_what_inherits_from_it(self):
        class Nightly(Job):
            queue = "low"
            every = "5m"
            schedule_name = "nightly"
            jitter_s = 30

            def perform(self, day: str = "today") -> None: ...

        class Other(Nightly):
            queue = "high"

        made = require_definition(Nightly).schedule
        assert (made.name, made.expression, made.jitter_s) == ("nightly", "rate(5 minutes)", 30)
        assert made.jobs == ({"retry": True, "queue": "low", "class": "Nightly", "args": []},)
        assert require_definition(Other).schedule is None

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"cron": "61 * * * *", "args": [1]}, "job 'report': its schedule: .*61"),
            ({"cron": "0 3 * * *", "args": []}, "cannot be called like this.*give args="),
            ({"cron": "0 3 * * *", "args": [1, 2, 3]}, "cannot be called like this"),
            (
                {"timezone": "Europe/Paris"},
                "timezone is for a job with a schedule; add cron or every",
            ),
            ({"every": 60, "args": [1], "schedule_name": "a b"}, "is not a name"),
            ({"every": 60, "args": [1], "timezon": "UTC"}, "timezon: .*did you mean timezone"),
        ],
    )
    def test_what_is_wrong_is_refused_at_its_declaration(self, options, said):
        with pytest.raises(ConfigError, match=said):

            @job(**options)
            def report(day: int, full: bool = False) -> None: ...

        assert len(default_registry) == 0


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


def test_what_is_the_default_is_left_out_and_no_mapping_refused():
    assert PLAIN.to_document() == {
        "expression": "0 3 * * *",
        "jobs": [{"class": "Nightly", "args": [1]}],
        "origin": "dynamic",
    }
    with pytest.raises(ConfigError, match="is no mapping"):
        ScheduleDefinition.from_document("nightly", [])


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
        ({"start": "2026-01-01T00:00:00"}, "is no time with a zone"),
        ({"end": 3}, "is no time with a zone"),
        ({"also": "x"}, "also: 'x' is no list of texts"),
    ],
)
def test_a_wrong_member_is_named(change, reason):
    document = {**PLAIN.to_document(), **change}

    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        ScheduleDefinition.from_document("nightly", document)

    assert "'nightly'" in str(raised.value)


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


PAUSE = SchedulePause(reason="a", by="b", at=1.5, until=9.0)


def test_what_is_written_is_read_again():
    full = ScheduleState(paused=PAUSE, skipped=(5, 60))
    for state in (ScheduleState(), ScheduleState(paused=SchedulePause()), full):
        assert ScheduleState.from_text(state.to_text()) == state
    assert ScheduleState().to_text() == b""
    assert full.to_text() == (
        b'{"paused":{"reason":"a","by":"b","at":1.5,"until":9.0},"skipped":[5,60]}'
    )


@pytest.mark.parametrize(
    "text",
    [None, b"", b"x", b"[]", b'{"paused":1,"skipped":{}}', b'{"skipped":["1",true,1.5]}'],
)
def test_what_cannot_be_read_stops_nothing(text):
    assert ScheduleState.from_text(text) == ScheduleState()


def test_a_pause_is_over_at_its_end():
    state = ScheduleState(paused=PAUSE)

    assert state.pause_at(8.9) == PAUSE
    assert state.pause_at(9.0) is None
    assert ScheduleState(paused=SchedulePause(at=1.0)).pause_at(1e12) is not None
