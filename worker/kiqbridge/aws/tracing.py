"""X-Ray, if it was asked for: each invocation's work is a subsegment of Lambda's own segment.

Only then are Powertools' Tracer and the AWS X-Ray SDK loaded, which take 100 ms at a start. The SDK is no
dependency: it has to be in a layer of its own. Without it events are handled as ever, and a line says so.
"""

import functools
import importlib.util
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.aws.answers import answer_of

if TYPE_CHECKING:
    from kiqbridge.aws.enqueue import Handled

SUBSEGMENT: Final = "## kiqbridge.enqueue"
"""Its name in X-Ray; the two signs are Powertools' habit."""
HEADER: Final = "_X_AMZN_TRACE_ID"
"""Variable in which Lambda passes the invocation's trace header."""


def traced(service: str, call: "Callable[[], Handled]", warn: Callable[[str], None]) -> "Handled":
    """Make a call within a subsegment that shows what became of the event.

    Args:
        service: name of the function, an annotation of the subsegment.
        call: handles the event.
        warn: gets a text, once, if the SDK is missing; then the call is made without a subsegment.
    """
    tracer, is_first = _tracer(service), _tracer.cache_info().hits == 0
    if tracer is None:
        if is_first:
            warn(
                "KIQBRIDGE_TRACING is on, but Python finds no aws_xray_sdk, so that nothing is traced; add a "
                "layer with aws-xray-sdk to the function, or turn the setting off"
            )
        return call()
    with tracer.provider.in_subsegment(name=SUBSEGMENT) as subsegment:
        handled = call()
        answer = answer_of(handled.results)
        subsegment.put_annotation("service", service)
        subsegment.put_annotation("source", handled.source)
        subsegment.put_annotation("enqueued", len(answer["enqueued"]))
        subsegment.put_annotation("duplicates", len(answer["duplicates"]))
        subsegment.put_annotation("failed", sum(each.error is not None for each in handled.results))
        return handled


@functools.cache
def _tracer(service: str) -> Any:
    if importlib.util.find_spec("aws_xray_sdk") is None:
        return None
    from aws_lambda_powertools import Tracer  # noqa: PLC0415 - only if it was asked for

    return Tracer(service=service, auto_patch=False)
