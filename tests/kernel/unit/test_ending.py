"""A process that is to end does so in time, whatever its threads are doing."""

import signal
import subprocess
import sys
import time

import pytest
from support.processes import run_python

HUNG_AFTER_S = 60
"""Without the guarantee these processes would never end."""

SCRIPT = """
import os, sys, threading, time
from kiqbridge.engine.host import ending
{body}
"""


def run(body, **options):
    return run_python(SCRIPT.format(body=body), check=False, timeout=HUNG_AFTER_S, **options)


@pytest.mark.parametrize(
    "stuck",
    [
        "sum(range(10**13))",
        "lock = threading.Lock(); lock.acquire(); lock.acquire()",
        "import ctypes; ctypes.PyDLL(None).sleep(1000)",
    ],
    ids=["C that holds the interpreter lock", "a lock", "sleep with the interpreter lock"],
)
def test_the_kernel_kills_it_when_no_thread_of_python_can(stuck):
    began = time.monotonic()
    status = run(f"ending.kill_after(0.5); {stuck}").returncode
    took_s = time.monotonic() - began

    assert status == -signal.SIGKILL
    assert took_s >= 0.5


def test_of_several_deadlines_the_first_counts():
    for first, second in ((0.5, 1000), (1000, 0.2)):
        body = f"ending.kill_after({first}); ending.kill_after({second}); time.sleep(1000)"
        assert run(body).returncode == -signal.SIGKILL


def test_a_forked_child_has_a_life_of_its_own():
    body = """
ending.kill_after(1)
child = os.fork()
if not child:
    os.setsid()
    time.sleep(2)
    print(ending._deadline.at, flush=True)
    os._exit(0)
time.sleep(1000)
"""
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(body=body)], stdout=subprocess.PIPE
    ) as process:
        said, _ = process.communicate(timeout=HUNG_AFTER_S)

    assert process.returncode == -signal.SIGKILL
    assert said == b"None\n"


@pytest.mark.parametrize(
    "obstacle",
    [
        "pass",
        "import atexit; atexit.register(time.sleep, 1000)",
        "threading.Thread(target=time.sleep, args=(1000,)).start()",
        "import logging; logging._lock.acquire(); logging.getLogger().addHandler(logging.Handler())"
        if sys.version_info >= (3, 13)
        else "threading.Thread(target=__import__('logging')._acquireLock).start()",
    ],
    ids=["nothing", "a hook", "a thread", "a lock of logging"],
)
def test_an_end_with_a_status_waits_for_nobody(obstacle):
    status = run(f"{obstacle}\nending.end_process(7)").returncode

    assert status == 7


PRINTS = """
class Slow(threading.Thread):
    def run(self):
        began.set()
        print("x" * 200_000)
began = threading.Event()
Slow(daemon=True).start()
began.wait()
ending.end_process(7)
"""
COMPLAINS = """
os.set_blocking(2, True)
for _ in range(3):
    ending.write_to_stderr("x" * 70_000)
os._exit(7)
"""


@pytest.mark.parametrize(("body", "unread"), [(PRINTS, "stdout"), (COMPLAINS, "stderr")])
def test_neither_an_end_nor_a_complaint_waits_for_a_reader(body, unread):
    command = [sys.executable, "-c", SCRIPT.format(body=body)]
    with subprocess.Popen(command, **{unread: subprocess.PIPE}) as process:
        try:
            assert process.wait(HUNG_AFTER_S) == 7
        finally:
            process.kill()


def test_what_waits_in_logs_and_output_is_written():
    done = run("""
import logging
from kiqbridge.engine.perform.job_logger import configure_logging
configure_logging("info", "plain")
for number in range(3_000):
    logging.getLogger().info("line %d.", number)
sys.stdout.write("unfinished")
ending.end_process(0)
""")
    assert done.returncode == 0
    assert "line 2999." in done.stdout
    assert "unfinished" in done.stdout


def test_the_reason_of_a_failure_is_the_last_line_after_those_of_the_log():
    body = """
import logging
from kiqbridge.commands import worker_command
from kiqbridge.errors import KiqbridgeError
from kiqbridge.engine.perform.job_logger import configure_logging
configure_logging("info", "plain")
def work():
    for number in range(5):
        logging.getLogger().info("line %d.", number)
    raise KiqbridgeError("no bread")
ending.end_process(worker_command._status_of(work))
"""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = run(body, capture_output=False, **streams)

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "kiqbridge: no bread"
