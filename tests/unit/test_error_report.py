"""What stands in a worker for an error that was raised in a child process."""

import pytest

from kiqbridge.client.registry import Handling
from kiqbridge.errors import ArgumentMismatch, JobNotFound, ProcessDied
from kiqbridge.settle.error_report import Failure, failure_of, rule_for, rules_after
from kiqbridge.settle.failed_payload import backtrace_lines, error_class, error_message


class RefusedError(ConnectionError):
    """With rules of its own: cannot be made without its code, and says something else."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


class Final(BaseException):
    def __init_subclass__(cls) -> None:
        raise TypeError("no subclasses")


def failure(error, **options):
    return Failure(
        error_class=error_class(error),
        message=error_message(error),
        backtrace=["job.py:1:in 'perform'"],
        mro=[f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__],
        traceback="Traceback …",
        **options,
    )


class TestStandIn:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (ValueError("no"), ValueError),
            (KeyError("name"), KeyError),
            (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), UnicodeDecodeError),
            (FileNotFoundError(2, "gone", "a.txt"), OSError),
            (SystemExit(3), SystemExit),
            (KeyboardInterrupt(), KeyboardInterrupt),
            (RefusedError(7), RefusedError),
            (RefusedError(7), ConnectionError),
            (Final("last"), BaseException),
            (ExceptionGroup("two", [ValueError("a"), TypeError("b")]), Exception),
        ],
    )
    def test_it_has_the_name_the_message_and_the_kind_of_the_original(self, error, kind):
        stand_in = failure(error).stand_in()

        assert isinstance(stand_in, kind)
        assert error_class(stand_in) == error_class(error)
        assert error_message(stand_in) == error_message(error)
        assert backtrace_lines(stand_in) == ["job.py:1:in 'perform'"]
        assert "Traceback …" in str(stand_in.__cause__)

    def test_a_class_that_is_not_loaded_here_keeps_its_name(self):
        told = Failure(
            error_class="far.away.Oops",
            message="no",
            backtrace=[],
            mro=["far.away:Outer.Oops", "far.away:Base", "builtins:LookupError"],
            traceback="",
        )

        stand_in = told.stand_in()

        assert error_class(stand_in) == "far.away.Outer.Oops"
        assert isinstance(stand_in, LookupError)

    def test_what_is_no_class_of_errors_is_passed_over(self):
        told = Failure(
            error_class="x", message="", backtrace=[], mro=["os:system", "json:dumps"], traceback=""
        )

        assert type(told.stand_in()).__mro__[1] is Exception

    def test_an_unknown_class_in_the_child_is_rubys_name_error(self):
        assert (
            error_class(failure(JobNotFound("uninitialized constant X")).stand_in()) == "NameError"
        )

    def test_other_errors_stand_for_nothing(self):
        assert failure_of(ValueError("here")) is None


class TestRules:
    @staticmethod
    def never(*_args):
        raise AssertionError("asked twice")

    def rules(self, error, **given):
        return rules_after(error, Handling(**given))

    def test_the_answers_of_the_child_count_and_nothing_is_asked_again(self):
        error = failure(ValueError("no"), retry_in=33.0, is_given_up=True).stand_in()

        rules = self.rules(error, retry_in=self.never, retries_exhausted=self.never)

        assert rules.retry_in(0, error, {}) == 33.0
        assert rules.retries_exhausted({}, error) == "discard"
        assert rules.on_error == {}

    def test_a_rule_of_the_child_is_that_of_the_stand_in(self):
        error = failure(ValueError("no"), rule="kill").stand_in()

        rules = self.rules(error, on_error={Exception: "discard"})

        assert next(
            rules.on_error[kind] for kind in type(error).__mro__ if kind in rules.on_error
        ) == ("kill")

    def test_an_error_of_this_process_is_judged_by_the_rules_themselves(self):
        given = Handling(on_error={ProcessDied: "discard"})

        assert rules_after(ProcessDied("by SIGKILL"), given) is given

    def test_who_killed_a_child_alone_is_killed_whatever_the_rules_say(self):
        error = ProcessDied("by SIGSEGV")
        error.is_verdict = True

        rules = self.rules(error, on_error={ProcessDied: "retry"}, retry_in=self.never)

        assert rules.on_error == {ProcessDied: "kill"}
        assert rules.retry_in is None


def test_arguments_that_did_not_fit_in_a_child_are_a_death_here_too():
    stand_in = failure(ArgumentMismatch("id")).stand_in()

    assert rule_for(stand_in, rules_after(stand_in, Handling()).on_error) == "kill"

    stand_in = failure(ArgumentMismatch("id"), rule="retry").stand_in()

    assert rule_for(stand_in, rules_after(stand_in, Handling()).on_error) == "retry"
