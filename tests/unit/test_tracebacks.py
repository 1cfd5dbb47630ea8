"""Texts of tracebacks are those of the standard library, the first time and every other time, without our frames."""

import contextlib
import json
import traceback

import pytest
from support.runners import RunnerStand, fail, payload

from kiqbridge.errors import PayloadError
from kiqbridge.logs import tracebacks
from kiqbridge.runtime import origins
from kiqbridge.settle.error_report import Failure
from kiqbridge.wire.payload import check_json


def sink(error, depth=0):
    if depth:
        sink(error, depth - 1)
    raise error


def plain(number):
    sink(ValueError(f"no. {number}\nand a second line"))


def noted(number):
    error = RuntimeError("noted")
    error.add_note(f"note {number}")
    sink(error)


def chained(number):
    try:
        plain(number)
    except ValueError as error:
        raise KeyError(number) from error


def in_context(number):
    try:
        plain(number)
    except ValueError:
        sink(OSError(number))


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
    sink(ExceptionGroup("several", [ValueError(number), TypeError("x")]))


def unparsable(number):
    compile(f"{number} +", "some file", "eval")


def deep(number):
    sink(ValueError(number), 150)


def on_one_line(number):
    return [sink(ValueError("a")) if number == 1 else None, fail(TypeError("b"))]


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
    assert tracebacks.text_of(ValueError("x")) == "ValueError: x"  # never raised


def test_code_that_is_made_anew_each_time_is_not_taken_for_other_code_and_not_kept_for_ever():
    for number in range(tracebacks.MAX_TEXTS + 10):
        made = {}
        exec(compile(f"def run():\n{' ' * 4}1 / 0", f"made {number}", "exec"), made)
        with pytest.raises(ZeroDivisionError) as raised:
            made["run"]()

        assert f'"made {number}"' in tracebacks.text_of(raised.value)
        del made
    assert len(tracebacks._known) <= tracebacks.MAX_TEXTS


def refused(*_args):
    check_json({1, 2}, "args[0]")


def caused(*_args):
    try:
        refused()
    except PayloadError as error:
        raise KeyError(1) from error


def inside_the_standard_library(*_args):
    with contextlib.suppress(TypeError), contextlib.ExitStack():
        json.loads("{no json")


def raised_in_ours(error):
    with pytest.raises(type(error)) as caught:
        exec(compile("raise error", f"{origins.OURS}engine/part.py", "exec"), {"error": error})
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # without the test's own frame
    return caught.value


class TestOurFrames:
    @pytest.fixture
    def run(self, caplog):
        """Run a job, and give the error that a worker logs."""
        stand = RunnerStand()

        def run(function):
            if function is not None:
                stand.declare(function)
            stand.run(payload(1))
            return caplog.records[-1].exc_info[1]

        yield run
        stand.close()

    def test_are_folded_before_those_of_a_user(self, run):
        lines = tracebacks.text_of(run(fail)).splitlines()

        assert lines[0] == "Traceback (most recent call last):"
        assert lines[1].startswith("  … ")
        assert lines[1].endswith(" frames of kiqbridge")
        assert "support/runners.py" in lines[2]
        assert lines[-1] == "ValueError: no luck"

    def test_are_folded_after_those_of_a_user(self, run):
        lines = tracebacks.text_of(run(refused)).splitlines()

        assert "in refused" in lines[2]
        assert lines[-2].startswith("  … ")
        assert lines[-1].startswith("kiqbridge.errors.PayloadError: args[0]: {1, 2} of type set")

    @pytest.mark.parametrize(
        ("function", "shown"),
        [
            (caused, "The above exception was the direct cause"),
            (inside_the_standard_library, "json/decoder.py"),
        ],
    )
    def test_are_folded_in_causes_and_not_confused_with_libraries_of_a_user(
        self, run, function, shown
    ):
        text = tracebacks.text_of(run(function))
        assert shown in text
        assert origins.OURS not in text

    def test_are_left_out_of_an_unknown_class_which_says_all(self, run):
        first, fold, last = tracebacks.text_of(run(None)).splitlines()

        assert first == "Traceback (most recent call last):"
        assert fold.endswith(" frames of kiqbridge")
        assert last.startswith("kiqbridge.errors.JobNotFound: uninitialized constant Work; no job")

    def test_are_left_out_of_the_stand_in_of_an_error_in_a_child_process(self):
        told = {"error_class": "ValueError", "message": "no luck", "traceback": "of the child"}
        failure = Failure(backtrace=[], mro=["builtins:ValueError"], **told)
        text = tracebacks.text_of(raised_in_ours(failure.stand_in()))
        assert "of the child" in text
        assert text.endswith("  … 1 frame of kiqbridge\nValueError: no luck")
        # Where no code of a user took part they are shown.
        text = tracebacks.text_of(raised_in_ours(TypeError("ours")))
        assert "/kiqbridge/engine/part.py" in text

    def test_are_shown_at_level_debug(self, run):
        error = run(fail)
        tracebacks.show_all(wanted=True)
        try:
            text = tracebacks.text_of(error)
        finally:
            tracebacks.show_all(wanted=False)

        assert text == "".join(traceback.format_exception(error)).rstrip("\n")
        assert "perform/invocation.py" in text
