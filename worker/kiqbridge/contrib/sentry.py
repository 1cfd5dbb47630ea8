"""Sentry: errors of jobs, and a transaction for each job.

    import sentry_sdk
    from kiqbridge.contrib.sentry import KiqbridgeIntegration

    sentry_sdk.init(dsn="…", integrations=[KiqbridgeIntegration()])

Call it where the jobs are declared, so that workers and their child processes do. The trace of a push goes
on in its job by the attribute `trace_propagation_headers`, as that of Ruby's `sentry-sidekiq` does.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

import sentry_sdk
from sentry_sdk.integrations import Integration
from sentry_sdk.scope import should_send_default_pii
from sentry_sdk.utils import event_from_exception

from kiqbridge.client import middleware
from kiqbridge.client.default_client import add_default_middleware
from kiqbridge.client.server import server
from kiqbridge.engine.settle.error_report import failure_of
from kiqbridge.runtime import redaction
from kiqbridge.wire.payload import retries_of

__all__ = ["KiqbridgeIntegration"]

HEADERS: Final = "trace_propagation_headers"
"""Attribute of a payload: an object with `sentry-trace` and `baggage`."""

FLUSH_S: Final = 2.0
"""Seconds that the last events of a process have to leave."""

_OP: Final = "queue.process"
_ORIGIN: Final = "auto.queue.kiqbridge"


class KiqbridgeIntegration(Integration):
    """Reports errors of jobs.

    `Shutdown` and `JobInterrupted` are no errors and are never reported.

    Args:
        only_deaths: report a job when it is given up, not each failure before its retries.
        propagate_traces: let the trace of a push go on in the job.
        send_arguments: send the job's arguments, those with secret names hidden; None = where the SDK's option
            `send_default_pii` is set.
    """

    identifier = "kiqbridge"
    origin = _ORIGIN

    def __init__(
        self,
        *,
        only_deaths: bool = False,
        propagate_traces: bool = True,
        send_arguments: bool | None = None,
    ) -> None:
        self.only_deaths = only_deaths
        self.propagate_traces = propagate_traces
        self._send_arguments = send_arguments

    @property
    def sends_arguments(self) -> bool:
        """Whether events carry the arguments of their job."""
        return should_send_default_pii() if self._send_arguments is None else self._send_arguments

    @staticmethod
    def setup_once() -> None:
        """Called by the SDK, once in a process."""
        server.middleware.prepend(around_job)
        server.client_middleware.add(around_push)
        add_default_middleware(around_push)
        server.error_handler(report_error)
        server.death_handler(report_death)
        server.lifespan(flushed_at_end)


def around_push(
    _job: Any, payload: dict[str, Any], _queue: str, call_next: Callable[[], dict[str, Any] | None]
) -> dict[str, Any] | None:
    """Client middleware; a payload that has headers, as that of a retry, keeps them."""
    integration = _current()
    if integration is not None and integration.propagate_traces and HEADERS not in payload:
        headers = {
            "sentry-trace": sentry_sdk.get_traceparent(),
            "baggage": sentry_sdk.get_baggage(),
        }
        if headers["sentry-trace"]:
            payload[HEADERS] = {name: value for name, value in headers.items() if value}
    return call_next()


class AroundJob(middleware.AroundJob):
    """Server middleware: a scope and a transaction for each job."""

    def within(self, payload: dict[str, Any], queue: str) -> AbstractContextManager[None]:
        """Within them, if the integration is active here."""
        integration = _current()
        return nullcontext() if integration is None else _scope(integration, payload, queue)


around_job: Final = AroundJob()


def report_error(error: BaseException, context: Mapping[str, Any]) -> None:
    """Error handler: what happened outside of the middleware, such as an unknown class, or a job's child that died."""
    integration = _current()
    if integration is None or integration.only_deaths or not isinstance(error, Exception):
        return
    if getattr(error, _REPORTED, False) or failure_of(error) is not None:
        return  # reported where it was raised, here or in a child process
    payload = context.get("job")
    with sentry_sdk.isolation_scope() as scope:
        if isinstance(payload, Mapping):
            _describe(integration, scope, payload, str(payload.get("queue")))
        scope.set_tag("kiqbridge.context", str(context.get("context")))
        _capture(error, handled=True)


def report_death(payload: Mapping[str, Any], error: BaseException) -> None:
    """Death handler, for `only_deaths`."""
    integration = _current()
    if integration is None or not integration.only_deaths or not isinstance(error, Exception):
        return
    with sentry_sdk.isolation_scope() as scope:
        _describe(integration, scope, payload, str(payload.get("queue")))
        _capture(error, handled=True)


@contextmanager
def flushed_at_end() -> Iterator[None]:
    """Open while a worker, or one of its child processes, runs."""
    yield
    sentry_sdk.flush(FLUSH_S)


_REPORTED: Final = "__kiqbridge_sentry__"
"""Attribute of an error that was reported within its job's scope."""


def _current() -> KiqbridgeIntegration | None:
    """The integration of the client that is active here; None: it has none."""
    return sentry_sdk.get_client().get_integration(KiqbridgeIntegration)


@contextmanager
def _scope(
    integration: KiqbridgeIntegration, payload: Mapping[str, Any], queue: str
) -> Iterator[None]:
    headers = payload.get(HEADERS) if integration.propagate_traces else None
    interruption: BaseException | None = None
    with sentry_sdk.isolation_scope() as scope:
        scope.clear_breadcrumbs()
        name = _describe(integration, scope, payload, queue)
        transaction = sentry_sdk.continue_trace(
            headers if isinstance(headers, dict) else {},
            op=_OP,
            name=name,
            source="task",
            origin=_ORIGIN,
        )
        with sentry_sdk.start_transaction(transaction):
            transaction.set_data("messaging.system", "sidekiq")
            transaction.set_data("messaging.destination.name", queue)
            transaction.set_data("messaging.message.id", payload.get("jid"))
            transaction.set_data("messaging.message.retry.count", retries_of(payload))
            try:
                yield
            except Exception as error:
                if not integration.only_deaths:
                    _capture(error, handled=False)
                    _mark(error)
                raise
            except BaseException as error:  # noqa: BLE001 - raised below, past the transaction
                transaction.set_status("cancelled")
                interruption = error
        if interruption is not None:
            raise interruption


def _describe(
    integration: KiqbridgeIntegration,
    scope: sentry_sdk.Scope,
    payload: Mapping[str, Any],
    queue: str,
) -> str:
    """What each event of this job carries; the name of the transaction."""
    name = str(payload.get("wrapped") or payload.get("class"))
    job = {
        "class": name,
        "jid": payload.get("jid"),
        "queue": queue,
        "retry_count": retries_of(payload),
    }
    if integration.sends_arguments:
        job["args"] = redaction.current().value(payload.get("args"))
    scope.set_transaction_name(name, source="task")
    scope.set_context("kiqbridge", job)
    scope.set_tag("jid", str(payload.get("jid")))
    scope.set_tag("queue", queue)
    return name


def _capture(error: BaseException, *, handled: bool) -> None:
    event, hint = event_from_exception(
        error,
        client_options=sentry_sdk.get_client().options,
        mechanism={"type": "kiqbridge", "handled": handled},
    )
    sentry_sdk.capture_event(event, hint=hint)


def _mark(error: BaseException) -> None:
    try:
        setattr(error, _REPORTED, True)
    except AttributeError:  # a frozen one is reported by the error handler, too
        return
