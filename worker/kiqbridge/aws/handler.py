"""The handler of the enqueue function: one warm environment, from an event to the answer.

`app.py` of the function makes one, from its environment variables and its own folder, and Lambda calls it.
"""

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.record import alias_in
from kiqbridge.aws.report import Report, Reporting
from kiqbridge.aws.sources import failure_answer, is_http
from kiqbridge.aws.time_left import seconds_for_redis
from kiqbridge.config import function_settings as settings
from kiqbridge.config.setting import read
from kiqbridge.store import deadline


class EnqueueHandler:
    """What an environment keeps between events: settings, mappings, connections; all but the first are made late.

    Args:
        environ: the environment variables; allow-lists and the address are read at the first event.
        folder: the function's own, with its mappings if it has any.
    """

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self._environ = environ
        self._folder = folder
        self._reporting = Reporting(
            service=read(settings.SERVICE, environ),
            namespace=read(settings.METRICS_NAMESPACE, environ),
            level=read(settings.FUNCTION_LOG_LEVEL, environ),
        )
        self._is_cold = True
        self._is_traced: bool | None = None
        self._enqueuer: Enqueuer | None = None

    def enqueuer(self) -> Enqueuer:
        """The one of this environment."""
        if self._enqueuer is None:
            self._enqueuer = Enqueuer.from_environment(self._environ, self._folder)
        return self._enqueuer

    def handle(self, event: Any, context: Any) -> Any:
        """Enqueue what the event asks for; an error is raised so that the service delivers again.

        An HTTP request is always answered.

        Args:
            event: as the service sends it.
            context: Lambda's context object, or None.

        Returns:
            `Answer` of a direct invocation; of others what their service expects.
        """
        request_id = getattr(context, "aws_request_id", None)
        report = self._reporting.begin(request_id)
        if self._is_cold:
            self._is_cold = False
            report.count(ColdStart=1)
        by = f"lambda:{request_id}" if request_id else "lambda"
        alias = alias_in(getattr(context, "invoked_function_arn", None))
        try:
            with deadline.within(seconds_for_redis(context)):
                handled = self._handled(event, by, alias, report)
        except Exception as error:
            report.failed(error, is_raised=not is_http(event))
            if is_http(event):
                return failure_answer(event, error)
            raise
        else:
            report.handled(handled)
            if handled.error is not None:
                raise handled.error
            return handled.answer
        finally:
            report.write(sys.stdout)

    def _handled(self, event: Any, by: str, alias: str, report: Report) -> Handled:
        if self._is_traced is None:
            self._is_traced = bool(read(settings.TRACING, self._environ))
        if not self._is_traced:
            return self.enqueuer().handle(event, now=time.time(), by=by, alias=alias)
        from kiqbridge.aws import tracing  # noqa: PLC0415 - a start waits for each module

        xray = self._environ.get(tracing.HEADER, "")
        return tracing.traced(
            self._reporting.service,
            lambda: self.enqueuer().handle(event, now=time.time(), by=by, xray=xray, alias=alias),
            warn=report.warn,
        )
