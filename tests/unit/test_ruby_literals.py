"""Ruby's literals, read without Ruby."""

import pytest

from kiqbridge.schedule.imports.record import Unsayable
from kiqbridge.schedule.imports.ruby_literals import parse_arguments, parse_options


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", []),
        ("1", [1]),
        ("1, -2, +3, 1_000", [1, -2, 3, 1000]),
        ("1.5, -0.25, 1e3, 0", [1.5, -0.25, 1000.0, 0]),
        ("true, false, nil", [True, False, None]),
        ("'a', \"b\"", ["a", "b"]),
        (r"'it\'s', 'a\nb', 'c\\d'", ["it's", r"a\nb", r"c\d"]),
        (r'"a\nb", "q\"q", "\#{x}"', ["a\nb", 'q"q', "#{x}"]),
        ("[1, [2, 'x']], []", [[1, [2, "x"]], []]),
        ("{'a' => 1, \"b\" => [nil]}, {}", [{"a": 1, "b": [None]}, {}]),
        ("%w[carts sessions], %w(a b)", [["carts", "sessions"], ["a", "b"]]),
        ("'a, b', '(c)'", ["a, b", "(c)"]),
        ("[1, 2,], 3,", [[1, 2], 3]),
        ("'ü', '日'", ["ü", "日"]),
    ],
)
def test_literals_become_their_json(text, args):
    assert parse_arguments(text) == (args, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (":a", "symbol"),
        (":'a b'", "symbol"),
        ("{a: 1}", "symbols as keys"),
        ('{"a": 1}', "symbols as keys"),
        ("{:a => 1}", "symbol"),
        ("{1 => 2}", "keys are texts"),
        ("Date.today", "expression"),
        ("5.minutes", "expression"),
        ("1.day.ago", "expression"),
        ("true.to_s", "expression"),
        ("x", "expression"),
        ("Foo::BAR", "expression"),
        ('"a#{x}"', "only Ruby knows"),
        (r'"\u00fc"', "not read here"),
        ("'a", "without its end"),
        ("1 2", "no literal"),
        ("1 + 2", "no literal"),
        ("'a' 'b'", "no literal"),
        ("[1", "missing|no literal"),
        ("{'a' => }", "expression"),
        ("{'a' 1}", "no literal"),
        ("017", "octal"),
        ("0x1f", "expression"),
        ("1..2", "expression|no literal"),
        ("a: 1, 2", "follows keyword"),
        ("->{}", "expression"),
        ("[" * 60 + "]" * 60, "too deeply"),
        (",", "expression"),
    ],
)
def test_what_only_ruby_knows_is_refused_with_its_place(text, reason):
    with pytest.raises(Unsayable, match=reason):
        parse_arguments(text)


def test_keyword_arguments_come_apart():
    assert parse_arguments("1, force: true, 'a b': [2]") == ([1], {"force": True, "a b": [2]})


def test_options_may_be_symbols():
    assert parse_options("queue: :low") == {"queue": "low"}
    assert parse_options("queue: 'low', wait: 5") == {"queue": "low", "wait": 5}
    with pytest.raises(Unsayable):
        parse_options("1")
