"""Signals reach the loop that waits for them, whatever the main thread is doing at that moment."""

import subprocess
import sys

# In a child, because signals belong to the main thread of a process.
CHILD = """
import os, signal, threading, time
from kiqbridge.signals import SignalInbox

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
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=20).stdout


def test_a_signal_that_interrupts_another_thread_is_heard_at_once():
    """TERM was not heard when it came while the main thread was just falling asleep.

    Then its handler is pending and nothing wakes the thread: as when another thread is interrupted.
    """
    send = "signal.pthread_kill(threading.get_ident(), signal.SIGTERM); time.sleep(60)"

    assert names_received(send, 1) == "['TERM']\n"


def test_a_signal_that_interrupts_the_waiting_thread_is_heard_at_once():
    assert names_received("os.kill(os.getpid(), signal.SIGTSTP)", 1) == "['TSTP']\n"


def test_signals_from_redis_and_from_the_system_are_heard_each_once_and_in_order():
    send = (
        "[inbox.put(name) for name in ('TTIN', 'TSTP', 'odd')]; os.kill(os.getpid(), signal.SIGINT)"
    )

    assert names_received(send, 4) == "['TTIN', 'TSTP', 'odd', 'INT']\n"
