"""Whoever reads the log may be slow, stand still or go away: nobody who logs waits for that."""

import errno
import gc
import logging
import os
import pty
import socket
import stat
import subprocess
import sys
import threading
import time
import tty
from contextlib import suppress

import pytest
from support.processes import run_python
from support.waiting import wait_until

from kiqbridge.runtime.logs.log_sink import DescriptorSink
from kiqbridge.runtime.logs.log_writer import CLOSE_S, MAX_CHARACTERS, MAX_WAITING, LogWriter

SLOW_MACHINE_S = 120
"""What is over at once may take so long here; a wait for the reader would last for ever."""


class Reader:
    """The other end of the log: reads nothing until told to, then all of it."""

    def __init__(self, handle):
        self._handle = handle
        self.seen = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self):
        if self._thread.ident is None:
            self._thread.start()

    def lines(self):
        return bytes(self.seen).decode().splitlines()

    def _read(self):
        while True:
            try:
                data = os.read(self._handle, 65536)
            except OSError:  # a terminal whose other end was closed
                return
            if not data:
                return
            self.seen.extend(data)


def open_pipe():
    return os.pipe()


def open_terminal():
    reading, writing = pty.openpty()
    tty.setraw(writing)
    return reading, writing


def open_socket():
    reading, writing = socket.socketpair()
    return reading.detach(), writing.detach()


@pytest.fixture(params=["pipe", "terminal", "socket", "a pipe of another user", "polled pipe"])
def log(request, monkeypatch):
    """(writer, reader, descriptor), with nobody reading until `reader.start()`."""
    opened = {"terminal": open_terminal, "socket": open_socket}.get(request.param, open_pipe)()
    reading, writing = opened
    if request.param in ("a pipe of another user", "polled pipe"):
        really_open = os.open

        def refuse(path, *args, **options):
            if str(path).startswith("/proc/self/fd"):
                raise PermissionError(errno.EACCES, "another user's", path)
            return really_open(path, *args, **options)

        monkeypatch.setattr(os, "open", refuse)
    if request.param == "polled pipe":
        monkeypatch.delattr(os, "RWF_NOWAIT")
    stream = open(writing, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - closed below
    writer = LogWriter(stream)
    reader = Reader(reading)
    yield writer, reader, writing
    reader.start()
    writer.close()
    os.close(writing)


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    yield reading, writing
    for handle in (reading, writing):
        with suppress(OSError):
            os.close(handle)


def writer_to(handle):
    return LogWriter(open(handle, "w", encoding="utf-8", closefd=False))


def ended_in_time(call):
    """Whether a call ends, in a thread of its own, so that a hanging one fails its test only."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(SLOW_MACHINE_S)
    return not thread.is_alive()


def fill(writer, count=3 * MAX_WAITING):
    def log():
        for number in range(count):
            writer.write(f"{number:<100}.\n")

    return ended_in_time(log)


def test_whoever_logs_goes_on_while_nobody_reads(log):
    writer, _, handle = log

    assert fill(writer)

    assert writer.missing > MAX_WAITING
    assert os.get_blocking(handle), "the file description is shared with others"


def test_after_a_pause_of_the_reader_the_log_goes_on_and_says_how_many_lines_are_missing(log):
    writer, reader, _ = log
    assert fill(writer)
    missing = writer.missing

    reader.start()
    wait_until(lambda: f"{missing} log lines were dropped here" in bytes(reader.seen).decode(), 20)
    writer.write("after\n")
    wait_until(lambda: reader.lines()[-1:] == ["after"], 20)

    *written, said, _ = reader.lines()
    kept = 3 * MAX_WAITING - missing
    assert written == [f"{number:<100}." for number in range(kept)]
    assert said.endswith("the reader of standard output was too slow")


def test_lines_longer_than_a_pipe_arrive_whole_and_in_order(log):
    writer, reader, _ = log
    lines = [f"{number}:" + "x" * 150_000 for number in range(5)]

    for line in lines:
        writer.write(f"{line}\n")
    reader.start()
    wait_until(lambda: len(reader.seen) >= sum(map(len, lines)) + len(lines), 30)

    assert reader.lines() == lines


def test_a_warning_waits_neither_for_the_reader_nor_for_room(log):
    writer, reader, _ = log
    assert fill(writer, 2_000)

    assert ended_in_time(lambda: writer.write("careful\n", urgent=True))
    reader.start()

    wait_until(lambda: reader.lines()[-1:] == ["careful"], 20)


def test_closing_waits_for_a_reader_who_stands_still_but_not_for_long(log):
    writer, _, _ = log
    assert fill(writer)

    began = time.monotonic()
    assert ended_in_time(writer.close)

    assert time.monotonic() - began >= CLOSE_S / 2


def test_closing_waits_for_a_reader_who_is_only_late(log):
    writer, reader, _ = log
    assert fill(writer, MAX_WAITING // 2)

    reader.start()
    writer.close()

    wait_until(lambda: len(reader.lines()) == MAX_WAITING // 2, 20)


def test_what_waits_is_bounded_in_characters_too(pipe):
    writer = writer_to(pipe[1])
    line = "x" * 100_000 + "\n"

    assert ended_in_time(lambda: [writer.write(line) for _ in range(200)])

    waiting = 200 - writer.missing
    assert waiting * len(line) <= MAX_CHARACTERS + 65536 + len(line)
    assert waiting > 30


def test_a_single_line_of_any_length_is_written(pipe):
    writer, reader = writer_to(pipe[1]), Reader(pipe[0])
    line = "x" * (MAX_CHARACTERS + 1)

    reader.start()
    writer.write(f"{line}\n")

    wait_until(lambda: reader.lines() == [line], 30)


@pytest.mark.parametrize("target", ["a reader who has gone", "a full disk"])
def test_what_cannot_be_written_costs_the_lines_and_no_job_its_end(pipe, capsys, target):
    reading, writing = pipe
    os.close(reading)
    if target == "a full disk":
        os.close(writing)
        writing = os.open("/dev/full", os.O_WRONLY)
    writer = writer_to(writing)
    assert fill(writer)
    writer.flush()
    assert writer.missing == 3 * MAX_WAITING
    assert capsys.readouterr().err == ""
    os.close(writing)


class Stuck:
    """Of whose text nobody sees the end."""

    def __init__(self):
        self.is_asked = threading.Event()
        self.may_end = threading.Event()

    def __str__(self):
        self.is_asked.set()
        self.may_end.wait(60)
        return "at last"


def test_a_thread_that_is_stuck_within_logging_holds_up_no_other(pipe):
    log = logging.getLogger("kiqbridge.test_log_reader")
    log.propagate = False
    log.setLevel(logging.INFO)
    writer, reader = writer_to(pipe[1]), Reader(pipe[0])
    log.addHandler(writer)
    reader.start()
    stuck = Stuck()
    thread = threading.Thread(target=lambda: log.info("%s", stuck), daemon=True)
    thread.start()
    assert stuck.is_asked.wait(20)
    try:
        assert ended_in_time(lambda: log.info("another"))
        wait_until(lambda: reader.lines() == ["another"], 20)
    finally:
        stuck.may_end.set()
        log.removeHandler(writer)
    thread.join(20)
    wait_until(lambda: reader.lines() == ["another", "at last"], 20)


def test_the_log_goes_on_when_a_job_closes_standard_output(tmp_path):
    file = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)
    writer = writer_to(file)
    writer.write("before\n")

    os.close(file)
    writer.write("after\n")
    writer.flush()

    assert (tmp_path / "log").read_text() == "before\nafter\n"


def own_descriptor(handle):
    """The duplicate of a descriptor that a sink made for itself."""
    gc.collect()  # what the tests before have left open
    before = [each for each in range(1_000) if is_open(each)]
    sink = DescriptorSink(handle)
    [own] = [each for each in range(1_000) if is_open(each) and each not in before]
    return sink, own


def is_open(handle):
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


def test_the_log_goes_on_when_a_job_closes_the_descriptor_of_the_log(pipe):
    sink, own = own_descriptor(pipe[1])

    os.close(own)
    assert sink.write(memoryview(b"still there\n")) == 12

    assert os.read(pipe[0], 100) == b"still there\n"


def test_the_log_never_goes_to_what_took_its_descriptors_number(pipe, tmp_path):
    sink, own = own_descriptor(pipe[1])
    other = tmp_path / "database"
    file = os.open(other, os.O_CREAT | os.O_WRONLY)
    os.dup2(file, own)
    os.dup2(file, pipe[1])

    with pytest.raises(OSError, match="not open any more"):
        sink.write(memoryview(b"a line\n"))

    assert other.read_bytes() == b""
    os.close(own)
    os.close(file)


# In a process of its own: a thread that is killed may die in the midst of pytest's own hooks.
KILLED = """
import ctypes, os, sys, threading, time
from kiqbridge.runtime.logs.log_writer import LogWriter

writer = LogWriter(sys.stdout)
writer.write("first\\n")
[thread] = [each for each in threading.enumerate() if each.name == "kiqbridge-log"]
while thread.is_alive():
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)
    )
    writer.write("wake\\n")
    time.sleep(0.01)  # until the thread has run a line of Python
for number in range(10):
    writer.write(f"{number}\\n")
threading.Event().wait()
"""


def test_a_writer_thread_that_was_killed_is_started_again(pipe):
    reader = Reader(pipe[0])
    reader.start()
    command = [sys.executable, "-c", KILLED]
    with subprocess.Popen(command, stdout=pipe[1]) as process:
        try:
            wait_until(lambda: reader.lines()[-10:] == [str(number) for number in range(10)], 30)
        finally:
            process.kill()


STALLED = """
import logging, os, sys
from kiqbridge.engine.perform.job_logger import configure_logging
configure_logging("info", "plain")
log = logging.getLogger("app")
for number in range(5_000):
    log.info("line %d %s", number, "x" * 100)
{end}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("logging.shutdown(); os._exit(3)", 3),
        ("sys.exit(4)", 4),
        ("child = os.fork()\nos._exit(0 if not child else os.waitpid(child, 0)[1] + 5)", 5),
    ],
)
def test_a_process_ends_and_forks_although_nobody_reads(end, status):
    command = [sys.executable, "-c", STALLED.format(end=end)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.wait(60) == status
        finally:
            process.kill()


def test_what_a_job_prints_is_not_kept_back(tmp_path):
    script = """
import os
from kiqbridge.engine.perform.job_logger import configure_logging
configure_logging("info", "plain")
print("printed")
os._exit(0)
"""
    assert run_python(script).stdout == "printed\n"


def test_lines_of_two_processes_are_not_mixed(pipe):
    """Both write to one pipe; whatever fits into PIPE_BUF arrives in one piece."""
    script = """
import os, sys
from kiqbridge.runtime.logs.log_writer import LogWriter
writer = LogWriter(sys.stdout)
for number in range(2_000):
    writer.write(sys.argv[1] * 300 + "\\n")
writer.close()
os._exit(0)
"""
    reader = Reader(pipe[0])
    processes = [
        subprocess.Popen([sys.executable, "-c", script, letter], stdout=pipe[1]) for letter in "ab"
    ]
    reader.start()
    for process in processes:
        assert process.wait(60) == 0
    wait_until(lambda: len(reader.seen) >= 4_000 * 301, 20)

    lines = reader.lines()
    assert sorted(set(lines)) == ["a" * 300, "b" * 300]
    assert stat.S_ISFIFO(os.fstat(pipe[1]).st_mode)
