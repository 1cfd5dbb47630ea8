"""A fork while an error is on its way to another thread, which is not in the child."""

import subprocess
import sys

SCRIPT = """
import ctypes, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from kiqbridge.runtime import job_forks

job_forks.install()
lock = threading.Lock()
lock.acquire()
other = threading.Thread(target=lock.acquire, daemon=True)
other.start()
kind = ctypes.py_object(SystemExit)
assert ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(other.ident), kind) == 1


def work():
    return os.fork()  # the child returns 0 to a pool that is not there


pid = ThreadPoolExecutor(1).submit(work).result()
until = time.monotonic() + 20
while time.monotonic() < until:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        print("the child ended with", os.waitstatus_to_exitcode(status), flush=True)
        os._exit(0)
    time.sleep(0.01)
os.kill(pid, 9)
print("the child hangs", flush=True)
os._exit(1)
"""


def test_the_child_ends_all_the_same():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert run.stdout.splitlines()[-1:] == ["the child ended with 0"], run.stdout + run.stderr
