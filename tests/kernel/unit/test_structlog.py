"""structlog within jobs: what is bound, and lines in the form of our own log."""

import io
import json
import sys

import pytest
import structlog
from structlog.contextvars import get_contextvars, merge_contextvars

from kiqbridge import job, redaction
from kiqbridge.client.client import Client
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.inline import perform
from kiqbridge.client.server import server
from kiqbridge.contrib.structlog import bound_job, install, render_json

bound = []


@job(name="StructlogSend", queue="mailers")
def send() -> None:
    bound.append(get_contextvars())
    structlog.get_logger().info("sent", to="Ada")


@job(name="StructlogSendInBackground", queue="mailers")
async def send_in_background() -> None:
    bound.append(get_contextvars())


@pytest.fixture
def installed():
    bound.clear()
    install()
    install()
    yield
    server.middleware.remove(bound_job)


@pytest.fixture
def output():
    stream = io.StringIO()
    structlog.configure(
        processors=[merge_contextvars, structlog.processors.add_log_level, render_json],
        logger_factory=structlog.PrintLoggerFactory(stream),
    )
    yield stream
    structlog.reset_defaults()


def run(name):
    perform(
        Client("redis://unused.invalid"),
        {"class": name, "args": [], "jid": "a1", "queue": "mailers"},
    )


@pytest.mark.parametrize("name", ["StructlogSend", "StructlogSendInBackground"])
def test_a_job_is_bound_while_it_runs_and_an_event_has_the_form_of_our_lines(
    installed, output, name
):
    run(name)
    assert bound == [{"class": name, "jid": "a1", "queue": "mailers"}]
    assert get_contextvars() == {}
    assert list(server.middleware).count(bound_job) == 1
    if name == "StructlogSend":
        line = json.loads(output.getvalue())
        assert list(line) == ["ts", "pid", "tid", "lvl", "msg", "ctx"]
        assert (line["lvl"], line["msg"]) == ("INFO", "sent")
        assert line["ctx"] == {**bound[0], "to": "Ada"}


def test_the_running_job_is_in_it_also_without_the_middleware():
    token = CONTEXT.set(({"class": "A", "jid": "1"}, "low"))
    try:
        line = json.loads(render_json(None, "warning", {"event": "slow", "timestamp": "ignored"}))
    finally:
        CONTEXT.reset(token)

    assert (line["lvl"], line["ctx"]) == ("WARN", {"class": "A", "jid": "1", "queue": "low"})


def test_an_exception_is_its_last_member():
    def fail():
        raise LookupError("nobody")

    def lines():
        try:
            fail()
        except LookupError as error:
            for given in (True, error, sys.exc_info()):
                yield render_json(None, "exception", {"event": "lost", "exc_info": given})

    for text in lines():
        line = json.loads(text)
        assert line["lvl"] == "ERROR" and "ctx" not in line
        assert line["exc"].rstrip().endswith("LookupError: nobody")
    assert "exc" not in json.loads(render_json(None, "info", {"event": "x", "exc_info": False}))


def test_secrets_are_hidden_and_values_without_json_are_written_as_text():
    line = json.loads(
        render_json(None, "info", {"event": "x", "password": "hunter2", "path": object})
    )

    assert line["ctx"]["password"] == redaction.HIDDEN
    assert "object" in line["ctx"]["path"]
