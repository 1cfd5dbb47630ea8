"""Spans of pushes and jobs, as the SDK's exporter gets them."""

import json
import re

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from kiqbridge import ConfigError, JobInterrupted, configure, job
from kiqbridge.client.default_client import default_client, own_default_client
from kiqbridge.client.inline import perform
from kiqbridge.client.middleware import Chain
from kiqbridge.client.prepare import prepare_moved
from kiqbridge.client.server import ProcessResources, server
from kiqbridge.contrib.opentelemetry import instrument

pytestmark = pytest.mark.any_server

FROM_RUBY = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
seen = {}


@job(name="OtelSend", queue="mailers")
def send(name: str) -> None:
    seen["span"] = trace.get_current_span().get_span_context()
    seen["tenant"] = baggage.get_baggage("tenant")
    if name == "fail":
        raise LookupError("nobody")
    if name == "interrupt":
        raise JobInterrupted
    if name == "chain":
        send.perform_async("next")


@job(name="OtelSendInBackground", queue="mailers")
async def send_in_background(name: str) -> None:
    seen["span"] = trace.get_current_span().get_span_context()
    if name == "fail":
        raise LookupError("nobody")


@pytest.fixture
def spans():
    return InMemorySpanExporter()


@pytest.fixture
def provider(spans):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return provider


@pytest.fixture
def instrumented(provider, redis_url):
    """`instrument` with this propagation; taken out again at the end."""
    made = []

    def start(propagation="link"):
        made.append(instrument(tracer_provider=provider, propagation=propagation))
        return made[-1]

    with own_default_client():
        client = configure(redis_url)
        yield start
        client.close()
        if made:
            made[-1].remove()
    assert list(server.middleware) == []
    assert server.resources == []


def pushed(redis):
    return [json.loads(text) for text in reversed(redis.lrange("queue:mailers", 0, -1))]


def run(payload):
    """As a worker runs it: the payload has been pushed before."""
    return perform(default_client(), {"queue": "mailers", **payload})


def test_a_push_is_a_span_whose_context_is_in_the_payload(instrumented, spans, redis):
    instrumented()

    jid = send.perform_async("Ada")

    [span] = spans.get_finished_spans()
    [payload] = pushed(redis)
    context = span.get_span_context()
    assert (span.name, span.kind) == ("send mailers", SpanKind.PRODUCER)
    wanted = f"00-{context.trace_id:032x}-{context.span_id:016x}-"
    assert payload["traceparent"].startswith(wanted)
    assert dict(span.attributes) == {
        "messaging.system": "sidekiq",
        "messaging.operation.type": "send",
        "messaging.operation.name": "send",
        "messaging.destination.name": "mailers",
        "messaging.message.id": jid,
        "messaging.sidekiq.job_class": "OtelSend",
    }


def test_a_job_that_ruby_pushed_is_a_child_of_its_span(instrumented, spans):
    instrumented("child")

    run({"class": "OtelSend", "args": ["Ada"], "traceparent": FROM_RUBY, "retry_count": 1})

    [span] = spans.get_finished_spans()
    assert (span.name, span.kind) == ("process mailers", SpanKind.CONSUMER)
    assert f"00-{span.context.trace_id:032x}-{span.parent.span_id:016x}-01" == FROM_RUBY
    assert span.attributes["messaging.sidekiq.retry_count"] == 1
    assert seen["span"].span_id == span.context.span_id


def test_a_link_begins_a_trace_of_its_own(instrumented, spans):
    instrumented("link")

    run({"class": "OtelSend", "args": ["Ada"], "traceparent": FROM_RUBY})

    [span] = spans.get_finished_spans()
    [link] = span.links
    assert f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-01" == FROM_RUBY
    assert span.parent is None and span.context.trace_id != link.context.trace_id


@pytest.mark.parametrize("payload", [{"traceparent": FROM_RUBY}, {"traceparent": "rubbish"}])
def test_without_a_relation_it_stands_alone(instrumented, spans, payload):
    instrumented("none")

    run({"class": "OtelSend", "args": ["Ada"], **payload})

    [span] = spans.get_finished_spans()
    assert span.parent is None and not span.links


def test_a_payload_without_a_context_or_with_a_wrong_one_is_performed(instrumented, spans):
    instrumented("child")
    for traceparent in ("rubbish", 7, None):
        run({"class": "OtelSend", "args": ["Ada"], "traceparent": traceparent, "tracestate": []})

    processed = [span for span in spans.get_finished_spans() if span.kind == SpanKind.CONSUMER]
    assert len(processed) == 3


def test_an_asynchronous_job_has_a_span_of_its_own(instrumented, spans):
    instrumented("child")

    run({"class": "OtelSendInBackground", "args": ["Ada"], "traceparent": FROM_RUBY})

    [span] = spans.get_finished_spans()
    assert seen["span"].span_id == span.context.span_id
    assert f"{span.context.trace_id:032x}" in FROM_RUBY


@pytest.mark.parametrize("name", ["OtelSend", "OtelSendInBackground"])
def test_an_error_is_recorded(instrumented, spans, name):
    instrumented()

    with pytest.raises(LookupError):
        run({"class": name, "args": ["fail"], "traceparent": FROM_RUBY})

    [span] = spans.get_finished_spans()
    [event] = span.events
    assert span.status.status_code is StatusCode.ERROR
    assert event.attributes["exception.type"] == "LookupError"


def test_an_interruption_is_no_error(instrumented, spans):
    instrumented()

    with pytest.raises(JobInterrupted):
        run({"class": "OtelSend", "args": ["interrupt"], "traceparent": FROM_RUBY})

    [span] = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.UNSET and not span.events


def test_what_a_job_pushes_belongs_to_its_trace(instrumented, spans, redis):
    instrumented("child")

    run({"class": "OtelSend", "args": ["chain"], "traceparent": FROM_RUBY})

    [payload] = pushed(redis)
    child, parent = spans.get_finished_spans()
    assert re.match(
        rf"00-{parent.context.trace_id:032x}-{child.context.span_id:016x}-", payload["traceparent"]
    )
    assert child.parent.span_id == parent.context.span_id


def test_a_job_that_is_moved_or_tried_again_keeps_its_context(instrumented, spans, client):
    instrumentation = instrumented()
    client.middleware.add(instrumentation.around_push)
    payload = {
        "class": "OtelSend",
        "args": [],
        "queue": "mailers",
        "jid": "a" * 24,
        "traceparent": FROM_RUBY,
    }

    _queue, text = prepare_moved(
        payload, 1e9, client.middleware, client.wire_profile, json.dumps(payload).encode()
    )

    assert json.loads(text)["traceparent"] == FROM_RUBY
    assert not spans.get_finished_spans()


@pytest.mark.parametrize(("propagation", "tenant"), [("child", "a"), ("link", "a"), ("none", None)])
def test_baggage_travels_with_the_context(instrumented, redis, propagation, tenant):
    instrumented(propagation)
    token = attach(baggage.set_baggage("tenant", "a"))
    try:
        send.perform_async("Ada")
    finally:
        detach(token)

    [payload] = pushed(redis)
    assert payload["baggage"] == "tenant=a"
    run(payload)
    assert seen["tenant"] == tenant


def test_the_last_spans_leave_when_a_worker_or_its_child_closes_its_resources(spans, redis_url):
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(spans, schedule_delay_millis=3_600_000))
    instrumentation = instrument(tracer_provider=provider)
    try:
        resources = ProcessResources(server.resources)
        resources.open()
        Chain(*server.middleware).invoke((None, {"class": "A", "jid": "1"}, "low"), lambda: None)
        assert not spans.get_finished_spans()

        resources.close()

        assert [span.name for span in spans.get_finished_spans()] == ["process low"]
    finally:
        instrumentation.remove()
        provider.shutdown()


def test_the_last_call_counts_and_a_wrong_propagation_is_refused(instrumented, spans):
    instrumented("none")
    instrumented("child")
    with pytest.raises(ConfigError, match="'parent' is not one of link, child, none"):
        instrument(propagation="parent")

    run({"class": "OtelSend", "args": ["Ada"], "traceparent": FROM_RUBY})

    [span] = spans.get_finished_spans()
    assert span.parent is not None
