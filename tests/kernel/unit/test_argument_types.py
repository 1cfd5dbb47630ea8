"""What annotations mean for arguments: each kind of them, both ways, and single values."""

import enum
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.client.argument_scalars import Mismatch, scalar_of
from kiqbridge.client.argument_types import Compiler
from kiqbridge.wire import json_text

ID = UUID("5d0a54ab-1f7a-4bd7-85a3-a0f15d0a54ab")
TEXT = str(ID)
UserId = NewType("UserId", int)
T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass(frozen=True)
class Line:
    product: UUID
    price: Decimal = Decimal(1)
    made: bool = field(default=False, init=False)


@dataclass
class Order:
    lines: list[Line]
    before: "Order | None" = None


@dataclass
class Positive:
    number: int

    def __post_init__(self):
        if self.number <= 0:
            raise ValueError("number is not above 0")


class Address(TypedDict):
    street: str
    since: NotRequired[date]


class Point(NamedTuple):
    x: Decimal
    y: Decimal = Decimal(0)


class Customer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    id: UUID
    born: date | None = None
    name: str = pydantic.Field("Ada", alias="fullName")


class Parcel(msgspec.Struct):
    id: UUID
    day: date


def converter_of(annotation):
    return Compiler(globals(), "job Test").compiled(annotation)


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (list[UUID], [ID], [TEXT]),
        (Sequence[UUID], [ID], [TEXT]),
        (Iterable[int], [1, 2], [1, 2]),
        (list, [1, "a"], [1, "a"]),
        (set[UUID], {ID}, [TEXT]),
        (frozenset[int], frozenset({3, 1, 2}), [1, 2, 3]),
        (tuple[UUID, int], (ID, 1), [TEXT, 1]),
        (tuple[date, ...], (date(2026, 1, 1),), ["2026-01-01"]),
        (tuple, (1, "a"), [1, "a"]),
        (dict[str, UUID], {"a": ID}, {"a": TEXT}),
        (dict[UUID, int], {ID: 1}, {TEXT: 1}),
        (dict[int, list[date]], {7: [date(2026, 1, 1)]}, {"7": ["2026-01-01"]}),
        (Mapping[str, Any], {"a": [1]}, {"a": [1]}),
        (dict, {"a": 1}, {"a": 1}),
        (UUID | None, ID, TEXT),
        (Optional[UUID], None, None),  # noqa: UP045 - both forms count
        (Union[int, UUID, None], ID, TEXT),  # noqa: UP007 - as above
        (int | str, "a", "a"),
        (date | int, 5, 5),
        (Literal["a", 1], 1, 1),
        (Literal[Colour.RED], Colour.RED, "red"),
        (Colour, Colour.BLUE, "blue"),
        (Level, Level.HIGH, 2),
        (UserId, 5, 5),
        (Annotated[UUID, "of a customer"], ID, TEXT),
        ("list[UUID]", [ID], [TEXT]),
        ("Order", Order([Line(ID)]), {"lines": [{"product": TEXT, "price": "1"}], "before": None}),
        (
            Order,
            Order([], before=Order([])),
            {"lines": [], "before": {"lines": [], "before": None}},
        ),
        (
            Address,
            {"street": "x", "since": date(2026, 1, 1)},
            {"street": "x", "since": "2026-01-01"},
        ),
        (Address, {"street": "x"}, {"street": "x"}),
        (Point, Point(Decimal("1.5")), ["1.5", "0"]),
        (
            Customer,
            Customer(id=ID, fullName="Grace"),
            {"id": TEXT, "born": None, "fullName": "Grace"},
        ),
        (Parcel, Parcel(ID, date(2026, 1, 1)), {"id": TEXT, "day": "2026-01-01"}),
        (list[Customer | None], [None], [None]),
    ],
)
def test_a_value_has_a_form_in_json_and_comes_back(annotation, value, written):
    converter = converter_of(annotation)

    sent = converter.to_wire(value)

    assert sent == written
    received = converter.from_wire(json.loads(json.dumps(sent)))
    assert received == value
    assert type(received) is type(value)
    # What is in this form already is written as it is.
    assert converter.to_wire(written) == written


@pytest.mark.parametrize(
    ("annotation", "value", "where"),
    [
        (list[UUID], [TEXT, "x"], "[1]"),
        (list[UUID], TEXT, ""),
        (set[int], [1, "a"], "[1]"),
        (set[list[int]], [[1]], ""),
        (tuple[int, int], [1], ""),
        (tuple[int, int], [1, "a"], "[1]"),
        (tuple[int, ...], [1, "a"], "[1]"),
        (dict[str, int], {"a": "b"}, ".a"),
        (dict[int, int], {"a": 1}, ".a"),
        (dict[str, int], [1], ""),
        (UUID | None, "x", ""),
        (list[int] | None, [1, "a"], "[1]"),
        (Literal["a", 1], True, ""),
        (Colour, "green", ""),
        (Level, 3, ""),
        (Line, {"product": TEXT, "price": "x"}, ".price"),
        (Line, {"price": "1"}, ""),
        (Line, {"product": TEXT, "colour": "red"}, ""),
        (Line, TEXT, ""),
        (Order, {"lines": [{"product": "x"}]}, ".lines[0].product"),
        (Positive, {"number": -1}, ""),
        (Address, {}, ""),
        (Address, {"street": 5}, ".street"),
        (Point, [], ""),
        (Point, ["a"], "[0]"),
        (Customer, {"id": "x"}, ""),
        (Customer, [], ""),
        (Parcel, {"id": TEXT}, ""),
        (UserId, "5", ""),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(annotation, value, where):
    with pytest.raises(Mismatch) as refused:
        converter_of(annotation).from_wire(value)

    assert refused.value.path == where


@pytest.mark.parametrize("annotation", [Any, object, T, type, Compiler, "Nowhere", "list[Nowhere]"])
def test_what_says_nothing_lets_values_pass(annotation):
    assert converter_of(annotation) is None


def test_a_name_that_cannot_be_found_is_logged(caplog):
    with caplog.at_level(logging.DEBUG, "kiqbridge"):
        converter_of("Nowhere")

    assert "job Test: annotation 'Nowhere' cannot be resolved here (NameError" in caplog.text


def test_unknown_parts_pass_and_of_a_union_the_first_that_fits_counts():
    converter = converter_of(dict[str, Compiler | None])
    assert converter.from_wire({"a": 5}) == {"a": 5}
    assert converter_of(list[Any]).from_wire([1, None]) == [1, None]
    assert converter_of(UUID | str).from_wire(TEXT) == ID
    assert converter_of(UUID | str).from_wire("Ada") == "Ada"
    assert converter_of(str | UUID).from_wire(TEXT) == TEXT


def test_plain_values_need_no_conversion():
    plain = [int, str, bool, float, list, dict]
    assert [converter_of(kind).exact for kind in plain] == plain
    assert converter_of(list[int]).exact is converter_of(UUID).exact is None


SUMMER = timezone(timedelta(hours=2))


def through_json(kind, value):
    converter = scalar_of(kind)
    return converter.from_wire(json_text.loads(json_text.dumps(converter.to_wire(value))))


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (int, 2**70, 2**70),
        (int, True, True),
        (float, 1.5, 1.5),
        (float, 3, 3),
        (str, "Ada", "Ada"),
        (bool, False, False),
        (type(None), None, None),
        (bytes, b"\x00\xff", "AP8="),
        (UUID, ID, "5d0a54ab-1f7a-4bd7-85a3-a0f15d0a54ab"),
        (Decimal, Decimal("1.50"), "1.50"),
        (Decimal, Decimal("1E+30"), "1E+30"),
        (datetime, datetime(2026, 1, 1, 8, 30, tzinfo=UTC), "2026-01-01T08:30:00+00:00"),
        (datetime, datetime(2026, 7, 1, 8, 30, tzinfo=SUMMER), "2026-07-01T08:30:00+02:00"),
        (date, date(2026, 1, 1), "2026-01-01"),
        (time, time(8, 30), "08:30:00"),
        (timedelta, timedelta(minutes=5), 300),
        (timedelta, timedelta(milliseconds=1500), 1.5),
    ],
)
def test_a_single_value_has_a_form_in_json_and_comes_back(kind, value, written):
    assert scalar_of(kind).to_wire(value) == written
    assert type(scalar_of(kind).to_wire(value)) is type(written)
    assert through_json(kind, value) == value
    # What is in this form already is written as it is.
    assert scalar_of(kind).to_wire(written) == written


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (datetime, "2026-01-01T08:30:00.123Z", datetime(2026, 1, 1, 8, 30, 0, 123000, tzinfo=UTC)),
        (datetime, "2026-01-01 08:30:00 UTC", datetime(2026, 1, 1, 8, 30, tzinfo=UTC)),
        (datetime, "2026-07-01 08:30:00 +0200", datetime(2026, 7, 1, 8, 30, tzinfo=SUMMER)),
        (Decimal, "0.125e2", Decimal("12.5")),
        (Decimal, 3, Decimal(3)),
        (Decimal, 0.1, Decimal("0.1")),
        (UUID, ID.hex.upper(), ID),
        (timedelta, 90, timedelta(seconds=90)),
        (float, 3, 3),
    ],
)
def test_what_ruby_writes_is_understood(kind, text, value):
    assert scalar_of(kind).from_wire(text) == value


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (int, ["5", 5.0, None]),
        (float, ["1.5", True]),
        (str, [5]),
        (bool, [1]),
        (type(None), [0]),
        (bytes, ["no base64", 5]),
        (UUID, ["5d0a54ab", 5]),
        (Decimal, ["twelve", True]),
        (datetime, ["2026-01-01T08:30:00", "tomorrow", 1_700_000_000]),
        (date, ["2026-02-30", "2026-01-01T08:30:00+00:00"]),
        (time, ["25:00"]),
        (timedelta, ["5m", True, 1e300]),
    ],
)
def test_what_does_not_fit_is_refused_on_both_sides(kind, values):
    for value in values:
        for way in (scalar_of(kind).to_wire, scalar_of(kind).from_wire):
            with pytest.raises(Mismatch):
                way(value)


def test_a_value_that_would_lose_something_or_has_no_form_is_refused():
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for kind, value in ((datetime, moment.replace(tzinfo=None)), (date, moment)):
        with pytest.raises(Mismatch):
            scalar_of(kind).to_wire(value)
    assert scalar_of(complex) is None


@given(
    st.one_of(
        st.tuples(st.just(UUID), st.uuids()),
        st.tuples(st.just(Decimal), st.decimals(allow_nan=False)),
        st.tuples(
            st.just(datetime),
            # In UTC: times that a zone skips or repeats equal none of another zone, not even the same ones.
            st.datetimes(timezones=st.just(UTC)),
        ),
        st.tuples(st.just(date), st.dates()),
        st.tuples(st.just(time), st.times()),
        st.tuples(
            st.just(timedelta), st.timedeltas(timedelta(days=-36_500), timedelta(days=36_500))
        ),
        st.tuples(st.just(bytes), st.binary(max_size=50)),
        st.tuples(st.just(int), st.integers()),
        st.tuples(st.just(float), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(st.just(str), st.text(st.characters(codec="utf-8"))),
    )
)
def test_any_value_survives_the_way_through_redis(pair):
    kind, value = pair

    assert through_json(kind, value) == value
