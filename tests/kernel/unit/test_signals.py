"""Signals reach the loop that waits for them, whatever the main thread is doing at that moment."""

from support.processes import run_python

from kiqbridge.engine.host.signals import IGNORED

# In a child, because signals belong to the main thread of a process.
CHILD = """
import os, signal, threading, time
from kiqbridge.engine.host.signals import SignalInbox

inbox = SignalInbox()
inbox.trap()


def main_sleeps():
    with open(f"/proc/self/task/{os.getpid()}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "S"


def send():
    while not main_sleeps():
        time.sleep(0.01)
    SEND


threading.Thread(target=send, daemon=True).start()
print([inbox.wait() for _ in range(COUNT)])
"""


def names_received(send: str, count: int) -> str:
    script = CHILD.replace("SEND", send).replace("COUNT", str(count))
    return run_python(script).stdout


def test_a_signal_that_interrupts_another_thread_is_heard_at_once():
    """TERM was not heard when it came while the main thread was just falling asleep.

    Then its handler is pending and nothing wakes the thread: as when another thread is interrupted.
    """
    send = "signal.pthread_kill(threading.get_ident(), signal.SIGTERM); time.sleep(60)"

    assert names_received(send, 1) == "['TERM']\n"


def test_signals_from_redis_and_from_the_system_are_heard_each_once_and_in_order():
    put = "[inbox.put(name) for name in ('TTIN', 'TSTP', 'odd')]"
    assert names_received(f"{put}; os.kill(os.getpid(), signal.SIGINT)", 4) == (
        "['TTIN', 'TSTP', 'odd', 'INT']\n"
    )


def test_a_signal_is_heard_after_a_job_has_closed_what_wakes_the_main_thread():
    send = (
        "os.closerange(3, 100); [os.open('/dev/null', os.O_RDWR) for _ in range(90)];"
        "os.kill(os.getpid(), signal.SIGTERM)"
    )

    assert names_received(send, 1).endswith("['TERM']\n")


IGNORING = """
import logging, os, signal, subprocess, sys
from kiqbridge.engine.host import signals
logging.basicConfig(stream=sys.stdout, format="%(message)s")
signal.signal(signal.SIGUSR1, lambda *_: print("a handler of the user's own"))
inbox = signals.SignalInbox()
inbox.trap()
for name in signals.IGNORED * 2:
    os.kill(os.getpid(), getattr(signal, "SIG" + name))
inbox.put("TTIN")
inbox.wait()
sys.stdout.flush()
# What a job starts has the default again.
child = subprocess.run(["/bin/sh", "-c", "kill -HUP $$; sleep 1; echo survived"], stdout=-1)
print(child.returncode, child.stdout)
"""


def test_signals_that_mean_nothing_here_are_ignored_with_one_line_each():
    done = run_python(IGNORING)

    *lines, child = done.stdout.splitlines()
    assert lines[:2] == ["a handler of the user's own"] * 2
    told = [line.partition(" is ignored; ")[0] for line in lines[2:]]
    assert sorted(told) == sorted(f"SIG{name}" for name in IGNORED if name != "USR1")
    assert child == "-1 b''"


SUPERVISED = """
import os, signal
from kiqbridge.engine.host import signals
signal.signal(signal.SIGUSR1, lambda *_: print("a handler of the user's own", flush=True))
inbox = signals.SignalInbox(is_supervised=True)
inbox.trap()
for number in (signal.SIGUSR1, signal.SIGINT, signals.HURRY):
    os.kill(os.getpid(), number)
    print(inbox.wait() if number != signal.SIGUSR1 else "-", flush=True)
print(inbox.hurry)
"""


def test_a_process_of_a_supervisor_hurries_by_a_signal_that_loaded_code_does_not_use():
    done = run_python(SUPERVISED)

    assert done.stdout.splitlines() == ["a handler of the user's own", "-", "INT", "HURRY", "HURRY"]
