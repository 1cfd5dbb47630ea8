"""OpenTelemetry: spans of pushes and jobs, joined across Python and Ruby.

    from kiqbridge.contrib import opentelemetry

    opentelemetry.instrument(propagation="child")

The context travels as the propagator writes it, by default W3C's `traceparent`, `tracestate` and `baggage`, in the
payload beside `class` and `args`. Ruby's `opentelemetry-instrumentation-sidekiq` reads and writes the same.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, get_args

from opentelemetry import propagate, trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, Tracer, TracerProvider
from opentelemetry.trace.propagation import set_span_in_context

from kiqbridge.client.default_client import add_default_middleware, remove_default_middleware
from kiqbridge.client.middleware import AroundJob
from kiqbridge.client.server import server
from kiqbridge.errors import ConfigError

Propagation = Literal["link", "child", "none"]
"""How a job's span is related to that of its push: linked in a trace of its own, child in the same trace, not."""

__all__ = ["Instrumentation", "instrument"]

FLUSH_MS: Final = 2000
"""Milliseconds that the last spans of a process have to leave."""


class Instrumentation(AroundJob):
    """What `instrument` has added; `remove` takes it out again."""

    def __init__(self, provider: TracerProvider | None, propagation: Propagation) -> None:
        self._provider = provider
        self._propagation: Propagation = propagation
        self._resource = server.lifespan(self._flushed_at_end)
        add_default_middleware(self.around_push)
        server.client_middleware.add(self.around_push)
        server.middleware.prepend(self)

    def remove(self) -> None:
        """Make no more spans; does nothing when called again."""
        if self._resource in server.resources:
            server.resources.remove(self._resource)
        remove_default_middleware(self.around_push)
        server.client_middleware.remove(self.around_push)
        server.middleware.remove(self)

    def around_push(
        self,
        _job: Any,
        payload: dict[str, Any],
        queue: str,
        call_next: Callable[[], dict[str, Any] | None],
    ) -> dict[str, Any] | None:
        """Client middleware. A payload that carries a context already, as that of a retry, keeps it."""
        if any(payload.get(name) for name in propagate.get_global_textmap().fields):
            return call_next()
        with self._tracer.start_as_current_span(
            f"send {queue}", kind=SpanKind.PRODUCER, attributes=_attributes("send", payload, queue)
        ):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
            for name, value in carrier.items():
                payload.setdefault(name, value)
            return call_next()

    @property
    def _tracer(self) -> Tracer:
        from kiqbridge import __version__  # noqa: PLC0415 - a constant of the package

        return trace.get_tracer("kiqbridge", __version__, self._provider)

    @contextmanager
    def within(self, payload: dict[str, Any], queue: str) -> Iterator[trace.Span]:
        """The span of a job. An error of the job is recorded; an interruption is none."""
        carrier = {name: value for name, value in payload.items() if isinstance(value, str)}
        found = propagate.extract(carrier, context=Context())
        pushed_by = trace.get_current_span(found).get_span_context()
        links = []
        if self._propagation == "none":
            found = Context()
        elif self._propagation == "link":
            if pushed_by.is_valid:
                links = [Link(pushed_by)]
            found = set_span_in_context(INVALID_SPAN, found)  # baggage stays
        token = attach(found)  # the baggage, too
        try:
            with self._tracer.start_as_current_span(
                f"process {queue}",
                kind=SpanKind.CONSUMER,
                attributes=_attributes("process", payload, queue),
                links=links,
            ) as span:
                yield span
        finally:
            detach(token)

    @contextmanager
    def _flushed_at_end(self) -> Iterator[None]:
        """Open while a worker, or one of its child processes, runs."""
        yield
        flush = getattr(self._provider or trace.get_tracer_provider(), "force_flush", None)
        if flush is not None:
            flush(FLUSH_MS)


_installed: Instrumentation | None = None


def instrument(
    *, tracer_provider: TracerProvider | None = None, propagation: Propagation = "link"
) -> Instrumentation:
    """Make a span for each push of a declared job and for each job; called again it replaces the former call.

    Call it where the jobs are declared, so that workers, their child processes and enqueuing programs all
    do. A client of your own gets `client.middleware.add(instrumentation.around_push)`.

    Args:
        tracer_provider: default: the global one, looked up for each span.
        propagation: see `Propagation`; `link` is also the default of Ruby's instrumentation.

    Raises:
        ConfigError: there is no such propagation.
    """
    global _installed  # noqa: PLW0603 - one instrumentation for the process
    if propagation not in get_args(Propagation):
        raise ConfigError(
            f"propagation: {propagation!r} is not one of {', '.join(get_args(Propagation))}"
        )
    if _installed is not None:
        _installed.remove()
    _installed = Instrumentation(tracer_provider, propagation)
    return _installed


def _attributes(operation: str, payload: Mapping[str, Any], queue: str) -> dict[str, str | int]:
    """OpenTelemetry's conventions for messaging; the class as Ruby's instrumentation names it."""
    attributes: dict[str, str | int] = {
        "messaging.system": "sidekiq",
        "messaging.operation.type": operation,
        "messaging.operation.name": operation,
        "messaging.destination.name": queue,
        "messaging.message.id": str(payload.get("jid")),
        "messaging.sidekiq.job_class": str(payload.get("wrapped") or payload.get("class")),
    }
    count = payload.get("retry_count")
    if isinstance(count, int):
        attributes["messaging.sidekiq.retry_count"] = count
    return attributes
