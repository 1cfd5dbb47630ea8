"""Values that must survive the way between the languages, said in both of them."""

import json
from typing import Any, NamedTuple


class Value(NamedTuple):
    """One value: as Python has it, as Ruby source, and a Ruby expression that judges `v`."""

    name: str
    python: Any
    ruby: str
    judge: str


def _eql(name: str, python: Any, ruby: str) -> Value:
    """Ruby's `eql?` distinguishes 1 from 1.0, also within arrays and hashes; -0.0 equals 0.0 for it."""
    return Value(name, python, ruby, f"v.eql?({ruby})")


def _text(name: str, text: str, ruby: str) -> Value:
    codepoints = [ord(character) for character in text]
    judge = f"v.is_a?(String) && v.encoding == Encoding::UTF_8 && v.codepoints == {codepoints}"
    return Value(name, text, ruby, judge)


VALUES = (
    _eql("null", None, "nil"),
    _eql("true", True, "true"),
    _eql("false", False, "false"),
    _eql("zero", 0, "0"),
    _eql("the first integer that a double cannot hold", 2**53 + 1, "2**53 + 1"),
    _eql("the greatest integer of 64 bits", 2**63 - 1, "2**63 - 1"),
    _eql("2 to the 64", 2**64, "2**64"),
    _eql("2 to the 70", 2**70, "2**70"),
    _eql("an integer of 300 digits", 10**299 + 7, "10**299 + 7"),
    _eql("a negative big integer", -(2**70) - 1, "-(2**70) - 1"),
    _eql("the least integer of 64 bits less one", -(2**63) - 1, "-(2**63) - 1"),
    _eql("a whole float", 1.0, "1.0"),
    Value("minus zero", -0.0, "-0.0", "v.is_a?(Float) && v.zero? && 1 / v == -Float::INFINITY"),
    Value("plus zero", 0.0, "0.0", "v.is_a?(Float) && v.zero? && 1 / v == Float::INFINITY"),
    _eql("a tenth", 0.1, "0.1"),
    _eql("the sum of a tenth and a fifth", 0.1 + 0.2, "0.1 + 0.2"),
    _eql("the least float", 5e-324, "5e-324"),
    _eql("the greatest float", 1.7976931348623157e308, "Float::MAX"),
    _eql("the most negative float", -1.7976931348623157e308, "-Float::MAX"),
    _eql("a small float", 1e-5, "0.00001"),
    _eql("a whole float beyond 1e16", 1e22, "10.0**22"),
    _eql("a float of 17 digits", 123456789012345680.0, "123456789012345680.0"),
    _text("an empty text", "", '""'),
    _text("quotes and backslashes", "\"'\\/`${x}#{y}", "%q(\"'\\\\/`${x}#{y})"),
    _text(
        "control characters",
        "".join(map(chr, range(32))) + "\x7f",
        '((0..31).to_a + [127]).pack("U*")',
    ),
    _text("markup", "</script>&amp;<!--", '"</script>&amp;<!--"'),
    _text("line and paragraph separators", "a\u2028b\u2029c", r'"a\u2028b\u2029c"'),
    _text("an emoji", "\U0001f600", r'"\u{1F600}"'),
    _text(
        "a family of emojis with joiners",
        "\U0001f469\u200d\U0001f467\u200d\U0001f466",
        r'"\u{1F469 200D 1F467 200D 1F466}"',
    ),
    _text("a composed and a combined letter", "\u00e9e\u0301", r'"\u00e9e\u0301"'),
    _text("a byte order mark and a non-character", "\ufeff\uffff", r'"\ufeff\uffff"'),
    _text("a number in quotes", "1.0", '"1.0"'),
    _text("null in quotes", "null", '"null"'),
    _text("a time in quotes", "2026-01-31T00:00:00Z", '"2026-01-31T00:00:00Z"'),
    _eql("an empty list", [], "[]"),
    _eql("an empty hash", {}, "{}"),
    _eql("nested empty ones", [[], {}, [[]], {"": {}}], '[[], {}, [[]], {"" => {}}]'),
    Value(
        "a nested one",
        {"b": [1, 1.0, None, {"deep": [True, {"big": 2**70, "\u2028": "\U0001f600"}]}], "a": -0.0},
        r'{"b" => [1, 1.0, nil, {"deep" => [true, {"big" => 2**70, "\u2028" => "\u{1F600}"}]}],'
        r' "a" => -0.0}',
        r'v.keys == ["b", "a"] && v["b"].eql?([1, 1.0, nil, {"deep" => [true, {"big" => 2**70, '
        r'"\u2028" => "\u{1F600}"}]}]) && 1 / v["a"] == -Float::INFINITY',
    ),
    _eql("ninety levels", json.loads("[" * 90 + "]" * 90), "[" * 90 + "]" * 90),
)
BY_NAME = {value.name: value for value in VALUES}
