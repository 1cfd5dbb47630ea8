"""Active Job's wrapper and its serialized arguments."""

import datetime as dt
import enum
import re
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import ARGUMENTS

from kiqbridge.errors import PayloadError
from kiqbridge.features.active_job.form import parse, serialize
from kiqbridge.features.active_job.values import Symbol
from kiqbridge.wire.active_job import NEW_WRAPPER, OLD_WRAPPER

NOW = 1_700_000_000.75


def serialized(name, **attributes):
    return {"_aj_serialized": f"ActiveJob::Serializers::{name}Serializer", **attributes}


def zoned(value, zone):
    return serialized("TimeWithZone", value=value, time_zone=zone)


def duration(seconds):
    parts = [[serialized("Symbol", value="seconds"), seconds]]
    return serialized("Duration", value=seconds, parts=parts)


class Colour(enum.StrEnum):
    RED = "red"


class TestArguments:
    @pytest.mark.parametrize(
        ("value", "written"),
        [
            (Symbol("sym"), serialized("Symbol", value="sym")),
            (dt.date(2026, 11, 20), serialized("Date", value="2026-11-20")),
            (
                dt.datetime(2026, 11, 20, 2, 3, 4, 567_891, dt.UTC),
                zoned("2026-11-20T02:03:04.567891000Z", "Etc/UTC"),
            ),
            (
                dt.datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
                zoned("2026-07-01T12:00:00.000000000+02:00", "Europe/Berlin"),
            ),
            (
                dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/London")),
                zoned("2026-01-01T00:00:00.000000000+00:00", "Europe/London"),
            ),
            (
                dt.datetime(2026, 1, 1, tzinfo=dt.timezone(-dt.timedelta(hours=3, minutes=30))),
                serialized("Time", value="2026-01-01T00:00:00.000000000-03:30"),
            ),
            (dt.timedelta(minutes=5), duration(300)),
            (dt.timedelta(seconds=1.5), duration(1.5)),
            (Decimal("1.25"), serialized("BigDecimal", value="0.125e1")),
            (Decimal(-1200), serialized("BigDecimal", value="-0.12e4")),
            (Decimal("0.0010"), serialized("BigDecimal", value="0.1e-2")),
            (Decimal("0.00"), serialized("BigDecimal", value="0.0")),
            (range(1, 5), serialized("Range", begin=1, end=5, exclude_end=True)),
        ],
    )
    def test_what_rails_has_a_serializer_for_is_written_as_rails_does(self, value, written):
        assert serialize([value]) == [written]
        assert serialize([[value]]) == [[written]]
        assert serialize([{"k": value}]) == [{"k": written, "_aj_symbol_keys": []}]
        noted = {"_aj_symbol_keys": ["k"]}  # by the hash itself
        assert serialize([{"k": value, **noted}]) == [{"k": written, **noted}]

    def test_a_hash_notes_which_of_its_keys_are_symbols(self):
        value = {"k": Symbol("sym"), Symbol("sym"): [1.5, None]}

        assert serialize([value]) == [
            {"k": serialized("Symbol", value="sym"), "sym": [1.5, None], "_aj_symbol_keys": ["sym"]}
        ]

    @pytest.mark.parametrize(
        "value",
        [
            {"_aj_globalid": "gid://app/User/1"},
            serialized("Module", value="Billing"),
            {"a": 1, "_aj_symbol_keys": ["a"]},
            {"a": [1], "_aj_ruby2_keywords": ["a"]},
            {"a": 1, "_aj_hash_with_indifferent_access": True},
        ],
    )
    def test_what_is_serialized_already_stays(self, value):
        assert serialize([value]) == [value]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (dt.datetime(2026, 1, 1), r"args\[0\]: .* has no time zone"),  # noqa: DTZ001
            (object(), r"args\[0\]: .* of type object has no form that Active Job reads"),
            ((1, 2), "of type tuple"),
            (Colour.RED, "of type Colour"),
            (range(0, 10, 2), "of type range"),
            (Decimal("NaN"), "is no finite number"),
            (float("nan"), "has no JSON text"),
            ("\ud800", "lone surrogate"),
            (Symbol("\ud800"), "lone surrogate"),
            ({1: 2}, "key 1 is not a text"),
            ({Colour.RED: 2}, "key .* is not a text"),
            ({"_aj_globalid": object()}, r"args\[0\]\._aj_globalid"),
            ({"x": [1, {"y": {2}}]}, r"args\[0\]\.x\[1\]\.y: \{2\} of type set"),
        ],
    )
    def test_what_active_job_cannot_read_is_refused_by_its_path(self, value, message):
        with pytest.raises(PayloadError, match=message):
            serialize([value])

    def test_a_value_nested_too_deeply_is_refused_and_not_run_into(self):
        value = []
        for _ in range(5000):
            value = [value]

        with pytest.raises(PayloadError, match="nested deeper"):
            serialize([value])

    @given(ARGUMENTS)
    def test_json_values_come_back_when_the_notes_are_taken_out(self, arguments):
        def plain(value):
            if isinstance(value, list):
                return [plain(each) for each in value]
            if isinstance(value, dict):
                assert value["_aj_symbol_keys"] == []
                return {k: plain(v) for k, v in value.items() if k != "_aj_symbol_keys"}
            return value

        assert plain(serialize(arguments)) == arguments

    @given(st.decimals(allow_nan=False, allow_infinity=False))
    def test_a_decimal_keeps_its_value(self, value):
        [written] = serialize([value])

        assert Decimal(written["value"]) == value


class TestItem:
    def test_keyword_arguments_are_the_last_argument_as_rails_marks_them(self):
        keywords = {"copy": True, "day": None}
        job = parse({"active_job": "A", "args": [1], "kwargs": keywords})
        assert job.arguments == [1, {**keywords, "_aj_ruby2_keywords": ["copy", "day"]}]
        without, other = (parse({"active_job": "A", "args": [], "kwargs": {}}) for _ in range(2))
        assert without.arguments == []
        assert without.job_id != other.job_id
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", without.job_id)

    def test_attributes_of_rails_are_inside_and_those_of_sidekiq_outside(self):
        inside = {"priority": 5, "locale": "de", "timezone": "Europe/Berlin", "job_id": "given"}
        outside = {"queue": "low", "jid": "mine", "tags": ["x"]}
        wrapped = parse({"active_job": "A", "args": [], **inside, **outside}).wrap(NOW, "7")
        [inner] = wrapped.pop("args")
        assert inner.items() >= {"queue_name": "low", **inside}.items()
        assert wrapped == {"class": OLD_WRAPPER, "wrapped": "A", **outside}

    def test_the_profile_chooses_wrapper_and_times(self):
        job = parse({"active_job": "A", "args": [], "at": 1_900_000_000.5})
        old, new = (job.wrap(NOW, profile) for profile in ("7", "8"))
        assert (old["class"], new["class"]) == (OLD_WRAPPER, NEW_WRAPPER)
        times = [
            {k: v for k, v in each["args"][0].items() if k.endswith("ed_at")} for each in (old, new)
        ]
        assert times == [
            {"enqueued_at": "2023-11-14T22:13:20Z"},
            {
                "enqueued_at": "2023-11-14T22:13:20.750000000Z",
                "scheduled_at": "2030-03-17T17:46:40.500000000Z",
            },
        ]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"active_job": ""}, "active_job: ''"),
            ({"active_job": 5}, "active_job: 5"),
            ({"args": "x"}, "args: 'x' is not a list"),
            ({"args": None}, "args: None is not a list"),
            ({"class": "B"}, "class: 'B' cannot be given together with active_job"),
            ({"wrapped": "B"}, "wrapped: 'B' cannot be given together"),
            ({"queue": ""}, "queue: ''"),
            ({"priority": "high"}, "priority: 'high' is not a whole number"),
            ({"priority": True}, "priority: True"),
            ({"locale": 5}, "locale: 5 is not a text"),
            ({"job_id": 5}, "job_id: 5 is not a text"),
            ({"kwargs": [1]}, r"kwargs: \[1\] is not an object"),
            ({"kwargs": {"_aj_symbol_keys": []}}, "a key that Active Job keeps for itself"),
            ({"kwargs": {"x": {1}}}, r"kwargs\.x: \{1\}"),
        ],
    )
    def test_what_cannot_be_one_is_refused_with_field_and_value(self, change, message):
        with pytest.raises(PayloadError, match=message):
            parse({"active_job": "A", "args": [], **change})

    @pytest.mark.parametrize("at", [10**400, float("inf"), float("nan"), "soon", 1e15])
    def test_a_time_that_is_none_is_refused_in_profile_8_too(self, at):
        job = parse({"active_job": "A", "args": [], "at": at})

        with pytest.raises(PayloadError, match="at: "):
            job.wrap(NOW, "8")
