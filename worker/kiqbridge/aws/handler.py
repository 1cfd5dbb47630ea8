"""The handler of the enqueue function: one warm environment, from an event to the answer.

`app.py` of the function makes one, from its environment variables and its own folder, and Lambda calls it.
"""

import contextlib
import functools
import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.environment import Metrics, make_logger, seconds_for_redis
from kiqbridge.aws.record import alias_in, answer_of
from kiqbridge.aws.report import Report
from kiqbridge.aws.sources import failure_answer, is_http
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.store import deadline

SUBSEGMENT: Final = "## kiqbridge.enqueue"
"""Name of an invocation's segment in X-Ray; the two `#` are Powertools' convention."""
TRACE_HEADER: Final = "_X_AMZN_TRACE_ID"
"""Variable in which Lambda passes the invocation's trace header."""
_ITEM_FAILURES: Final = (
    "records of a batch failed, and Lambda delivers them again only if the event source mapping has "
    "ReportBatchItemFailures, which the function cannot see; without it a batch that failed in part is taken as "
    "done, and those records are lost: set FunctionResponseTypes: [ReportBatchItemFailures] on the event source"
)


class EnqueueHandler:
    """What an environment keeps between events: settings, mappings, connections; all but the first are made late.

    Args:
        environ: the environment variables; allow-lists and the address are read at the first event.
        folder: the function's own, with its mappings if it has any.

    Attributes:
        handle: what Lambda calls, with an event and its context: see `_handle`.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = environ
        self._folder = folder
        self._logger = make_logger(environ)
        self._metrics = Metrics.from_environment(environ)
        self._enqueuer: Enqueuer | None = None
        self._has_warned = False
        self.handle = self._logger.inject_lambda_context(self._handle, log_event=False)

    def enqueuer(self) -> Enqueuer:
        """The one of this environment."""
        if self._enqueuer is None:
            self._enqueuer = Enqueuer.from_environment(self._environ, self._folder)
        return self._enqueuer

    def _handle(self, event: Any, context: Any) -> Any:
        """Enqueue what the event asks for; an error is raised so that the service delivers again.

        An HTTP request is always answered.

        Returns:
            `Answer` of a direct invocation; of others what their service expects.
        """
        report = Report(self._logger, self._metrics)
        segment: Any = contextlib.nullcontext()
        if self._tracer is not None:
            segment = self._tracer.provider.in_subsegment(name=SUBSEGMENT)
        try:
            with deadline.within(seconds_for_redis(context)), segment as subsegment:
                handled = self.enqueuer().handle(
                    event,
                    now=time.time(),
                    by=f"lambda:{context.aws_request_id}",
                    xray="" if subsegment is None else self._environ.get(TRACE_HEADER, ""),
                    alias=alias_in(context.invoked_function_arn),
                )
                if subsegment is not None:
                    self._annotate(subsegment, handled)
        except Exception as error:
            report.failed(error, is_raised=not is_http(event))
            if is_http(event):
                return failure_answer(event, error)
            raise
        else:
            report.handled(handled)
            if handled.needs_item_failures and not self._has_warned:
                self._has_warned = True
                self._logger.warning(_ITEM_FAILURES, extra={"source": handled.source})
            return handled.answer_or_raise()
        finally:
            report.write_metrics()

    def _annotate(self, subsegment: Any, handled: Handled) -> None:
        answer = answer_of(handled.results)
        for name, value in {
            "service": self._logger.service,
            "source": handled.source,
            "enqueued": len(answer["enqueued"]),
            "duplicates": len(answer["duplicates"]),
            "failed": sum(each.error is not None for each in handled.results),
        }.items():
            subsegment.put_annotation(name, value)

    @functools.cached_property
    def _tracer(self) -> Any:
        """X-Ray's, if it was asked for; the SDK takes 50 ms at a start, and has to be in a layer of its own."""
        if not read(ForFunctions.tracing, self._environ):
            return None
        if importlib.util.find_spec("aws_xray_sdk") is None:
            self._logger.warning(
                "KIQBRIDGE_TRACING is on, but Python finds no aws_xray_sdk, so that nothing is traced; add a "
                "layer with aws-xray-sdk to the function, or turn the setting off"
            )
            return None
        from aws_lambda_powertools import Tracer  # noqa: PLC0415 - few trace

        return Tracer(service=self._logger.service, auto_patch=False)
