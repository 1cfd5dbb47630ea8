"""Texts of tracebacks are those of the standard library, the first time and every other time."""

import traceback

import pytest

from kiqbridge.logs import tracebacks


def fail(error, depth=0):
    if depth:
        fail(error, depth - 1)
    raise error


def plain(number):
    fail(ValueError(f"no. {number}\nand a second line"))


def noted(number):
    error = RuntimeError("noted")
    error.add_note(f"note {number}")
    fail(error)


def chained(number):
    try:
        plain(number)
    except ValueError as error:
        raise KeyError(number) from error


def in_context(number):
    try:
        plain(number)
    except ValueError:
        fail(OSError(number))


def silenced(number):
    try:
        plain(number)
    except ValueError:
        raise OSError(number) from None


def misspelt(number):
    return numbr + number  # noqa: F821 - the suggestion is what counts


def missing(number):
    return number.reall


def grouped(number):
    fail(ExceptionGroup("several", [ValueError(number), TypeError("x")]))


def unparsable(number):
    compile(f"{number} +", "some file", "eval")


def deep(number):
    fail(ValueError(number), 150)


def on_one_line(number):
    return [fail(ValueError("a")) if number == 1 else None, fail(TypeError("b"))]


@pytest.mark.parametrize(
    "function",
    [plain, noted, chained, in_context, silenced, misspelt, missing, grouped, unparsable, deep,
     on_one_line],
)  # fmt: skip
def test_it_is_the_text_of_the_standard_library(function):
    for number in (1, 2, 1, 2):
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever it is
            function(number)

        expected = "".join(traceback.format_exception(raised.value)).rstrip("\n")
        assert tracebacks.text_of(raised.value).rstrip("\n") == expected


def test_an_error_that_was_never_raised_has_only_its_last_line():
    assert tracebacks.text_of(ValueError("x")) == "ValueError: x"


def test_code_that_is_made_anew_each_time_is_not_taken_for_other_code_and_not_kept_for_ever():
    for number in range(tracebacks.MAX_TEXTS + 10):
        made = {}
        exec(compile(f"def run():\n{' ' * 4}1 / 0", f"made {number}", "exec"), made)
        with pytest.raises(ZeroDivisionError) as raised:
            made["run"]()

        assert f'"made {number}"' in tracebacks.text_of(raised.value)
        del made
    assert len(tracebacks._known) <= tracebacks.MAX_TEXTS
