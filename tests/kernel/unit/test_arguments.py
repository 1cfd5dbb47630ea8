"""Arguments by annotations: converted when a job is enqueued, and back when it runs."""

import asyncio
import dataclasses
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING
from unittest import mock
from uuid import UUID

import pytest
from support.processes import run_python

from kiqbridge import ArgumentMismatch, Job, configure, job
from kiqbridge.client import rails
from kiqbridge.client.registry import default_registry
from kiqbridge.errors import PayloadError
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_jobs")

if TYPE_CHECKING:
    from nowhere import Unknown

ID = UUID("5d0a54ab-1f7a-4bd7-85a3-a0f15d0a54ab")
DAY = date(2026, 1, 1)


@dataclasses.dataclass
class Line:
    product: UUID
    api_token: str = ""


def from_wire(name, args):
    return default_registry.require(name).arguments.from_wire(args)


class TestEnqueuing:
    def test_values_are_written_as_json_that_ruby_reads(self, pushes):
        @job
        def remind(user: UUID, day: date, *rest: Decimal, price: Decimal | None = None) -> None:
            pass

        remind.perform_async(ID, DAY, Decimal("1.5"))
        remind.perform_async(day=DAY, user=ID)
        remind.perform_bulk([(ID, DAY), remind.with_args(ID, DAY), [str(ID), "2026-01-01"]])
        remind.set(queue="high").perform_in(60, ID, DAY)

        assert [payload["args"] for _declared, payload in pushes.calls] == [
            [str(ID), "2026-01-01", "1.5"],
            *[[str(ID), "2026-01-01"]] * 5,
        ]

    def test_a_mismatch_names_job_parameter_and_what_came(self, pushes):
        @job
        def remind(day: date, lines: list[Line], *rest: int) -> None:
            pass

        def refused(*args):
            with pytest.raises(PayloadError) as error:
                remind.perform_async(*args)
            return str(error.value)

        assert refused(5, []) == (
            "args: day of remind: expected date, or its text such as 2026-01-01, got 5 of type int"
        )
        assert refused(DAY, [Line(ID), Line(5)]) == (
            "args: lines[1].product of remind: expected UUID, or its text, got 5 of type int"
        )
        assert refused(DAY, [], 1, "a") == (
            "args: rest[1] of remind: expected int, got 'a' of type str"
        )
        assert pushes.calls == []

    def test_a_secret_is_not_shown(self):
        @job
        def remind(password: int, line: Line) -> None:
            pass

        for args in (("sesame", Line(ID)), (1, Line(ID, api_token=b"sesame"))):
            with pytest.raises(PayloadError) as error:
                remind.perform_async(*args)
            assert "sesame" not in str(error.value)
            assert "[REDACTED]" in str(error.value)

    def test_a_default_of_another_type_passes(self, pushes):
        @job
        def remind(day: date = None, count: int = "all", last: bool = False) -> None:  # noqa: RUF013 - that is what passes
            pass

        remind.perform_async(last=True)

        assert pushes.last["args"] == [None, "all", True]
        assert from_wire("remind", [None, "all", True]) == [None, "all", True]

    def test_large_integers_survive(self, pushes):
        @job
        def count(number: int, numbers: list[int]) -> None:
            pass

        args = [2**80, [2**80]]
        count.perform_async(*args)
        assert pushes.last["args"] == from_wire("count", args) == args


class TestPerforming:
    @pytest.fixture(autouse=True)
    def _client(self):
        configure("redis://nowhere.invalid:1/0")

    def test_a_function_a_class_and_a_coroutine_get_them_back(self, seen):
        @job
        def remind(user: UUID, at: datetime, line: Line) -> None:
            seen.extend((user, at, line))

        class Report(Job):
            def perform(self, day: date) -> None:
                seen.append(day)

        @job
        async def crawl(day: date) -> None:
            seen.append(day)

        at = datetime(2026, 1, 1, 8, 30, tzinfo=UTC)
        remind.perform_inline(ID, at, Line(ID))
        Report.perform_inline(DAY)
        crawl.perform_inline("2026-01-02")
        assert seen == [ID, at, Line(ID), DAY, date(2026, 1, 2)]
        assert from_wire("crawl", []) == []  # a wrong number is the error of the call
        assert from_wire("crawl", ["2026-01-01", 5]) == [DAY, 5]

    def test_what_middleware_changes_is_checked_before_the_job_is_called(self, seen):
        @job
        def remind(day: date) -> None:
            seen.append(day)

        client = configure("redis://nowhere.invalid:1/0")

        def spoil(_instance, payload, _queue, call_next):
            payload["args"] = ["soon"]
            return call_next()

        client.server_middleware.add(spoil)

        with pytest.raises(ArgumentMismatch) as error:
            remind.perform_inline(DAY)
        assert str(error.value) == (
            "day of remind: expected date, or its text such as 2026-01-01, got 'soon' of type str; correct "
            "it where the job is enqueued, or the annotation of the parameter"
        )
        assert seen == []


class TestPlainArguments:
    """Those that are JSON already, which nearly all jobs have."""

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_they_pass_and_others_are_refused_whatever_their_number(self, pushes, count):
        def one(a: int): ...
        def two(a: int, b: str): ...
        def three(a: int, b: str, c: bool): ...

        declared = job(name="Plain")([one, two, three][count - 1])
        args = [5, "x", True][:count]

        declared.perform_async(*args)

        assert pushes.last["args"] == args
        assert from_wire("Plain", args) == args
        assert from_wire("Plain", args[:-1]) == args[:-1]  # the call says what is missing
        assert from_wire("Plain", [*args, None]) == [*args, None]
        for place in range(count):
            wrong = [*args[:place], [], *args[place + 1 :]]
            with pytest.raises(PayloadError, match=f"args: {'abc'[place]} of Plain: expected"):
                declared.perform_async(*wrong)
            with pytest.raises(ArgumentMismatch, match=f"{'abc'[place]} of Plain: expected"):
                from_wire("Plain", wrong)


class TestWhatIsNotChecked:
    def test_a_job_that_does_not_want_it(self, pushes):
        @job(check_arguments=False)
        def remind(day: date) -> None:
            pass

        class Report(Job):
            check_arguments = False

            def perform(self, day: date) -> None:
                pass

        remind.perform_async(5)
        Report.perform_async(6)

        assert [payload["args"] for _declared, payload in pushes.calls] == [[5], [6]]

    def test_parameters_without_annotations_or_with_unknown_names(self, pushes):
        @job
        def remind(day, other: "Unknown", known: "UUID") -> None:
            pass

        remind.perform_async(1, "a", ID)

        assert pushes.last["args"] == [1, "a", str(ID)]
        assert from_wire("remind", [1, "a", str(ID)]) == [1, "a", ID]


def test_assertions_about_recorded_jobs_take_them_too():
    with fake() as jobs:

        @job
        def remind(user: UUID, day: date, *rest: date) -> None:
            pass

        remind.perform_async(ID, DAY, DAY)

        jobs.assert_enqueued(remind, args=[ID, DAY, DAY])
        jobs.assert_enqueued(remind, args=[mock.ANY, "2026-01-01", DAY])
        jobs.assert_enqueued(remind, kwargs={"day": DAY})
        jobs.assert_not_enqueued(remind, args=[ID, date(2026, 1, 2), DAY])
        jobs.assert_not_enqueued(remind, kwargs={"day": date(2026, 1, 2)})


def test_what_rails_serializes_is_left_to_it():
    @job(name="NightlyJob")
    def nightly(day: date) -> None:
        pass

    wrapper = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
    payload = {"class": wrapper, "args": [{"job_class": "NightlyJob"}]}

    assert rails.require(payload, default_registry).arguments is None
    assert rails.require({"class": "NightlyJob"}, default_registry).arguments is not None


def test_calls_from_several_threads_agree_while_the_converters_are_made(pushes):
    @job
    def remind(user: UUID) -> None:
        pass

    async def enqueue():
        await asyncio.gather(*(remind.aperform_async(ID) for _ in range(20)))

    asyncio.run(enqueue())

    assert [payload["args"] for _declared, payload in pushes.calls] == [[str(ID)]] * 20


def test_declaring_jobs_loads_no_converters():
    script = """
        import sys
        from datetime import date
        from kiqbridge import job

        @job
        def remind(day: date) -> None: ...

        assert "kiqbridge.client.argument_types" not in sys.modules
    """

    run_python(script)
