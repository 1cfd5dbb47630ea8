"""Lambda's runtime in small: `python -m kiqbridge.dev.lambda_runtime DESCRIPTOR FOLDER MODULE.FUNCTION`.

Sends an empty message when the handler is loaded. Then it reads two messages an event, `[REQUEST_ID, QUALIFIER]` and the
event, and answers one: `{"answer": …}` or `{"error": CLASS, "message": …}`. What the function prints and logs goes to its log, as on Lambda.
"""

import contextlib
import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

TIMEOUT_MS = 30_000

Handler = Callable[[Any, "Context"], Any]


class Context:
    """The context object that Lambda passes to a function."""

    def __init__(self, function_name: str, request_id: str, qualifier: str) -> None:
        self.function_name = function_name
        self.function_version = "$LATEST"
        self.invoked_function_arn = (
            f"arn:aws:lambda:eu-west-1:000000000000:function:{function_name}"
            + (f":{qualifier}" if qualifier else "")
        )
        self.memory_limit_in_mb = "512"
        self.aws_request_id = request_id
        self.log_group_name = f"/aws/lambda/{function_name}"
        self.log_stream_name = "local"
        self._ends_ms = time.monotonic() * 1000 + TIMEOUT_MS

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the invocation is cut off."""
        return max(0, int(self._ends_ms - time.monotonic() * 1000))


def main() -> None:
    """Answer events until none are sent any more."""
    descriptor, folder, dotted = sys.argv[1:]
    sys.path.insert(0, os.path.abspath(folder))  # noqa: PTH100 - as text, for the path
    try:
        module, _, function = dotted.rpartition(".")
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
    except Exception as error:  # noqa: BLE001 - reported at each invocation, as Lambda does
        handler = partial(_fail, error)
    name = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local")
    with Connection(int(descriptor)) as channel:
        channel.send_bytes(b"")
        while True:
            context = Context(name, *json.loads(channel.recv_bytes()))
            answer = _invoke(handler, channel.recv_bytes(), context)
            channel.send_bytes(json.dumps(answer).encode())


def _fail(error: Exception, _event: Any, _context: Context) -> None:
    raise error


def _invoke(handler: Handler, payload: bytes, context: Context) -> dict[str, Any]:
    try:
        return {"answer": json.loads(json.dumps(handler(json.loads(payload), context)))}
    except Exception as error:  # noqa: BLE001 - the function's error is its answer
        traceback.print_exc()
        return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError):
        main()
