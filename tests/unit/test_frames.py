"""What a thread is doing, read from its stack."""

import gc
import json
import subprocess
import sys

import pytest

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
    assert len({taken}()) > 20
    assert gc.isenabled()
print("done")
"""


def run(taken):
    return subprocess.run(
        [sys.executable, "-c", GARBAGE.replace("{taken}", taken)],
        capture_output=True, text=True, timeout=60, check=True,
    ).stdout  # fmt: skip


def test_a_stack_is_taken_while_a_thread_local_is_garbage():
    assert run("current_frames") == "done\n"


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
