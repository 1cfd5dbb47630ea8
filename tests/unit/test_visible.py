"""Texts of anybody for a terminal: no escape sequence, no turned direction, no markup, one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from kiqbridge.api import JobRecord
from kiqbridge.top.visible import (
    absolute,
    duration,
    relative,
    shown_args,
    shown_error,
    size,
    visible,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07\x1b[31m", "\\x1b]0;title\\x07\\x1b[31m"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("exe\u202egnp\u2066", "exe\\u202egnp\\u2066"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("a\u00a0b\u2028c", "a b\\u2028c"),
        ("byte \udcff", "byte \\xff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("größer 日本 [bold]", "größer 日本 [bold]"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert visible(text) == shown


@given(st.text(alphabet=st.characters()))
def test_whatever_comes_can_be_printed_on_one_line(text):
    assert visible(text).isprintable()
    assert len(visible(text).encode("utf-8")) >= len(text)


@given(st.text(max_size=50), st.integers(1, 60))
def test_a_long_text_is_cut_before_it_is_written_out(text, most):
    shown = visible(text, most)

    assert shown == visible(text) if len(text) <= most else shown.endswith("…")


def test_arguments_hide_secrets_and_stay_on_one_line():
    job = JobRecord(b'{"class":"A","args":[1,{"token":"s3cret"},"a\\u001b[2J\\nb"]}')

    assert shown_args(job) == '1, {"token":"[REDACTED]"}, "a\\u001b[2J\\nb"'
    assert Text(shown_args(job)).plain == shown_args(job)


def test_what_is_no_job_shows_its_bytes():
    assert shown_args(JobRecord(b"\x1b[31m\xff{")) == "\\x1b[31m\\xff{"


def test_an_error_shows_class_and_message():
    job = JobRecord(b'{"error_class":"OSError","error_message":"[red]no\\u0007 password=abc"}')

    assert shown_error(job) == "OSError: [red]no\\x07 password=[REDACTED]"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-3, "0.0 s"),
        (4.24, "4.2 s"),
        (9.97, "9 s"),
        (59.9, "59 s"),
        (180, "3 min"),
        (18120, "5 h 2 min"),
        (7200, "2 h"),
        (1_051_200, "12 d 4 h"),
        (float("inf"), "-"),
        (float("nan"), "-"),
    ],
)
def test_durations_have_at_most_two_units(seconds, shown):
    assert duration(seconds) == shown


def test_moments_are_relative_and_absolute():
    assert relative(1000.0, 940.0) == "in 1 min"
    assert relative(940.0, 1000.0) == "1 min ago"
    assert relative(None, 1.0) == relative(float("nan"), 1.0) == "-"
    assert absolute(1_700_000_000).startswith("2023-11-14 22:13:20 UTC")
    assert absolute(1e300) == "1e+300"
    assert absolute(None) == "-"


def test_memory_is_in_megabytes():
    assert size(34_816) == "34 MB"
    assert size(0) == "-"
