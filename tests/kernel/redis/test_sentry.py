"""Errors and transactions of jobs, as the transport of Sentry's SDK gets them."""

import json
import warnings
from types import SimpleNamespace

import pytest
import sentry_sdk
from sentry_sdk.transport import Transport
from support.runners import make_runner

from kiqbridge import JobInterrupted, configure, job, redaction
from kiqbridge.client.default_client import (
    default_client,
    own_default_client,
    remove_default_middleware,
)
from kiqbridge.client.inline import perform
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import ProcessResources, server
from kiqbridge.contrib import sentry
from kiqbridge.contrib.sentry import KiqbridgeIntegration
from kiqbridge.engine.settle.error_report import Failure
from kiqbridge.errors import Shutdown

pytestmark = pytest.mark.any_server


@job(name="SentrySend", queue="mailers", retry=1)
def send(name: object) -> None:
    sentry_sdk.add_breadcrumb(message=f"sends to {name}")
    if name == "fail":
        raise LookupError("nobody")
    if name == "interrupt":
        raise JobInterrupted
    if name == "end":
        raise Shutdown
    if name == "chain":
        send.perform_async("next")


@job(name="SentrySendInBackground", queue="mailers")
async def send_in_background(name: str) -> None:
    raise LookupError("nobody")


class Captured(Transport):
    """Keeps what would be sent."""

    def __init__(self):
        super().__init__()
        self.items = []
        self.flushed = []

    def capture_envelope(self, envelope):
        for item in envelope.items:
            self.items.append((item.type, item.payload.json))

    def flush(self, timeout, callback=None):
        self.flushed.append(timeout)

    def of(self, kind):
        return [content for found, content in self.items if found == kind]

    @property
    def errors(self):
        return self.of("event")

    @property
    def transactions(self):
        return self.of("transaction")


@pytest.fixture
def start(redis_url):
    """`sentry_sdk.init` with the integration and these options; nothing of it stays."""
    lists = [server.error_handlers, server.death_handlers, server.resources]
    before = [list(each) for each in lists]
    transport = Captured()

    def init(*, send_default_pii=None, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the option is, not what it means
            init_sdk(options, send_default_pii=send_default_pii)
        if sentry.around_job not in list(server.middleware):  # the SDK sets up once in a process
            KiqbridgeIntegration.setup_once()
        return transport

    def init_sdk(options, **sdk_options):
        sentry_sdk.init(
            dsn="https://key@sentry.invalid/1",
            transport=transport,
            default_integrations=False,
            auto_enabling_integrations=False,
            traces_sample_rate=1.0,
            integrations=[KiqbridgeIntegration(**options)],
            **sdk_options,
        )

    with own_default_client():
        client = configure(redis_url)
        yield init
        client.close()
        remove_default_middleware(sentry.around_push)
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)
    server.middleware.remove(sentry.around_job)
    server.client_middleware.remove(sentry.around_push)
    for each, entries in zip(lists, before, strict=True):
        each[:] = entries


def run(*args, job_class="SentrySend", **attributes):
    item = {"class": job_class, "args": list(args), "queue": "mailers", "jid": "j1", **attributes}
    item.setdefault(sentry.HEADERS, {})  # as if it had been pushed outside of any trace
    return perform(default_client(), item)


def settle(*args, job_class="SentrySend", **attributes):
    """As a worker runs it, with its handlers."""
    runner = make_runner(default_registry, middleware=server.middleware, server=server)
    payload = {
        "class": job_class,
        "args": list(args),
        "queue": "mailers",
        "jid": "j1",
        **attributes,
    }
    thread = SimpleNamespace(performing=False, interrupted=False)
    settlement = runner.run(json.dumps(payload).encode(), "mailers", thread)
    if settlement.notify is not None:
        settlement.notify()


@pytest.mark.parametrize("name", ["SentrySend", "SentrySendInBackground"])
def test_an_error_is_reported_once_with_its_job(start, name):
    captured = start()

    with pytest.raises(LookupError):
        run("fail", job_class=name, retry_count=1)

    [event] = captured.errors
    assert event["contexts"]["kiqbridge"] == {
        "class": name, "jid": "j1", "queue": "mailers", "retry_count": 2,
    }  # fmt: skip
    assert event["tags"] == {"jid": "j1", "queue": "mailers"}
    assert event["transaction"] == name
    error = event["exception"]["values"][-1]
    assert (error["type"], error["value"]) == ("LookupError", "nobody")
    assert error["mechanism"] == {"type": "kiqbridge", "handled": False}


def test_each_job_has_breadcrumbs_and_a_transaction_of_its_own(start):
    captured = start()

    run("Ada")
    with pytest.raises(LookupError):
        run("fail")

    first, second = captured.transactions
    assert first["transaction"] == second["transaction"] == "SentrySend"
    assert first["contexts"]["trace"]["op"] == "queue.process"
    assert first["contexts"]["trace"]["data"]["messaging.destination.name"] == "mailers"
    assert second["contexts"]["trace"]["status"] == "internal_error"
    assert first["contexts"]["trace"]["trace_id"] != second["contexts"]["trace"]["trace_id"]
    [event] = captured.errors
    assert [each["message"] for each in event["breadcrumbs"]["values"]] == ["sends to fail"]


@pytest.mark.parametrize("error", [JobInterrupted, Shutdown])
def test_what_is_no_error_is_not_reported(start, error):
    captured = start()

    with pytest.raises(error):
        run("interrupt" if error is JobInterrupted else "end")

    [transaction] = captured.transactions
    assert transaction["contexts"]["trace"]["status"] == "cancelled"
    assert captured.errors == []


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, False),
        ({"send_default_pii": True}, True),
        ({"send_arguments": True}, True),
        ({"send_default_pii": True, "send_arguments": False}, False),
    ],
)
def test_arguments_are_sent_only_where_that_is_asked_for(start, options, sent):
    captured = start(**options)

    with pytest.raises(LookupError):
        run("fail", retry=False)

    [event] = captured.errors
    assert event["contexts"]["kiqbridge"].get("args") == (["fail"] if sent else None)


def test_the_worker_does_not_report_it_again(start):
    captured = start()

    settle("fail")

    assert len(captured.errors) == 1


def test_what_fails_outside_of_the_middleware_is_reported_too_without_secrets(start):
    captured = start(send_arguments=True)

    settle({"password": "hunter2"}, job_class="SentryUnknown")

    [event] = captured.errors
    assert event["contexts"]["kiqbridge"]["class"] == "SentryUnknown"
    assert event["contexts"]["kiqbridge"]["args"] == [{"password": redaction.HIDDEN}]
    assert "hunter2" not in json.dumps(event["contexts"])
    assert event["exception"]["values"][0]["type"] == "JobNotFound"
    assert event["tags"]["kiqbridge.context"] == "a job raised an error"


def test_an_error_of_a_child_process_was_reported_there(start):
    captured = start()
    stand_in = Failure(
        error_class="LookupError", message="nobody", backtrace=[], mro=["builtins:LookupError"],
        traceback="",
    ).stand_in()  # fmt: skip

    sentry.report_error(stand_in, {"context": "a job raised an error", "job": {}})
    sentry.report_error(LookupError("ours"), {"context": "internal error", "jobstr": b""})

    [event] = captured.errors
    assert event["exception"]["values"][0]["value"] == "ours"


def test_deaths_alone_are_reported_where_that_is_asked_for(start):
    captured = start(only_deaths=True)

    settle("fail", retry=1)
    assert captured.errors == []
    settle("fail", retry=1, retry_count=0)

    [event] = captured.errors
    assert event["contexts"]["kiqbridge"]["class"] == "SentrySend"
    assert event["exception"]["values"][0]["value"] == "nobody"


def test_the_trace_of_a_push_goes_on_in_its_job(start, redis):
    captured = start()
    with sentry_sdk.start_transaction(name="request"):
        send.perform_async("Ada")

    [payload] = [json.loads(text) for text in redis.lrange("queue:mailers", 0, -1)]
    assert set(payload[sentry.HEADERS]) == {"sentry-trace", "baggage"}
    perform(default_client(), payload)

    request, performed = captured.transactions
    assert performed["contexts"]["trace"]["trace_id"] == request["contexts"]["trace"]["trace_id"]
    assert (
        performed["contexts"]["trace"]["parent_span_id"] in payload[sentry.HEADERS]["sentry-trace"]
    )


def test_it_need_not(start, redis):
    start(propagate_traces=False)
    with sentry_sdk.start_transaction(name="request"):
        send.perform_async("Ada")

    assert sentry.HEADERS.encode() not in redis.lindex("queue:mailers", 0)


@pytest.mark.parametrize("headers", ["rubbish", {"sentry-trace": "rubbish"}, None])
def test_a_payload_with_wrong_headers_is_performed(start, headers):
    captured = start()

    run("Ada", trace_propagation_headers=headers)

    assert len(captured.transactions) == 1


def test_without_the_integration_nothing_happens(start, redis):
    captured = start()
    sentry_sdk.init(transport=captured, default_integrations=False)

    run("Ada")
    send.perform_async("Ada")
    settle("fail")

    assert captured.items == []
    assert sentry.HEADERS.encode() not in redis.lindex("queue:mailers", 0)


def test_the_last_events_leave_when_a_worker_or_its_child_closes_its_resources(start):
    captured = start()
    resources = ProcessResources(server.resources)
    resources.open()
    captured.flushed.clear()

    resources.close()

    assert captured.flushed == [sentry.FLUSH_S]
