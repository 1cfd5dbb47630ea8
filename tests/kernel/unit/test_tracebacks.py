"""Texts of tracebacks, whose frames are shown, and errors of a child process."""

import contextlib
import gc
import importlib
import json
import logging
import queue
import socket
import sys
import threading
import traceback

import pytest
from support.processes import run_python
from support.runners import RunnerStand, fail, payload
from support.stacks import installed_library

from kiqbridge.client.registry import Handling
from kiqbridge.engine.settle.error_report import (
    Failure,
    backtrace_lines,
    error_class,
    error_message,
    failure_of,
    rule_for,
    rules_after,
)
from kiqbridge.errors import ArgumentMismatch, JobNotFound, PayloadError, ProcessDied
from kiqbridge.runtime import frames, user_code
from kiqbridge.runtime.frames import Origin, is_generated, origin_of, trust
from kiqbridge.runtime.logs import tracebacks
from kiqbridge.wire.payload import check_json


@pytest.fixture(autouse=True)
def no_debug_level():
    """Another test may have set the level of the process."""
    tracebacks.show_all(wanted=False)


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
        exec(compile("raise error", f"{frames.OURS}engine/part.py", "exec"), {"error": error})
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
        assert frames.OURS not in text

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
        assert "engine/perform/invocation.py" in text


def test_what_a_marked_function_calls_is_a_users_wherever_it_lies():
    found = []

    @frames.may_take_long
    def perform():
        return list(map(look, [1]))

    def look(_item):
        found.append(frames.runs_user_code(sys._getframe()))

    code = compile("def job(call): return call()", "/x/site-packages/shop/jobs.py", "exec")
    names = {}
    exec(code, names)
    marked = frames.may_take_long(names["job"])
    plain = {}
    exec(compile("def job(call): return call()", "/x/site-packages/shop/other.py", "exec"), plain)

    marked(lambda: found.append(frames.runs_user_code(sys._getframe().f_back)))
    perform()

    assert found == [True, True]


def test_code_of_a_user_what_it_calls_in_a_library_and_of_a_text_is_a_users():
    found = []

    def look(*_args):
        found.append(frames.runs_user_code(sys._getframe(1)))
        return {}

    look()
    json.loads("{}", object_hook=look)
    exec("look()", {"look": look})
    assert found == [True, True, True]


def test_a_function_of_ours_that_is_not_marked_is_not_nor_a_thread_without_a_stack():
    seen = []

    class Named:
        def __repr__(self):
            frame = sys._getframe(1)
            seen.append((frames.runs_user_code(frame), frames.where(frame)))
            return "named"

    user_code.name_of(Named())
    [(is_users, where)] = seen
    assert not is_users
    assert where.startswith("name_of (user_code.py:")
    assert not frames.runs_user_code(None)
    assert frames.where(None) == "no Python code"


GARBAGE = """
import gc, sys, threading, time
from kiqbridge.runtime.frames import current_frames

class Cycle:
    pass

def make_garbage():
    cycle = Cycle()
    cycle.itself, cycle.local = cycle, threading.local()
    cycle.local.value = 1

# The collector runs after so many new objects: at one of the frames that are made, with the lock held.
for count in range(1, 30):
    gc.disable()
    for _ in range(20):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    make_garbage()
    gc.set_threshold(gc.get_count()[0] + count, 1, 1)
    gc.enable()
    assert len(current_frames()) > 20
    assert gc.isenabled()
print("done")
"""


def test_a_stack_is_taken_while_a_thread_local_is_garbage():
    assert run_python(GARBAGE).stdout == "done\n"


@pytest.mark.parametrize("is_enabled", [False, True])
def test_the_collector_is_afterwards_as_it_was_before(is_enabled):
    was = gc.isenabled()
    (gc.enable if is_enabled else gc.disable)()
    try:
        assert frames.without_collection(gc.isenabled) is False
        assert gc.isenabled() is is_enabled
        with pytest.raises(KeyError):
            frames.without_collection({}.popitem)
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_a_child_forked_meanwhile_collects_again():
    was = gc.isenabled()
    gc.enable()
    lock = frames._alone
    try:
        # As the child sees it: renewed in the midst of a call, which never returns there.
        assert frames.without_collection(lambda: (frames._renew(), gc.isenabled())[1])

        assert frames._alone is not lock
        assert frames.current_frames()
    finally:
        (gc.enable if was else gc.disable)()


@pytest.fixture
def library(tmp_path, monkeypatch):
    """An installed package."""
    with installed_library(tmp_path, monkeypatch) as module:
        yield module
    frames._homes.clear()
    origin_of.cache_clear()


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        (__file__, Origin.USER),
        (frames.__file__, Origin.OURS),
        (logging.__file__, Origin.LOGGING),
        (threading.__file__, Origin.LOCKING),
        (queue.__file__, Origin.LOCKING),
        (contextlib.__file__, Origin.LOCKING),
        ("<frozen importlib._bootstrap>", Origin.LOCKING),
        (socket.__file__, Origin.LIBRARY),
        ("/venv/lib/python3.11/site-packages/redis/connection.py", Origin.LOCKING),
        ("/venv/lib/python3.11/site-packages/requests/api.py", Origin.LIBRARY),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", Origin.LIBRARY),
        ("<string>", Origin.LIBRARY),
        ("/app/jobs.py", Origin.USER),
    ],
)
def test_a_file_belongs_to_whom_its_folder_says(file, origin):
    assert origin_of(file) is origin


def test_an_installed_package_that_declares_jobs_is_the_users_and_a_text_generated(library):
    assert origin_of(library.__file__) is Origin.LIBRARY
    trust(["some_library.Manager", "kiqbridge.client.job.Job", "threading"])
    assert origin_of(library.__file__) is Origin.USER
    files = ("<string>", "<frozen importlib._bootstrap>", __file__)
    assert [is_generated(file) for file in files] == [True, False, False]


def test_a_package_is_trusted_as_a_whole(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "trusted_shop"
    folder.mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "jobs.py").touch()
    monkeypatch.syspath_prepend(str(folder.parent))

    importlib.import_module("trusted_shop.jobs")

    trust(["trusted_shop.jobs.Mail"])

    assert origin_of(str(folder / "other.py")) is Origin.USER
    for name in ("trusted_shop", "trusted_shop.jobs"):
        del sys.modules[name]
    frames._homes.clear()
    origin_of.cache_clear()


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
        mro = ["os:system", "json:dumps"]
        told = Failure(error_class="x", message="", backtrace=[], mro=mro, traceback="")
        assert type(told.stand_in()).__mro__[1] is Exception
        unknown = failure(JobNotFound("uninitialized constant X")).stand_in()
        assert error_class(unknown) == "NameError"
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
        assert rule_for(error, rules.on_error) == "kill"
        # An error of this process is judged by the rules themselves.
        given = Handling(on_error={ProcessDied: "discard"})
        assert rules_after(ProcessDied("by SIGKILL"), given) is given

    def test_who_killed_a_child_alone_is_killed_whatever_the_rules_say(self):
        error = ProcessDied("by SIGSEGV")
        error.is_verdict = True

        rules = self.rules(error, on_error={ProcessDied: "retry"}, retry_in=self.never)

        assert rules.on_error == {ProcessDied: "kill"}
        assert rules.retry_in is None


@pytest.mark.parametrize(("options", "rule"), [({}, "kill"), ({"rule": "retry"}, "retry")])
def test_arguments_that_did_not_fit_in_a_child_are_a_death_here_too(options, rule):
    stand_in = failure(ArgumentMismatch("id"), **options).stand_in()
    assert rule_for(stand_in, rules_after(stand_in, Handling()).on_error) == rule
