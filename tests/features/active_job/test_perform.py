"""What Rails enqueues reaches the declared job of the class inside, with its arguments (§17)."""

import dataclasses
import datetime as dt
import functools
import json
import logging
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import pytest
from support.runners import make_runner

from kiqbridge import Client, ConfigError, PayloadError, job
from kiqbridge import rails as rails_types
from kiqbridge.client import inline, rails
from kiqbridge.client.registry import default_registry
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.perform.gate import Gate
from kiqbridge.engine.perform.job_logger import JobLines
from kiqbridge.errors import JobNotFound
from kiqbridge.features.active_job.form import serialize
from kiqbridge.features.active_job.values import deserialize_arguments
from kiqbridge.rails import GlobalID, Range, Symbol
from kiqbridge.testing import fake
from kiqbridge.wire.active_job import NEW_WRAPPER, OLD_WRAPPER

pytestmark = pytest.mark.usefixtures("own_jobs")

RECORDED = json.loads(
    (Path(__file__).parents[2] / "vectors" / "activejob.json").read_text(encoding="utf-8")
)["operations"]


@pytest.fixture
def calls():
    return []


class Thread:
    tid = "t"
    performing = False
    interrupted = False


def runner(**options):
    return make_runner(default_registry, **options)


def payload_of(*arguments, wrapper=OLD_WRAPPER, name="NightlyJob", **values):
    data = {"job_class": name, "job_id": "U", "arguments": serialize(list(arguments)), **values}
    return {"class": wrapper, "wrapped": name, "args": [data], "jid": "J", "retry": True}


def run(payload, **options):
    return runner(**options).run(json.dumps(payload).encode(), "default", Thread())


def serialized(name, **values):
    return {"_aj_serialized": f"ActiveJob::Serializers::{name}Serializer", **values}


class TestPerforming:
    @pytest.mark.parametrize("wrapper", [OLD_WRAPPER, NEW_WRAPPER])
    def test_both_wrappers_reach_the_class_inside(self, wrapper, calls):
        job(name="NightlyJob")(lambda *args: calls.append(args))

        assert run(payload_of(1, Symbol("two"), wrapper=wrapper)) is None

        assert calls == [(1, "two")] and type(calls[0][1]) is Symbol

    @pytest.mark.parametrize(
        "text",
        [
            text
            for each in RECORDED
            if each["operation"].startswith("active_job")
            for command in each["commands"]
            for text in command
            if text.startswith("{")
        ],
    )
    def test_what_6_1_and_7_2_wrote_is_performed(self, text, calls):
        job(name="MyMailJob")(lambda *args: calls.append(args))

        assert runner().run(text.encode(), "mailers", Thread()) is None

        given = json.loads(text)["args"][0]["arguments"]
        if len(given) == 3:
            assert calls == [(1, "two", {"k": "sym", "sym": [1.5, None]})]
        else:
            assert calls == [tuple(given)]

    def test_the_class_inside_decides_unless_the_wrapper_is_declared_itself(self, calls):
        job(name="NightlyJob")(lambda: calls.append("inside"))
        job(name="Shown")(lambda: calls.append("shown"))
        assert run({**payload_of(), "wrapped": "Shown"}) is None
        execution = runner().read(json.dumps(payload_of()).encode(), "default")
        assert isinstance(execution, Execution) and execution.class_name == "NightlyJob"
        job(name=OLD_WRAPPER)(lambda data: calls.append(data["job_class"]))
        assert run(payload_of()) is None
        assert calls == ["inside", "NightlyJob"]

    def test_inline_performs_an_active_job_by_the_same_way(self, calls):
        @job(name="NightlyJob")
        def nightly(day, *, copy=False):
            calls.append((day, copy, rails_types.current_job().executions))
            return "done"

        item = {"active_job": "NightlyJob", "args": [dt.date(2026, 1, 1)], "kwargs": {"copy": True}}
        assert inline.perform(Client("redis://127.0.0.1:1/0", profile="7"), item) == "done"

        assert calls == [(dt.date(2026, 1, 1), True, 1)]

    @pytest.mark.parametrize("before", [None, "7", True])
    def test_executions_that_are_no_number_begin_anew_and_nothing_is_left_for_the_next_job(
        self, before, calls
    ):
        job(name="NightlyJob")(
            lambda: calls.append(
                (rails_types.current_job().job_id, rails_types.current_job().executions)
            )
        )
        job(name="Plain")(lambda: calls.append(rails_types.current_job()))
        run(payload_of(executions=before))
        run({"class": "Plain", "args": [], "jid": "K"})
        assert calls == [("U", 1), None]

    def test_without_retry_that_of_the_wrapper_counts(self):
        job(name="NightlyJob", retry=False)(lambda: 1 / 0)
        payload = payload_of()
        del payload["retry"]
        assert run(payload).target.value == "retry"

    @pytest.mark.parametrize("args", [[], [5], [{}], [{"job_class": 5}], ["x", "y"]])
    def test_what_names_no_class_inside_is_unknown_by_the_wrappers_name(self, args):
        payload = payload_of() | {"args": args}
        assert json.loads(run(payload).text)["error_class"] == "NameError"
        with pytest.raises(JobNotFound):
            rails.require(payload, default_registry)

    def test_an_argument_that_cannot_be_read_is_a_failure_that_names_its_place(self, calls):
        job(name="NightlyJob")(lambda *args: calls.append(args))
        payload = payload_of()
        payload["args"][0]["arguments"] = [1, {"x": {"_aj_serialized": "MoneySerializer"}}]

        settlement = run(payload)

        assert settlement.target.value == "retry" and calls == []
        message = json.loads(settlement.text)["error_message"]
        assert message.startswith("arguments[1].x: 'MoneySerializer' is a serializer")

    def test_a_job_whose_class_inside_is_declared_is_not_routed_away(self):
        job(name="NightlyJob")(lambda: None)
        gate = Gate(
            paused=type("Paused", (), {"classes": frozenset()})(),
            declared=default_registry,
            foreign_jobs="refuse",
            unknown_class="route:ruby",
            rng=random.Random(1),
        )

        assert gate.check(payload_of()) is None
        assert gate.check(payload_of(name="OtherJob")).queue == "ruby"

    def test_values_of_secret_parameters_are_hidden_in_its_lines(self, caplog):
        job(name="NightlyJob")(lambda day, password: None)

        with caplog.at_level(logging.DEBUG):
            run(payload_of(3, "abracadabra"), lines=JobLines())

        shown = [each.arguments for each in caplog.records if hasattr(each, "arguments")]
        assert shown and "abracadabra" not in str(shown) and "3" in str(shown)


def takes_keyword_only(day, *, copy=False):
    return (day, copy)


def takes_anything(*args, **kwargs):
    return (args, kwargs)


def takes_one(given):
    return given


class TestKeywords:
    @pytest.mark.parametrize(
        ("function", "arguments", "expected"),
        [
            (takes_keyword_only, [1, {"copy": True, "_aj_ruby2_keywords": ["copy"]}], (1, True)),
            (takes_keyword_only, [{"day": 1, "_aj_ruby2_keywords": ["day"]}], (1, False)),
            (takes_keyword_only, [1, {"copy": True, "_aj_symbol_keys": ["copy"]}], (1, True)),
            (takes_keyword_only, [{"copy": 1, "_aj_symbol_keys": ["copy"]}], ({"copy": 1}, False)),
            (takes_one, [{"given": 1, "_aj_symbol_keys": ["given"]}], {"given": 1}),
            (takes_one, [{"other": 1, "_aj_ruby2_keywords": ["other"]}], {"other": 1}),
            (takes_one, [5, {"_aj_ruby2_keywords": []}], 5),
            (takes_anything, [{"a": 1, "_aj_ruby2_keywords": ["a"]}], ((), {"a": 1})),
            (takes_anything, [{"a": 1, "_aj_symbol_keys": ["a"]}], (({"a": 1},), {})),
        ],
    )
    def test_the_last_hash_is_keywords_where_ruby_would_have_it_so(
        self, function, arguments, expected, calls
    ):
        @job(name="NightlyJob")
        @functools.wraps(function)
        def nightly(*args, **kwargs):
            calls.append(function(*args, **kwargs))

        payload = payload_of()
        payload["args"][0]["arguments"] = arguments
        assert run(payload) is None
        assert calls == [expected]


class TestArguments:
    @pytest.mark.parametrize(
        ("written", "read"),
        [
            ({"_aj_globalid": "gid://shop/Order/7"}, GlobalID("gid://shop/Order/7")),
            (serialized("BigDecimal", value="0.125e1"), Decimal("1.25")),
            (serialized("Range", begin=1, end=4, exclude_end=True), range(1, 4)),
            (serialized("Range", begin=1, end=4, exclude_end=False), range(1, 5)),
            (
                serialized("Range", begin=serialized("Date", value="2026-01-01"), end=None),
                Range(begin=dt.date(2026, 1, 1), end=None, exclude_end=False),
            ),
            (serialized("Module", value="Billing::Invoice"), "Billing::Invoice"),
            (serialized("Duration", value=5400, parts=[]), dt.timedelta(minutes=90)),
            ({"a": 1, "_aj_hash_with_indifferent_access": True}, {"a": 1}),
        ],
    )
    def test_what_rails_writes_is_read(self, written, read):
        [back] = deserialize_arguments([written])

        assert back == read and type(back) is type(read)

    @pytest.mark.parametrize(
        ("zone", "kept"),
        [
            ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
            ("Pacific Time (US & Canada)", dt.timezone(dt.timedelta(hours=2))),  # unknown here
        ],
    )
    def test_a_time_keeps_its_zone(self, zone, kept):
        value = "2026-07-01T08:00:00.000000000+02:00"
        [moment] = deserialize_arguments([serialized("TimeWithZone", value=value, time_zone=zone)])
        assert moment == dt.datetime(2026, 7, 1, 8, tzinfo=kept)
        assert moment.tzinfo == kept

    @pytest.mark.parametrize(
        "value",
        [
            *(None, True, 1, 2**70, 1.5, "text", [1, ["a"]], {"a": {"b": 1}}),
            *(Symbol("a"), GlobalID("gid://shop/Order/7"), range(3, 9), dt.date(2026, 1, 2)),
            Range(begin=1.5, end=None, exclude_end=True),
            Decimal("1.25"),
            dt.timedelta(seconds=1.5),
            dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
            {Symbol("a"): [Symbol("b")], "c": None},
        ],
    )
    def test_what_python_serialized_comes_back_as_it_was(self, value):
        [back] = deserialize_arguments(serialize([value]))

        assert back == value and type(back) is type(value)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (None, "arguments: None is not a list"),
            ([{"_aj_globalid": 5}], r"arguments\[0\]: .* is no GlobalID"),
            ([[serialized("Date", value="soon")]], r"arguments\[0\]\[0\]: .* is not in the form"),
            ([serialized("Duration", value="x")], "is not in the form"),
            ([{"_aj_serialized": 5}], "5 is a serializer that is not known here"),
        ],
    )
    def test_what_cannot_be_read_is_refused_by_its_place(self, arguments, message):
        with pytest.raises(PayloadError, match=message):
            deserialize_arguments(arguments)

    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("gid://shop/Order/7", ("shop", "Order", "7")),
            ("gid://shop/Billing::Invoice/a%2Fb?version=2", ("shop", "Billing::Invoice", "a/b")),
            ("nonsense", ("nonsense", "", "")),
        ],
    )
    def test_a_global_id_has_its_parts(self, text, parts):
        record = GlobalID(text)

        assert (record.app, record.model_name, record.model_id) == parts


@dataclasses.dataclass
class Line:
    product: str
    price: Decimal


ZONED = dt.datetime(2026, 7, 1, 8, tzinfo=ZoneInfo("Europe/Berlin"))
DAY = dt.date(2026, 1, 1)


class TestAnnotations:
    @pytest.mark.parametrize(
        ("annotation", "sent", "given"),
        [
            (dt.date, dt.date(2026, 1, 1), dt.date(2026, 1, 1)),
            (dt.date, "2026-01-01", dt.date(2026, 1, 1)),
            (dt.datetime | None, ZONED, ZONED),
            (list[dt.datetime], [ZONED], [ZONED]),
            (str, Symbol("a"), Symbol("a")),
            (Literal["low", "high"], Symbol("high"), Symbol("high")),
            (Symbol, Symbol("a"), Symbol("a")),
            (Symbol, "a", Symbol("a")),
            (GlobalID | None, GlobalID("gid://shop/Order/7"), GlobalID("gid://shop/Order/7")),
            (Range | None, Range(begin=1.5, end=None, exclude_end=True), Range(begin=1.5, end=None, exclude_end=True)),
            (range, range(1, 4), range(1, 4)),
            (int, dt.timedelta(minutes=5), 300),
            (dt.timedelta, dt.timedelta(minutes=5), dt.timedelta(minutes=5)),
            (Decimal, 5, Decimal(5)),
            (Line, {Symbol("product"): "tea", Symbol("price"): Decimal("1.5")}, Line("tea", Decimal("1.5"))),
            (uuid.UUID, "5d0a54ab-24c1-4c1e-8a4f-7a7b2d7a2f61", uuid.UUID("5d0a54ab-24c1-4c1e-8a4f-7a7b2d7a2f61")),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("by", ["place", "keyword"])
    def test_arguments_are_what_the_annotations_say(self, annotation, sent, given, by, calls):
        def nightly(it, *, only=None):
            calls.append(it if by == "place" else only)

        nightly.__annotations__ = {"it": annotation, "only": annotation}
        job(name="NightlyJob")(nightly)
        named = {"only": sent, "_aj_ruby2_keywords": ["only"]}

        assert run(payload_of(sent, named) if by == "keyword" else payload_of(sent)) is None

        assert calls == [given] and type(calls[0]) is type(given)
        if given is ZONED:
            assert calls[0].tzinfo == ZONED.tzinfo

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["x"], "day of NightlyJob: expected date"),
            ([ZONED], "day of NightlyJob: expected date"),
            ([DAY, 5], "lines of NightlyJob: expected list of Line"),
            ([DAY, [{"product": 5, "price": 1}]], "lines[0].product of NightlyJob: expected str"),
            (
                [DAY, {"copy": 1, "_aj_ruby2_keywords": ["copy"]}],
                "copy of NightlyJob: expected bool",
            ),
        ],
    )
    def test_what_does_not_fit_is_dead_at_once_and_never_called(self, arguments, said, calls):
        @job(name="NightlyJob")
        def nightly(day: dt.date, lines: list[Line] = (), *, copy: bool = False):
            calls.append(day)

        settlement = run(payload_of(*arguments))
        assert (settlement.target.value, calls) == ("dead", [])
        assert json.loads(settlement.text)["error_message"].startswith(said)

    def test_a_job_that_checks_nothing_gets_what_rails_sent(self, calls):
        @job(name="NightlyJob", check_arguments=False)
        def nightly(day: dt.date):
            calls.append(day)

        assert run(payload_of("x")) is None and calls == ["x"]


def test_an_active_job_is_enqueued_by_its_class_with_keywords():
    class NightlyJob(rails_types.RemoteActiveJob):
        class_name = "Billing::NightlyJob"
        queue = "rails"

        def perform(self, day: dt.date, note: str = "", *, copy: bool) -> None: ...

    day = dt.date(2026, 1, 1)
    with fake() as jobs:
        NightlyJob.perform_async(day, copy=True)
        NightlyJob.set(queue="low").perform_in(60, day, Symbol("x"), copy=False)
        NightlyJob.perform_bulk([NightlyJob.with_args(day, copy=True)])
        Client("redis://").push({"active_job": NightlyJob.class_name, "args": [day], "kwargs": {"copy": True}, "queue": "rails"})  # fmt: skip
        [first, *alike, later] = jobs.jobs
        wanted = [serialize([day, {"copy": True, "_aj_ruby2_keywords": ["copy"]}])] * 3
        assert [each.args[0]["arguments"] for each in (first, *alike)] == wanted
        assert {each.queue for each in (first, *alike)} == {"rails"} and later.queue == "low"
        for args, kwargs, said in (
            (["x"], {"copy": True}, "day of Billing::NightlyJob: expected date"),
            ([day], {"copy": 1}, "copy of Billing::NightlyJob: expected bool"),
            ([day], {}, "missing a required argument: 'copy'"),
        ):
            with pytest.raises(PayloadError, match=said):
                NightlyJob.perform_async(*args, **kwargs)
    assert default_registry.find("Billing::NightlyJob") is None
    with pytest.raises(ConfigError, match="flow control"):
        type("Odd", (rails_types.RemoteActiveJob,), {"cron": "0 3 * * *", "perform": print})
