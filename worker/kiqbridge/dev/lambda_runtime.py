"""Lambda's runtime in small: `python -m kiqbridge.dev.lambda_runtime FOLDER MODULE.FUNCTION`.

Reads one event a line and answers one line each: `{"answer": …}` or `{"error": CLASS, "message": …}`.
What the function prints and logs goes to standard error, as on Lambda to its log.
"""

import contextlib
import importlib
import json
import os
import sys
import time
import traceback
import uuid
from collections.abc import Callable
from typing import Any

TIMEOUT_MS = 30_000

Handler = Callable[[Any, "Context"], Any]


class Context:
    """The context object that Lambda passes to a function."""

    def __init__(self, function_name: str) -> None:
        self.function_name = function_name
        self.function_version = "$LATEST"
        self.invoked_function_arn = (
            f"arn:aws:lambda:eu-west-1:000000000000:function:{function_name}"
        )
        self.memory_limit_in_mb = "512"
        self.aws_request_id = str(uuid.uuid4())
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = "local"
        self._ends_ms = time.monotonic() * 1000 + TIMEOUT_MS

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the invocation is cut off."""
        return max(0, int(self._ends_ms - time.monotonic() * 1000))


def main() -> None:
    """Answer events until standard input ends."""
    folder, dotted = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path.insert(0, os.path.abspath(folder))  # noqa: PTH100 - as text, for the path
    try:
        handler = _load(dotted)
    except Exception as error:  # noqa: BLE001 - reported at each invocation, as Lambda does
        handler = _failing(error)
    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local")
    for line in sys.stdin:
        answers.write(json.dumps(_invoke(handler, json.loads(line), Context(name))) + "\n")
        answers.flush()


def _load(dotted: str) -> Handler:
    module, _, function = dotted.rpartition(".")
    handler: Handler = getattr(importlib.import_module(module.replace("/", ".")), function)
    return handler


def _failing(error: Exception) -> Handler:
    def handler(_event: Any, _context: Context) -> Any:
        raise error

    return handler


def _invoke(handler: Handler, event: Any, context: Context) -> dict[str, Any]:
    try:
        return {"answer": json.loads(json.dumps(handler(event, context)))}
    except Exception as error:  # noqa: BLE001 - the function's error is its answer
        traceback.print_exc()
        return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()
