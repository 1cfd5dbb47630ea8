"""What a thread is doing, read from its stack."""

import json
import sys

from kiqbridge.runtime import frames, user_code


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


def test_code_of_a_user_and_what_it_calls_in_a_library_is_a_users():
    found = []

    def look(*_args):
        found.append(frames.runs_user_code(sys._getframe(1)))
        return {}

    look()
    json.loads("{}", object_hook=look)

    assert found == [True, True]


def test_code_that_was_compiled_from_a_text_is_a_users():
    found = []
    exec("look()", {"look": lambda: found.append(frames.runs_user_code(sys._getframe(1)))})

    assert found == [True]


def test_a_function_of_ours_that_is_not_marked_is_not():
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


def test_a_thread_without_a_stack_runs_nothing():
    assert not frames.runs_user_code(None)
    assert frames.where(None) == "no Python code"
