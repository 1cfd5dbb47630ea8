"""Log lines in Sidekiq's manner."""

import io
import json
import logging
import os
import re
from pathlib import Path

import pytest

from kiqbridge.current import CONTEXT
from kiqbridge.job_logger import TID, JSONFormatter, LineFormatter, configure_logging

VECTORS = json.loads(
    (Path(__file__).parents[1] / "vectors" / "logs.json").read_text(encoding="utf-8")
)["operations"]
RUBY_7 = {each["formatter"]: each["lines"] for each in VECTORS if each["sidekiq"] == "7.3.10"}

PLAIN = {"class": "EchoJob", "jid": "a" * 24}
FULL = {
    "class": "Wrapper",
    "wrapped": "Inner::Job",
    "display_class": "Shown",
    "jid": "b" * 24,
    "bid": "b1d",
    "tags": ["x", "y"],
}


def exception_info(message):
    try:
        int(message)
    except ValueError as error:
        return ValueError, error, error.__traceback__


@pytest.fixture
def running():
    """Put a payload in place as the job that runs."""
    tokens = []

    def run(payload, queue="default"):
        tokens.append(CONTEXT.set((payload, queue)))

    yield run
    for token in reversed(tokens):
        CONTEXT.reset(token)


@pytest.fixture
def root():
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def record(message="start", level=logging.INFO, **extra):
    made = logging.makeLogRecord({"msg": message, "levelno": level, **extra})
    made.levelname = logging.getLevelName(level)
    made.created, made.msecs = 1_795_174_407.704, 704.0
    return made


def shape(line):
    """A line of theirs or ours without what varies: times, ids; and without our queue."""
    line = re.sub(r"\S+Z ", "TIME ", line)
    line = re.sub(r"pid=\d+ tid=\w+", "pid=P tid=T", line)
    return line.replace(" queue=default", "")


class TestLines:
    def test_a_line_is_time_process_thread_context_level_message(self, running):
        running(PLAIN)
        token = TID.set("a1")
        try:
            line = LineFormatter(colour=False).format(record())
        finally:
            TID.reset(token)

        assert line == (
            f"2026-11-20T11:33:27.704Z pid={os.getpid()} tid=a1 class=EchoJob "
            f"jid={'a' * 24} queue=default INFO: start"
        )

    @pytest.mark.parametrize(
        ("payload", "extra", "message", "index"),
        [
            (PLAIN, {}, "start", 0),
            (PLAIN, {"elapsed": 0.0}, "done", 1),
            (FULL, {}, "start", 2),
            (FULL, {"elapsed": 0.0}, "done", 3),
        ],
    )
    def test_ours_are_those_of_ruby_7_and_the_queue(self, running, payload, extra, message, index):
        running(payload)

        ours = LineFormatter(colour=False).format(record(message, **extra))

        assert shape(ours) == shape(RUBY_7["Pretty"][index])

    def test_outside_a_job_there_is_no_context(self):
        line = LineFormatter(colour=False).format(record("ready"))

        assert line.endswith(f"pid={os.getpid()} tid=main INFO: ready")

    @pytest.mark.parametrize(
        ("level", "name"),
        [(logging.DEBUG, "DEBUG"), (logging.WARNING, "WARN"), (logging.CRITICAL, "FATAL")],
    )
    def test_levels_have_sidekiqs_names(self, level, name):
        assert f" {name}: x" in LineFormatter(colour=False).format(record("x", level))

    def test_a_traceback_follows_below(self):
        line = LineFormatter(colour=False).format(record(exc_info=exception_info("boom")))

        assert line.splitlines()[-1].startswith("ValueError: ")
        assert line.splitlines()[-1].endswith("'boom'")

    def test_colours_are_around_the_level_only(self):
        line = LineFormatter(colour=True).format(record())

        assert line.endswith("\033[32mINFO\033[0m: start")


class TestJSON:
    @pytest.mark.parametrize(
        ("payload", "extra", "message", "index"),
        [(PLAIN, {}, "start", 0), (FULL, {"elapsed": 0.0}, "done", 3)],
    )
    def test_an_object_has_the_members_of_ruby_7_and_the_queue(
        self, running, payload, extra, message, index
    ):
        running(payload)

        ours = json.loads(JSONFormatter().format(record(message, **extra)))
        theirs = json.loads(RUBY_7["JSON"][index])

        assert list(ours) == list(theirs)
        assert ours["ctx"].pop("queue") == "default"
        assert list(ours["ctx"].items()) == list(theirs["ctx"].items())
        assert (ours["lvl"], ours["msg"]) == (theirs["lvl"], theirs["msg"])
        assert type(ours["pid"]) is int

    def test_outside_a_job_there_is_no_ctx(self):
        assert "ctx" not in json.loads(JSONFormatter().format(record()))

    def test_one_record_is_one_line_whatever_it_says(self):
        line = JSONFormatter().format(record("a\nb", exc_info=exception_info("boom")))

        assert "\n" not in line
        assert json.loads(line)["msg"] == "a\nb"
        assert json.loads(line)["exc"].endswith("'boom'")


class TestConfiguring:
    @pytest.mark.parametrize(
        ("level", "number"),
        [("debug", 10), ("info", 20), ("warn", 30), ("warning", 30), ("error", 40), ("fatal", 50)],
    )
    def test_a_level_may_have_its_ruby_name(self, root, level, number):
        configure_logging(level, "plain", io.StringIO())

        assert root.level == number

    def test_auto_is_json_where_nobody_watches(self, root):
        stream = io.StringIO()

        configure_logging("info", "auto", stream)
        logging.getLogger("some.library").info("hello")

        assert json.loads(stream.getvalue())["msg"] == "hello"

    def test_auto_is_pretty_on_a_terminal(self, root):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        stream = Terminal()

        configure_logging("info", "auto", stream)
        logging.getLogger("some.library").info("hello")

        assert "\033[32mINFO\033[0m: hello" in stream.getvalue()

    @pytest.mark.parametrize("form", ["plain", "json"])
    def test_a_message_that_utf8_cannot_carry_is_a_line_all_the_same(self, root, form):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)

        configure_logging("info", form, stream)
        logging.getLogger("some.library").info("bad \ud800 text")

        assert b"bad \\ud800 text" in raw.getvalue()
