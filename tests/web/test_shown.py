"""How values and hostile texts are shown."""

import math
from types import SimpleNamespace

import pytest
from markupsafe import Markup

from kiqbridge.api import Histogram, JobRecord
from kiqbridge.runtime.redaction import Redactor
from kiqbridge.web import shown
from kiqbridge.web.context import build_templates

NOW = 1_700_000_000.0


def rendered(source, redactor=None, **values):
    from datetime import UTC

    view = SimpleNamespace(now=NOW, zone=UTC, redactor=redactor, hides_args=False)
    return build_templates().from_string(source).render(view=view, **values)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, shown.NONE),
        (math.nan, shown.NONE),
        (0, "0 s"),
        (0.012, "12 ms"),
        (3.44, "3.4 s"),
        (59, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (86_405, "1 d"),
        (90_000, "1 d 1 h"),
        (-30, "30 s"),
        (math.inf, "11,574,074 d 1 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert shown.duration(seconds) == text


@pytest.mark.parametrize(
    ("ahead_s", "text"), [(-0.4, "now"), (-2.04, "2 s ago"), (6.0, "in 6 s"), (-125, "2 min ago")]
)
def test_how_long_ago_is_said_in_whole_seconds(ahead_s, text):
    assert shown.ago(ahead_s) == text


def test_what_comes_next_and_should_have_come_is_due():
    assert "in 6 s" in rendered("{{ at | due }}", at=NOW + 6)
    assert ">due</span>" in rendered("{{ at | due }}", at=NOW - 6)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((0, 0, 9), "≤ 45 ms"),  # the longest may have taken 31 ms
        ((0, 0, 9, 9, 9), "58 ms"),
        ((1, *[0] * 24, 1), "≥ 5 min 35 s"),
        ((0,), shown.NONE),
    ],
)
def test_no_percentile_is_beyond_the_longest_execution(counts, text):
    took = Histogram((*counts, *[0] * (26 - len(counts))))

    assert shown.percentile(took, 0.55) == text


@pytest.mark.parametrize(
    ("number", "text"), [(999, "999 B"), (1200, "1.2 kB"), (3.4e6, "3.4 MB"), (5e12, "5000.0 GB")]
)
def test_a_size_has_a_unit(number, text):
    assert shown.size(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            NOW - 300,
            '<time datetime="2023-11-14T22:08:20.000Z" title="2023-11-14 22:08:20 UTC">5 min ago</time>',
        ),
        (
            NOW + 7200,
            '<time datetime="2023-11-15T00:13:20.000Z" title="2023-11-15 00:13:20 UTC">in 2 h</time>',
        ),
        (None, shown.NONE),
        (1e300, "1e+300 (no date)"),
        (math.nan, "nan (no date)"),
    ],
)
def test_a_time_is_relative_with_the_moment_in_its_title(value, text):
    assert rendered("{{ value | time }}", value=value) == text


@pytest.mark.parametrize(
    ("given", "html"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        (
            "a\u202eb",
            'a<span class="sign" title="U+202E RIGHT-TO-LEFT OVERRIDE">\\u202e</span>b',
        ),
        ("\u200b", '<span class="sign" title="U+200B ZERO WIDTH SPACE">\\u200b</span>'),
        ("\0", '<span class="sign" title="U+0000 control character">\\0</span>'),
        ("\x1b", '<span class="sign" title="U+001B control character">\\u001b</span>'),
        ("a\nb", 'a<span class="sign" title="U+000A control character">\\n</span>b'),
        ("\udcff", '<span class="sign" title="U+DCFF control character">\\xff</span>'),
        ("\u3164", '<span class="sign" title="U+3164 HANGUL FILLER">\\u3164</span>'),
        ("<\u2028", '&lt;<span class="sign" title="U+2028 LINE SEPARATOR">\\u2028</span>'),
        ("Grüße 日本語 שלום", "Grüße 日本語 שלום"),
    ],
)
def test_a_text_is_escaped_isolated_and_what_is_invisible_is_seen(given, html):
    found = shown.text(given)

    assert isinstance(found, Markup)
    assert found == f"<bdi>{html}</bdi>"
    found.encode()


def test_a_long_text_is_cut_and_its_length_named():
    assert "… 1,000 characters in all" in shown.text("x" * 1000, 10)
    assert shown.text("x" * 10, 10) == "<bdi>xxxxxxxxxx</bdi>"


def test_line_breaks_stay_where_a_text_has_the_page_for_itself():
    assert shown.text("a\n\tb\r", lines=True).startswith("<bdi>a\n\tb<span")


def test_an_attribute_has_code_points_and_no_markup():
    assert rendered('<i title="{{ value | plain }}">', value='"\u202e<') == (
        '<i title="&#34;\\u202e&lt;">'
    )


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b'{"args": [1, "a<b", {"k": [null]}]}', '1, "a&lt;b", {"k": [null]}'),
        (b'{"args": []}', ""),
        (b"no json <b>", "no json &lt;b&gt;"),
        (b"\xff\xfe", "\\xff\\xfe"),
    ],
)
def test_arguments_stand_in_a_row_as_json(payload, text):
    quoted = text.replace('"', "&#34;")

    assert rendered("{{ job | args }}", job=JobRecord(payload)) == f"<bdi>{quoted}</bdi>"


def test_a_long_argument_is_cut_before_it_is_written():
    job = JobRecord(b'{"args": ["' + b"x" * 900_000 + b'"]}')

    found = rendered("{{ job | args(60) }}", job=job)

    assert len(found) < 300
    assert "characters in all" in found


def test_secrets_in_arguments_are_hidden_where_the_viewer_may_not_see_them():
    job = JobRecord(b'{"args": [{"user": 7, "password": "hunter2"}]}')

    assert "hunter2" in rendered("{{ job | args }}", job=job)
    assert "hunter2" not in rendered("{{ job | args }}", redactor=Redactor(), job=job)


def test_secrets_in_a_text_that_cannot_be_parsed_are_hidden_as_well():
    job = JobRecord(b'{"args": [{"password": "hunter2"')

    assert "hunter2" not in rendered("{{ job | args }}", redactor=Redactor(), job=job)


def test_a_structure_without_end_does_not_end_the_page():
    job = JobRecord(b'{"args": [' + b"[" * 90 + b"]" * 90 + b"]}")

    assert "…" in rendered("{{ job | args }}", job=job)


def test_a_text_that_is_cut_is_escaped_once():
    assert str(shown.text("<b>" * 100, 3)).startswith("<bdi>&lt;b&gt;<span")
    assert "&amp;" not in shown.text("<\u202e" * 100, 4)
