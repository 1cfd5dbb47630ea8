"""Log lines in Sidekiq's manner."""

import asyncio
import io
import json
import logging
import os
import re
import threading

import pytest
from support.jobs import at_level, own_declarations

from kiqbridge import job, log_context
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.registry import definition_of
from kiqbridge.engine.perform.job_logger import (
    TID,
    JobLines,
    JSONFormatter,
    LineFormatter,
    configure_logging,
)
from kiqbridge.engine.settle.notifications import log_failure
from kiqbridge.errors import JobTimeout
from kiqbridge.runtime.logs import handler_guard

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
    def perform():
        raise ValueError(message)

    try:
        perform()
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

    def test_a_line_has_sidekiqs_level_its_traceback_below_and_no_context_outside_a_job(self):
        plain = LineFormatter(colour=False).format
        assert plain(record("ready")).endswith(f"pid={os.getpid()} tid=main INFO: ready")
        for level, name in (("DEBUG", "DEBUG"), ("WARNING", "WARN"), ("CRITICAL", "FATAL")):
            assert f" {name}: x" in plain(record("x", getattr(logging, level)))
        last = plain(record(exc_info=exception_info("boom"))).splitlines()[-1]
        assert last.startswith("ValueError: ") and last.endswith("boom")
        coloured = LineFormatter(colour=True).format(record())
        assert coloured.endswith("\033[32mINFO\033[0m: start")


class TestJSON:
    def test_one_record_is_one_line_whatever_it_says(self):
        line = JSONFormatter().format(record("a\nb", exc_info=exception_info("boom")))
        told = json.loads(line)
        assert "\n" not in line
        assert told["msg"] == "a\nb" and told["exc"].endswith("boom")
        assert "ctx" not in told  # outside a job


class TestConfiguring:
    @pytest.mark.parametrize("watched", [True, False])
    def test_auto_is_pretty_on_a_terminal_and_else_json(self, root, monkeypatch, watched):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: watched)
        configure_logging("info", "auto", stream)
        logging.getLogger("some.library").info("hello")
        if watched:
            assert "\033[32mINFO\033[0m: hello" in stream.getvalue()
        else:
            assert json.loads(stream.getvalue())["msg"] == "hello"

    @pytest.mark.parametrize("form", ["plain", "json"])
    def test_a_message_that_utf8_cannot_carry_is_a_line_all_the_same(self, root, form):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding="utf-8", write_through=True)

        configure_logging("info", form, stream)
        logging.getLogger("some.library").info("bad \ud800 text")

        assert b"bad \\ud800 text" in raw.getvalue()


@pytest.fixture
def said(root):
    """Configure as a worker does, and the lines so far."""
    stream = io.StringIO()

    def lines():
        root.handlers[0].flush()
        return stream.getvalue().split("\n")[:-1]  # splitlines() would split at U+2028 as well

    def configure(form, level="info", **options):
        configure_logging(level, form, stream, **options)
        return lines

    yield configure
    for handler in root.handlers:
        handler.close()


class Listener(logging.Handler):
    """Of somebody else, such as a service that collects errors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


class TestLinesOfJobs:
    PAYLOADS = (
        PLAIN,
        FULL,
        {"class": "A", "jid": 'quote " and \\ \u2028 é'},
        {"class": 'Odd"Class\n', "jid": None, "bid": 5},
        {"class": None, "jid": 12, "tags": "x"},
        {"class": "A", "jid": "j", "tags": [1, None, {"a": "b"}]},
        {},
    )

    @pytest.mark.parametrize("form", ["json", "plain", "pretty"])
    @pytest.mark.parametrize("payload", PAYLOADS, ids=str)
    def test_the_short_way_writes_what_the_logging_module_would(
        self, said, running, root, form, payload
    ):
        lines = said(form)
        running(payload, 'queue "1"')
        job_lines = JobLines()

        job_lines.end(job_lines.start(payload, 'queue "1"'), "done", 0.01234)
        listener = Listener()
        root.addHandler(listener)  # from now on there are two
        job_lines.end(job_lines.start(payload, 'queue "1"'), "done", 0.01234)

        assert len(listener.records) == 2
        timeless = [re.sub(r"\d{4}-\S+?Z", "TIME", line) for line in lines()]
        assert len(timeless) == 4
        assert timeless[:2] == timeless[2:]
        assert "0.012" in timeless[1]

    def test_whoever_else_listens_gets_records(self, said, running):
        lines = said("plain")
        listener = Listener()
        logging.getLogger("kiqbridge").addHandler(listener)
        running(PLAIN)
        try:
            JobLines().start(PLAIN, "default")
        finally:
            logging.getLogger("kiqbridge").removeHandler(listener)

        assert [record.getMessage() for record in listener.records] == ["start"]
        assert len(lines()) == 1

    def test_own_attributes_are_carried_in_place_of_bid_and_tags(self, said, running):
        lines = said("json", attributes=("tenant", "cattr"))
        payload = {**FULL, "tenant": "acme", "cattr": {"user": 1, "api_token": "t"}}
        running(payload)

        JobLines().start(payload, "default")
        logging.getLogger("app").info("within")

        for line in map(json.loads, lines()):
            assert list(line["ctx"]) == ["class", "jid", "queue", "tenant", "cattr"]
            assert line["ctx"]["cattr"] == {"user": 1, "api_token": "[REDACTED]"}

    def test_setting_payload_class_and_level_can_leave_them_out(self, said, running):
        lines = said("plain")
        running(PLAIN)
        with own_declarations():

            @job(name="EchoJob", skip_default_job_logging=True)
            def echo(): ...

            assert JobLines().start(PLAIN, "default", definition_of(echo)) is None
        job_lines = JobLines(skip=True)
        job_lines.end(job_lines.start(PLAIN, "default"), "done", 0.1)
        payload = PLAIN | {"skip_default_job_logging": True}
        JobLines().end(JobLines().start(payload, "default"), "done", 0.1)
        logging.getLogger("app").info("the job's own")
        assert [line.rpartition(": ")[2] for line in lines()] == ["the job's own"]
        lines = said("plain", "warn")
        assert JobLines().start(PLAIN, "default") is None

    def test_the_level_of_one_job_does_not_show_the_lines_of_another(self, said, running):
        lines = said("plain", "warn")
        running(PLAIN)
        job_lines = JobLines()
        begun, over = threading.Event(), threading.Event()

        def other():
            with at_level(logging.INFO):
                job_lines.start(PLAIN, "default")
                begun.set()
                over.wait(5)

        thread = threading.Thread(target=other)
        thread.start()
        assert begun.wait(5)
        job_lines.end(job_lines.start(PLAIN, "default"), "done", 0.1)
        over.set()
        thread.join()
        assert len(lines()) == 1

    def test_at_debug_the_start_shows_the_arguments_without_secrets(self, said, running):
        lines = said("json", "debug")
        payload = PLAIN | {"args": [5, "hunter2", {"token": "t", "n": 1}]}
        running(payload)
        with own_declarations():

            @job(name="EchoJob")
            def echo(user, password, options): ...

            job_lines = JobLines()
            token = job_lines.start(payload, "default", definition_of(echo))
            job_lines.end(token, "done", 0.1)

        start, done = map(json.loads, lines())
        assert start["ctx"]["args"] == [5, "[REDACTED]", {"token": "[REDACTED]", "n": 1}]
        assert "args" not in done["ctx"]

    def test_a_line_break_in_a_payload_makes_no_line_and_heroku_adds_the_time(self, said, running):
        lines = said("plain", environ={"DYNO": "worker.1"})
        payload = {"class": "A\n2026 forged", "jid": "j\r\n2026 forged"}
        running(payload)
        JobLines().start(payload, "default")
        logging.getLogger("app").info("within")
        assert len(lines()) == 2
        assert all(line.startswith("pid=") for line in lines())


class TestFailures:
    def fail(self, payload, definition=None, message="boom"):
        _, error, _ = exception_info(message)
        log_failure(error, "is tried again in 15 s", payload, definition)

    def test_a_failure_is_told_with_its_backtrace_also_where_a_job_wants_silence(
        self, said, running
    ):
        lines = said("plain")
        running(PLAIN | {"args": ["shown?"]})
        with at_level(logging.CRITICAL):
            self.fail(PLAIN | {"args": ["shown?"]})
        text = "\n".join(lines())
        told = f"class=EchoJob jid={'a' * 24} queue=default WARN: ValueError: boom; it is tried"
        assert told in text and "Traceback" in text
        assert "shown?" not in text

    def test_at_debug_it_shows_the_arguments_without_secrets(self, said, running):
        lines = said("json", "debug")
        payload = PLAIN | {"args": [{"password": "hunter2", "n": 1}]}
        running(payload)

        self.fail(payload)

        assert json.loads(lines()[0])["ctx"]["args"] == [{"password": "[REDACTED]", "n": 1}]

    def test_a_message_is_cut_to_its_first_line_and_shows_no_password(self, said, running):
        lines = said("json")
        running(PLAIN)
        self.fail(PLAIN, message="at redis://user:hunter2@host:6379/0\nsecond " + "x" * 5000)
        assert "hunter2" not in lines()[0]
        entry = json.loads(lines()[0])
        told = "ValueError: at redis://user:***@host:6379/0; it is tried again in 15 s"
        assert entry["msg"] == told
        assert "second xxx" in entry["exc"]


class TestLogContext:
    def test_keys_are_on_every_line_within(self, said, running):
        lines = said("json")
        running(PLAIN)

        with log_context(order_id=5):
            with log_context(step="pay", token="t"):
                logging.getLogger("app").info("in")
            logging.getLogger("app").info("between")
        logging.getLogger("app").info("out")

        contexts = [json.loads(line)["ctx"] for line in lines()]
        assert [list(context)[3:] for context in contexts] == [
            ["order_id", "step", "token"],
            ["order_id"],
            [],
        ]
        assert contexts[0]["order_id"] == 5
        assert contexts[0]["token"] == "[REDACTED]"

    def test_it_decorates_a_function_outside_a_job_and_in_plain_lines_too(self, said):
        lines = said("plain")

        @log_context(order_id=5)
        def run():
            logging.getLogger("app").info("hello")

        run()
        run()
        assert len(lines()) == 2
        assert all(line.endswith("tid=main order_id=5 INFO: hello") for line in lines())

    def test_it_is_on_the_lines_of_a_job_that_runs_within(self, said, running):
        lines = said("json")
        running(PLAIN)

        with log_context(order_id=5):
            job_lines = JobLines()
            job_lines.end(job_lines.start(PLAIN, "default"), "done", 0.1)

        assert [json.loads(line)["ctx"]["order_id"] for line in lines()] == [5, 5]

    def test_tasks_have_each_their_own(self, said):
        lines = said("plain")

        async def one(number):
            with log_context(number=number):
                await asyncio.sleep(0)
                logging.getLogger("app").info("task %d", number)

        async def run():
            await asyncio.gather(*(one(number) for number in range(5)))

        asyncio.run(run())

        for line in lines():
            number, told = re.search(r"number=(\d) INFO: task (\d)", line).groups()
            assert number == told


class TestRaisingHandlers:
    """What a handler or filter raises leaves no log call, and the other handlers get the record."""

    @pytest.fixture
    def log(self, monkeypatch):
        for name in ("handle", "callHandlers"):
            monkeypatch.setattr(logging.Logger, name, getattr(logging.Logger, name))
        monkeypatch.setattr(handler_guard, "_report_at", {})
        handler_guard.guard_handlers()
        log = logging.getLogger("raising")
        yield log
        log.handlers.clear()
        log.filters.clear()

    def test_it_is_reported_once_in_a_while_on_standard_error(self, log, caplog, capfd):
        class Broken(logging.Handler):
            def emit(self, record):
                raise ConnectionError("away, redis://:secret@host")

        log.addHandler(Broken())
        for number in range(3):
            log.warning("line %d", number)

        assert [each.message for each in caplog.records] == ["line 0", "line 1", "line 2"]
        err = capfd.readouterr().err
        assert err.count("Broken raises ConnectionError: away") == 1
        assert "secret" not in err

    def test_a_filter_counts_too(self, log, caplog, capfd):
        log.addFilter(lambda _record: 1 // 0)
        log.warning("line")
        assert "logger raising raises ZeroDivisionError" in capfd.readouterr().err
        assert not caplog.records

    def test_a_limit_that_ends_the_job_within_a_handler_ends_it(self, log):
        def interrupted(_record):
            raise JobTimeout

        handler = logging.NullHandler()
        handler.handle = interrupted
        log.addHandler(handler)
        with pytest.raises(JobTimeout):
            log.warning("line")
