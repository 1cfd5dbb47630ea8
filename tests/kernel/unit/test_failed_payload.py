"""What is recorded of a failure with its job."""

import base64
import json
import zlib
from pathlib import Path

import pytest

import kiqbridge
from kiqbridge.engine.settle.error_report import MESSAGE_LIMIT, error_class, error_message
from kiqbridge.engine.settle.retry import failed_payload
from kiqbridge.errors import JobNotFound, PayloadError

NOW = 1_700_000_000.25


class Unreadable(Exception):  # noqa: N818 - named by what it does
    def __str__(self):
        raise RuntimeError("no message")


def raised(function, *args):
    try:
        function(*args)
    except Exception as error:  # noqa: BLE001 - whatever the job raises
        return error
    raise AssertionError("nothing was raised")


class TestWhatIsKept:
    def test_the_first_failure_appends_in_rubys_order(self):
        payload = {"class": "A", "args": [7], "jid": "j", "backtrace": 1, "queue": "default"}

        failed = failed_payload(payload, ValueError("boom"), queue="low", profile="7", now=NOW)

        assert list(failed) == [
            "class", "args", "jid", "backtrace", "queue",
            "error_message", "error_class", "failed_at", "retry_count", "error_backtrace",
        ]  # fmt: skip
        assert failed["queue"] == "low"
        assert (failed["failed_at"], failed["retry_count"]) == (NOW, 0)

    def test_a_later_failure_overwrites_in_place_and_appends_retried_at(self):
        first = failed_payload({"class": "A"}, ValueError("1"), queue="q", profile="7", now=NOW)

        second = failed_payload(first, KeyError("2"), queue="q", profile="7", now=NOW + 20)

        assert list(second) == [*first, "retried_at"]
        assert second["failed_at"] == NOW
        assert second["retried_at"] == NOW + 20
        assert (second["error_message"], second["error_class"]) == ("'2'", "KeyError")
        assert second["retry_count"] == 1

    def test_profile_8_writes_milliseconds(self):
        first = failed_payload({}, ValueError(), queue="q", profile="8", now=NOW)
        second = failed_payload(first, ValueError(), queue="q", profile="8", now=NOW)

        assert second["failed_at"] == second["retried_at"] == 1_700_000_000_250

    @pytest.mark.parametrize(
        ("queue", "kept"), [("later", "later"), (None, "default"), ("", "default")]
    )
    def test_a_retry_queue_takes_the_place_of_the_queue(self, queue, kept):
        payload = {"queue": "default", "retry_queue": queue}
        failed = failed_payload(payload, ValueError(), queue="default", profile="7", now=NOW)
        assert failed["queue"] == kept

    @pytest.mark.parametrize(
        ("count", "new"), [(None, 0), (-1, 0), (0, 1), (24, 25), ("3", 4), (2.0, 3), ("x", 1)]
    )
    def test_the_count_goes_up_whatever_a_producer_wrote(self, count, new):
        failed = failed_payload(
            {"retry_count": count}, ValueError(), queue="q", profile="7", now=NOW
        )

        assert failed["retry_count"] == new


class TestErrorData:
    @pytest.mark.parametrize(
        ("error", "message"),
        [
            (ValueError("é" * 10_001), "é" * MESSAGE_LIMIT),
            (ValueError("a\ud800b\udfffc😀"), "a\ufffdb\ufffdc😀"),  # what UTF-8 cannot carry
            (Unreadable(), "(the message could not be read: RuntimeError)"),
        ],
    )
    def test_a_message_is_cut_and_does_not_cost_the_job(self, error, message):
        assert error_message(error) == message

    @pytest.mark.parametrize(
        ("error", "name"),
        [
            (ValueError(), "ValueError"),
            (KeyboardInterrupt(), "KeyboardInterrupt"),
            (PayloadError(), "kiqbridge.errors.PayloadError"),
            (json.JSONDecodeError("x", "y", 0), "json.decoder.JSONDecodeError"),
            (Unreadable(), f"{__name__}.Unreadable"),
            (JobNotFound("uninitialized constant X"), "NameError"),
        ],
    )
    def test_a_class_is_named_so_that_ruby_shows_it(self, error, name):
        assert error_class(error) == name


def inner(message):
    raise ValueError(message)


def outer(message):
    inner(message)


class TestBacktrace:
    def lines(self, backtrace, error=None):
        error = error or raised(outer, "boom")
        failed = failed_payload({"backtrace": backtrace}, error, queue="q", profile="7", now=NOW)
        text = failed["error_backtrace"]
        assert "\n" not in text
        return json.loads(zlib.decompress(base64.b64decode(text, validate=True)))

    def test_its_lines_are_in_rubys_form_innermost_first(self):
        lines = self.lines(True)

        assert [line.rpartition(":")[2] for line in lines[:2]] == ["in 'inner'", "in 'outer'"]
        file, number, _ = lines[0].rsplit(":", 2)
        assert file == __file__
        assert int(number) == inner.__code__.co_firstlineno + 1

    def test_a_number_keeps_the_first_lines(self):
        assert len(self.lines(2)) == 2
        assert self.lines(2) == self.lines(True)[:2]

    def test_the_engines_own_lines_are_left_out(self):
        code = compile(
            "def engine(f): f()", f"{Path(kiqbridge.__file__).parent}/made_up.py", "exec"
        )
        names = {}
        exec(code, names)

        lines = self.lines(True, raised(names["engine"], lambda: inner("boom")))

        assert not any("made_up" in line for line in lines)

    def test_a_users_package_beside_ours_with_a_like_name_is_kept(self):
        code = compile(
            "def user(f): f()", f"{Path(kiqbridge.__file__).parent}_jobs/mine.py", "exec"
        )
        names = {}
        exec(code, names)

        lines = self.lines(True, raised(names["user"], lambda: inner("boom")))

        assert any("_jobs/mine.py" in line for line in lines)

    @pytest.mark.parametrize("backtrace", [False, None, 0])
    def test_it_is_kept_only_if_asked_for(self, backtrace):
        failed = failed_payload(
            {"backtrace": backtrace}, raised(outer, "x"), queue="q", profile="7", now=NOW
        )

        assert "error_backtrace" not in failed

    def test_an_error_that_was_never_raised_has_no_lines(self):
        assert self.lines(True, ValueError("made, not raised")) == []
