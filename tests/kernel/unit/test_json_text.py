"""JSON text as Sidekiq reads and writes it: no value changes on its way."""

import json
import math

import pytest
from hypothesis import given
from support.strategies import JSON_VALUES, PAYLOADS

from kiqbridge.wire.json_text import MalformedJSON, dumps, dumps_moved, loads


def same(left, right):
    """Equal in value, type, sign of zero and order of keys, however deep."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return left == right


def nested(levels):
    return b"[" * levels + b"]" * levels


class TestReading:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            (b"18446744073709551616", 2**64),
            (b"-1180591620717411303424", -(2**70)),
            (b"9007199254740993", 2**53 + 1),
            (b"[18446744073709551615,18446744073709551616]", [2**64 - 1, 2**64]),
            (b'{"id":18446744073709551616}', {"id": 2**64}),
            (b"1.0", 1.0),
            (b"-0.0", -0.0),
            (b"1.0e+16", 1e16),
            (b"5.0e-324", 5e-324),
            (b"1.7976931348623157e+308", 1.7976931348623157e308),
            (b"0.30000000000000004", 0.1 + 0.2),
            (b"1e400", math.inf),
            (b"1E+400", math.inf),
            (b"1" + b"0" * 400 + b".0", math.inf),
            (b'"\\u00e9"', "é"),
            (b'"\\ud83d\\ude00"', "😀"),
            (b'["\\ud83d\\ude00",18446744073709551616]', ["😀", 2**64]),
            ('"\u2028\u2029\u0085\ufeff"'.encode(), "\u2028\u2029\u0085\ufeff"),
            (b' {"a" : 1}\n', {"a": 1}),
            (b'{"a":1,"a":2}', {"a": 2}),
        ],
    )
    def test_numbers_stay_exact_and_texts_are_read_as_ruby_reads_them(self, text, value):
        assert same(loads(text), value)

    @pytest.mark.parametrize(
        "text",
        [
            *(b"", b"{not json", b"NaN", b"[Infinity]", b'{"a":-Infinity}', b"[1,]", b"[1] 2"),
            *(b'"\\ud800"', b'["\\udc00",18446744073709551616]', b'"\xff"', b'"\xed\xa0\x80"'),
            *(b"\xef\xbb\xbf{}", b"[01]", b"'a'"),
        ],
    )
    def test_what_ruby_would_not_read_is_malformed(self, text):
        with pytest.raises(MalformedJSON):
            loads(text)

    @pytest.mark.parametrize(
        "text", [nested(101), nested(900), nested(100_000), b'{"a":' * 101 + b"1" + b"}" * 101]
    )
    def test_more_than_a_hundred_levels_are_malformed(self, text):
        with pytest.raises(MalformedJSON, match="nested"):
            loads(text)
        assert loads(nested(100)) is not None
        rows = [{"id": number, "tags": []} for number in range(500)]
        assert loads(json.dumps(rows).encode()) == rows  # small containers are no depth


class TestWriting:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ({"a": [1, "b", None, True]}, '{"a":[1,"b",null,true]}'),
            (2**64, "18446744073709551616"),
            (-(2**70), "-1180591620717411303424"),
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            ("\u2028\u2029", '"\u2028\u2029"'),
            ("café 😀", '"café 😀"'),
            ("</script>&'", '"</script>&\'"'),
            ('"\\\b\f\n\r\t', '"\\"\\\\\\b\\f\\n\\r\\t"'),
            ("\0\x1f\x7f", '"\\u0000\\u001f\x7f"'),
            ({"z": 1, "a": 2}, '{"z":1,"a":2}'),
        ],
    )
    def test_a_value_has_the_text_that_ruby_writes(self, value, text):
        assert dumps(value) == text.encode()
        assert dumps([value, 2**64]) == f"[{text},18446744073709551616]".encode()

    @pytest.mark.parametrize(
        "value",
        [
            *("\ud800", ["a\udfff"], {"\ud800": 1}, ["\ud800", 2**64]),  # lone surrogates
            *(object(), {1, 2}, b"bytes", [1j]),
        ],
    )
    def test_what_json_has_no_text_for_is_refused(self, value):
        with pytest.raises((TypeError, ValueError)):
            dumps(value)

    @given(JSON_VALUES)
    def test_what_is_written_reads_back_unchanged_also_elsewhere(self, value):
        for read in (loads, json.loads):
            assert same(read(dumps(value)), value)


class TestMoving:
    def test_numbers_out_of_range_unknown_attributes_and_the_order_stay(self):
        original = b'{"args":[1e400,-1e999,{"deep":1E+400}],"class":"A"}'
        moved = dumps_moved(loads(original) | {"enqueued_at": 1.5}, original)
        assert moved == b'{"args":[1e400,-1e400,{"deep":1e400}],"class":"A","enqueued_at":1.5}'
        original = b'{"zeta":{"n":null},"class":"A","args":[18446744073709551616],"alpha":-0.0}'
        assert dumps_moved(loads(original), original) == original

    @given(PAYLOADS)
    def test_every_value_survives_a_move(self, payload):
        original = json.dumps(payload, ensure_ascii=False).encode()

        moved = dumps_moved(loads(original) | {"enqueued_at": 1700000000.5}, original)

        assert same(loads(moved), payload | {"enqueued_at": 1700000000.5})
