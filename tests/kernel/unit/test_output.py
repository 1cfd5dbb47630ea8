"""What a job returned, as JSON text."""

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiqbridge.engine.settle.output import MAX_OUTPUT_BYTES, JobOutput, encode_output


class Unprintable:
    def __repr__(self):
        raise SystemExit


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


def nested(depth):
    value = ["x"]
    for _ in range(depth):
        value = [value]
    return value


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | TEXTS,
        lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
        max_leaves=20,
    )
)
def test_a_value_that_is_json_comes_out_as_it_is(value):
    output = encode_output(value)
    assert not output.omitted
    assert json.loads(output.text) == value
    assert encode_output(output) is output  # as a child has encoded it
    assert encode_output((1, 2**70)).text == f"[1,{2**70}]"
    assert not encode_output(nested(97)).omitted


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("-inf"),
        b"bytes",
        {1, 2},
        dt.datetime.now(dt.UTC),
        Unprintable(),
        {("a",): 1},
        {1: 2},
        {"a": [({"b": 1, None: 2},)]},
        {"1": 2, 1: 3},
        nested(100_000),
        nested(98),
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_is_no_json_is_left_out_with_its_type(value):
    output = encode_output(value)

    assert output.text == ""
    assert output.omitted.startswith("is no JSON (")
    assert output.omitted.endswith(f": type {type(value).__name__})")


def test_a_value_that_holds_itself_or_is_endless_is_left_out():
    class Endless(list):
        def __iter__(self):
            while True:
                yield "x" * 1000

    value = []
    value.append(value)
    assert encode_output(value).omitted.startswith("is no JSON (")
    assert "longer" in encode_output(Endless([1])).omitted


def test_a_value_may_have_256_kib_of_utf8_and_no_byte_more():
    fits, longer = "é" * (MAX_OUTPUT_BYTES // 2 - 1), "é" * (MAX_OUTPUT_BYTES // 2)

    assert len(encode_output(fits).text.encode()) == MAX_OUTPUT_BYTES
    assert encode_output(longer) == JobOutput("", "is longer than 262144 bytes")
