"""What a child process answers about a job: how it went, and what the rules of its class say of an error.

The rules are asked here, where the exception is: the worker gets its names and lines.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn

from kiqbridge.client import rails
from kiqbridge.client.current import Cancelled
from kiqbridge.client.registry import Registry
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.settle.ending import Refusal, wants_output
from kiqbridge.engine.settle.error_report import RuleAnswers
from kiqbridge.engine.settle.output import NOT_PERFORMED, encode_output
from kiqbridge.engine.settle.retry import DEFAULT_HANDLING, PutOff, RetryPolicy, decide
from kiqbridge.errors import JobNotFound
from kiqbridge.features.process_pool.messages import describe
from kiqbridge.wire import json_text


class Answering:
    """What becomes of a job in a child: an answer to the worker, which decides about it (`Outcomes`)."""

    def __init__(self, order: Mapping[str, Any], registry: Registry) -> None:
        self._order = order
        self._registry = registry

    def malformed(self, text: bytes, queue: str, error: Exception) -> NoReturn:  # noqa: ARG002 - see `Outcomes`
        """The worker has read it."""
        raise error

    def refused(
        self,
        refusal: Refusal,
        payload: dict[str, Any],  # noqa: ARG002 - see `Outcomes`
        text: bytes,  # noqa: ARG002 - see `Outcomes`
        queue: str,  # noqa: ARG002 - see `Outcomes`
    ) -> NoReturn:
        """The worker has asked its gate."""
        raise RuntimeError(f"a child has no gate: {refusal}")

    def interrupted(self, execution: Execution) -> dict[str, Any]:  # noqa: ARG002 - see `Outcomes`
        """It is to be pushed again."""
        return {"interrupted": True}

    def succeeded(self, execution: Execution) -> dict[str, Any]:
        """What it returned, as JSON: the value itself stays here."""
        if execution.result is NOT_PERFORMED:
            return {"done": True}
        if execution.result is Cancelled.CANCELLED:
            return {"done": True, "cancelled": True}
        # If no thread waits for the value only whether it was performed matters.
        output = encode_output(execution.result if wants_output(execution.payload) else None)
        return {"done": True, "output": asdict(output)}

    def put_off(
        self,
        execution: Execution,  # noqa: ARG002 - see `Outcomes`
        error: BaseException,
        later: PutOff,
    ) -> dict[str, Any]:
        """It is to run later."""
        return {"failure": asdict(describe(error, put_off=later))}

    def failed(self, execution: Execution, error: BaseException) -> dict[str, Any]:
        """Ask the rules of the class, which the worker cannot: it gets no exception object."""
        definition, order = execution.definition, self._order
        payload: dict[str, Any] = json_text.loads(execution.text)  # as fetched
        ruling = rails.rules_of(payload, definition, self._registry)
        answers = RuleAnswers(ruling.handling if ruling else DEFAULT_HANDLING)
        decide(
            payload,
            error,
            queue=execution.queue,
            class_retry=definition.options.get("retry", True) if definition else None,
            policy=RetryPolicy(max_retries=order["max_retries"], profile=order["profile"]),
            now=time.time(),
            rng=random.Random(),  # noqa: S311 - the worker's own counts
            handling=answers.handling,
        )
        # A class that is unknown in this process alone has its rules in the worker.
        was_made = definition is not None or isinstance(error, JobNotFound)
        return {"failure": asdict(describe(error, answers, was_made=was_made))}
