"""Expressions: what is wrong with one is known before an event comes."""

import pytest

from kiqbridge.aws.mapping.expressions import ExpressionFault, check_expression, search
from kiqbridge.errors import EventError


@pytest.mark.parametrize(
    "text",
    [
        "detail.id",
        '"detail-type"',
        "Records[0].body",
        "join('/', [a, b])",
        "merge(a, b, c)",
        "max_by(items, &size).id",
        "items[?size > `5`] | [0]",
        "powertools_json(body).id",
        "'a fixed text'",
    ],
)
def test_an_expression_passes(text):
    check_expression(text)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "$.detail.id",
            "Unknown token $; a path begins with a name: write detail.id, not $.detail.id",
        ),
        ("detail-type", "Unknown token '-'; a name with a hyphen stands in double quotes"),
        ("a fixed text", "a fixed text stands in single quotes within the expression: 'text'"),
        ("", "'' is not a JMESPath expression: Invalid JMESPath expression: cannot be empty"),
        ("a[", "'a[' is not a JMESPath expression: Invalid jmespath expression: Incomplete"),
        ("(" * 10_000, "is not a JMESPath expression: "),
        ("items[?lenth(@) > `1`]", "there is no function lenth; did you mean length?"),
        ("length()", "the function length takes 1 arguments, not 0"),
        ("keys(a, b)", "the function keys takes 1 arguments, not 2"),
        ("a.{b: starts_with(c)}", "the function starts_with takes 2 arguments, not 1"),
    ],
)
def test_a_fault_says_what_to_write(text, fault):
    with pytest.raises(ExpressionFault) as raised:
        check_expression(text)

    assert fault in str(raised.value)


def test_one_that_was_not_checked_refuses_the_event():
    with pytest.raises(EventError, match="'a\\[' is not a JMESPath expression"):
        search("a[", {})
    with pytest.raises(EventError, match="cannot be evaluated over this event: Unknown function"):
        search("lenth(a)", {})


def test_it_is_compiled_once(monkeypatch):
    search("a.b", {})
    monkeypatch.setattr("jmespath.compile", None)

    assert search("a.b", {"a": {"b": 5}}) == 5
