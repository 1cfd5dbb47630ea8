"""Many lines in one write, and none lost."""

import io
import logging
import os
import signal
from functools import partial

import pytest
from support.processes import run_python
from support.waiting import at_once, wait_until

from kiqbridge.runtime.logs import log_writer
from kiqbridge.runtime.logs.log_writer import MAX_LINES, LogWriter


class Stream(io.StringIO):
    """Counts how often it is flushed; `broken` refuses."""

    def __init__(self):
        super().__init__()
        self.writes = 0
        self.broken = False

    def write(self, text):
        if self.broken:
            raise OSError("no space left on device")
        self.writes += 1
        return super().write(text)


@pytest.fixture
def stream():
    return Stream()


@pytest.fixture
def writer(stream):
    writer = LogWriter(stream)
    yield writer
    writer.close()


def test_a_line_after_a_pause_is_written_at_once_and_those_of_a_burst_together_in_order(
    writer, stream
):
    writer.write("at redis://user:hunter2@host:6379\n")
    assert stream.getvalue() == "at redis://user:***@host:6379\n"
    for number in range(200):
        writer.write(f"{number}\n")
    wait_until(lambda: stream.getvalue().endswith("199\n"), 5, "the last line")
    assert stream.getvalue().split("\n")[1:-1] == [str(number) for number in range(200)]
    assert stream.writes < 100
    writer.write("after\n")
    wait_until(lambda: stream.getvalue().endswith("after\n"), 5, "the line")


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR])
def test_a_warning_waits_for_nobody_and_brings_what_waits(writer, stream, level):
    record = logging.makeLogRecord({"msg": "careful", "levelno": level})
    writer.write("first\n")
    writer.write("waits\n")

    writer.emit(record)

    assert stream.getvalue() == "first\nwaits\ncareful\n"


def test_a_burst_of_warnings_is_written_together(writer, stream, monkeypatch):
    monkeypatch.setattr(log_writer.time, "monotonic", lambda: 100.0)
    for number in range(50):
        writer.emit(logging.makeLogRecord({"msg": str(number), "levelno": logging.WARNING}))
    assert stream.writes < 25  # by the first line, and every 20 ms

    writer.emit(logging.makeLogRecord({"msg": "error", "levelno": logging.ERROR}))
    assert stream.getvalue().splitlines() == [*map(str, range(50)), "error"]


def test_so_many_lines_do_not_wait(writer, stream):
    for _ in range(MAX_LINES + 1):
        writer.write("x\n")

    assert stream.getvalue().count("x\n") >= MAX_LINES


def test_closing_writes_what_waits_and_later_lines_go_at_once(writer, stream):
    writer.write("first\n")
    writer.write("waits\n")

    writer.close()
    writer.write("late\n")
    writer.write("later\n")

    assert stream.getvalue() == "first\nwaits\nlate\nlater\n"


def test_threads_that_log_at_once_lose_nothing(writer, stream):
    def log(name):
        for number in range(2_000):
            writer.write(f"{name}-{number}\n")

    at_once(*(partial(log, name) for name in "abcd"))
    writer.flush()

    lines = stream.getvalue().split()
    assert len(lines) == 8_000
    for name in "abcd":
        own = [line for line in lines if line.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(2_000)]


def test_a_stream_that_refuses_costs_the_line_and_says_so(writer, stream, capsys):
    stream.broken = True
    writer.write("lost\n")
    stream.broken = False
    writer.write("kept\n")
    writer.flush()

    assert stream.getvalue() == (
        "1 log lines are missing here: OSError: no space left on device\nkept\n"
    )
    assert writer.missing == 1
    assert capsys.readouterr().err == ""  # standard error may be what nobody reads


def test_a_record_that_cannot_be_formatted_costs_only_itself(writer, stream, capsys):
    writer.emit(logging.makeLogRecord({"msg": "%d", "args": ("x",), "levelno": logging.INFO}))
    writer.emit(logging.makeLogRecord({"msg": "fine", "levelno": logging.WARNING}))

    complaint, fine = stream.getvalue().splitlines()
    assert "cannot be formatted (TypeError): '%d'" in complaint
    assert fine == "fine"
    assert capsys.readouterr().err == ""


SCRIPT = """
import logging, os, signal, sys
from kiqbridge.engine.perform.job_logger import configure_logging
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job inherits it ignored
configure_logging("info", "plain")
log = logging.getLogger("app")
for number in range(500):
    log.info("line %d.", number)
{end}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("raise SystemExit", 0),
        ("logging.shutdown(); os._exit(0)", 0),
        ("raise ValueError('end')", 1),
        ("os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
    ],
)
def test_no_line_is_lost_at_an_end_that_python_notices(end, status):
    done = run_python(SCRIPT.format(end=end), check=False)

    assert done.returncode == status
    assert [line.rsplit(" ", 1)[1] for line in done.stdout.splitlines()] == [
        f"{number}." for number in range(500)
    ]


def test_a_line_before_a_crash_is_there_when_nothing_else_was_logged():
    end = """
import time
while logging.getLogger().handlers[0]._is_burst:
    time.sleep(0.01)
log.info("start of the culprit.")
os.kill(os.getpid(), signal.SIGSEGV)
"""

    done = run_python(SCRIPT.format(end=end), check=False)

    assert done.returncode == -signal.SIGSEGV
    assert done.stdout.endswith("start of the culprit.\n")


def test_a_fork_doubles_no_line_and_the_child_logs_on():
    end = """
child = os.fork()
log.info("%s is here.", "parent" if child else "child")
if child:
    assert os.waitpid(child, 0)[1] == 0
else:
    for number in range(100):
        log.info("child's %d.", number)
    logging.shutdown()
    os._exit(0)
"""
    # Python 3.12 warns of a fork beside a thread, and here that is the one that writes the lines.
    asked = "ignore:This process:DeprecationWarning"
    done = run_python(SCRIPT.format(end=end), options=("-W", asked), check=False)

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == len(set(lines)) == 500 + 2 + 100
    pids = {line.split("pid=")[1].split()[0] for line in lines}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids
