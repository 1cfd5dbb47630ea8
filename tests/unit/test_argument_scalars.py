"""Single values as arguments: their form in JSON, what Ruby writes for them, and what is refused."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.client.argument_scalars import Mismatch, scalar_of
from kiqbridge.wire import json_text

ID = UUID("5d0a54ab-1f7a-4bd7-85a3-a0f15d0a54ab")
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
def test_a_value_has_a_form_in_json_and_comes_back(kind, value, written):
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
