"""Stacks are taken while nothing is collected, in processes of their own: a deadlock would be for ever."""

import gc
import subprocess
import sys

import pytest

from kiqbridge.runtime import collection

GARBAGE = """
import gc, sys, threading, time
from kiqbridge.runtime.collection import current_frames

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
        assert collection.without_collection(gc.isenabled) is False
        assert gc.isenabled() is is_enabled
        with pytest.raises(KeyError):
            collection.without_collection({}.popitem)
        assert gc.isenabled() is is_enabled
    finally:
        (gc.enable if was else gc.disable)()


def test_a_child_forked_meanwhile_collects_again():
    was = gc.isenabled()
    gc.enable()
    lock = collection._alone
    try:
        # As the child sees it: renewed in the midst of a call, which never returns there.
        assert collection.without_collection(lambda: (collection._renew(), gc.isenabled())[1])

        assert collection._alone is not lock
        assert collection.current_frames()
    finally:
        (gc.enable if was else gc.disable)()
