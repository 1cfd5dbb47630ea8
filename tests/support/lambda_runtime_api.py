"""Lambda around a built function: the Runtime API it talks to, and its process.

The process runs Lambda's real runtime client with the function's folder as its task root and the
layer as the only other place to import from: neither the checkout nor the packages of the tests'
environment are within its reach.
"""

import importlib.metadata
import json
import queue
import shutil
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

from support.http_endpoint import body_of, http_endpoint, reply
from support.processes import ChildProcess
from support.waiting import wait_until

API = "/2018-06-01/runtime"
FUNCTION_ARN = "arn:aws:lambda:eu-west-1:123456789012:function:shop-enqueue"
TIMEOUT_S = 20  # of an invocation, as in template.yaml
# The runtime client and what it needs. Lambda's Python brings them.
RUNTIME_CLIENT = ("awslambdaric", "simplejson", "snapshot_restore_py")
AWS_SDK = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
"""What Lambda's Python brings besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back for one invocation."""

    body: Any
    """The handler's answer, or Lambda's error object."""
    is_error: bool
    ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Invocation:
    request_id: str
    event: bytes
    answers: "queue.Queue[Answer]"


class RuntimeApi:
    """A Runtime API on a free port of 127.0.0.1, for one process of a function.

    Args:
        function_arn: as the function finds it in its context.
        timeout_s: of an invocation, from which the function's remaining time counts.
    """

    def __init__(self, function_arn: str = FUNCTION_ARN, timeout_s: float = TIMEOUT_S) -> None:
        self.function_arn = function_arn
        self.timeout_s = timeout_s
        self.init_error: dict[str, Any] | None = None
        self.ready_at: float | None = None
        """When the process first asked for an event: its initialisation was over."""
        self._invocations: queue.Queue[_Invocation | None] = queue.Queue()
        self._running: dict[str, tuple[_Invocation, float]] = {}
        self._endpoint = ExitStack()
        self.address = f"127.0.0.1:{self._endpoint.enter_context(http_endpoint(self._serve))}"

    def close(self) -> None:
        self._invocations.put(None)
        self._endpoint.close()

    def invoke(self, event: object, request_id: str | None = None) -> "queue.Queue[Answer]":
        """Hand an event over; its answer will be in the queue returned."""
        invocation = _Invocation(
            request_id=request_id or str(uuid.uuid4()),
            event=json.dumps(event).encode(),
            answers=queue.Queue(),
        )
        self._invocations.put(invocation)
        return invocation.answers

    def next(self) -> _Invocation | None:
        """The next event, as soon as there is one; None when it is all over."""
        if self.ready_at is None:
            self.ready_at = time.monotonic()
        invocation = self._invocations.get()
        if invocation is not None:
            self._running[invocation.request_id] = (invocation, time.perf_counter())
        return invocation

    def answer(self, request_id: str, body: Any, *, is_error: bool) -> None:
        invocation, began = self._running.pop(request_id)
        ms = (time.perf_counter() - began) * 1000
        invocation.answers.put(Answer(body=body, is_error=is_error, ms=ms))

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        match [request.command, *request.path.removeprefix(f"{API}/").split("/")]:
            case ["GET", "invocation", "next"]:
                invocation = self.next()
                if invocation is None:
                    request.close_connection = True
                    return
                headers = {
                    "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
                    "Lambda-Runtime-Deadline-Ms": str(int((time.time() + self.timeout_s) * 1000)),
                    "Lambda-Runtime-Invoked-Function-Arn": self.function_arn,
                    "Lambda-Runtime-Trace-Id": "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0",
                    "Content-Type": "application/json",
                }
                reply(request, 200, invocation.event, **headers)
                return
            case ["POST", "init", "error"]:
                self.init_error = json.loads(body_of(request))
            case ["POST", "invocation", request_id, "response" | "error" as kind]:
                self.answer(request_id, json.loads(body_of(request)), is_error=kind == "error")
            case _:
                reply(request, 404)
                return
        reply(request, 202, b'{"status":"OK"}', Content_Type="application/json")


class LambdaProcess:
    """One execution environment of a function; as a context manager it ends with the block.

    Args:
        task: the function's built folder.
        layer: what the layer's `python` folder became.
        runtime_client: a folder made by `install_runtime_client`.
        env: the function's variables.
        api: the Runtime API it talks to, its own otherwise.
        python: interpreter and its version, such as 3.13.
    """

    def __init__(
        self,
        *,
        task: Path,
        layer: Path,
        runtime_client: Path,
        env: Mapping[str, str],
        handler: str = "app.lambda_handler",
        api: RuntimeApi | None = None,
        python: tuple[str, str] = (
            sys.executable,
            f"{sys.version_info.major}.{sys.version_info.minor}",
        ),
    ) -> None:
        interpreter, version = python
        self._command = [interpreter, "-S", "-s", "-m", "awslambdaric", handler]
        self._task = task
        self.env = {
            "AWS_EXECUTION_ENV": f"AWS_Lambda_python{version}",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "AWS_LAMBDA_FUNCTION_NAME": FUNCTION_ARN.rpartition(":")[2],
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_REGION": "eu-west-1",
            "LAMBDA_TASK_ROOT": str(task),
            "LANG": "en_US.UTF-8",
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": f"{layer}:{runtime_client}",
            # Lambda's folders are read-only.
            "PYTHONDONTWRITEBYTECODE": "1",
            "TZ": ":UTC",
            "_HANDLER": handler,
            **env,
        }
        self.api = api or RuntimeApi()
        self._began = 0.0
        self.child: ChildProcess

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        self.child = ChildProcess(
            self._command,
            env={"AWS_LAMBDA_RUNTIME_API": self.api.address, **self.env},
            cwd=self._task,
            inherit=False,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close()
        self.api.close()

    def wait_ready(self, timeout_s: float = 30) -> float:
        """Wait for the end of its initialisation; milliseconds since its process began."""
        self.child.wait_for(lambda: self.api.ready_at, timeout_s, "asking for its first event")
        return (self.api.ready_at - self._began) * 1000

    def wait_init_error(self, timeout_s: float = 30) -> dict[str, Any]:
        """Wait until it reports that it cannot start."""
        wait_until(
            lambda: self.api.init_error, timeout_s, lambda: f"init/error: {self.child.output}"
        )
        return self.api.init_error

    def invoke(self, event: object) -> Answer:
        answers = self.api.invoke(event)
        self.child.wait_for(lambda: not answers.empty(), TIMEOUT_S, f"the answer to {event}")
        return answers.get_nowait()


def install_runtime_client(folder: Path, packages: Sequence[str] = RUNTIME_CLIENT) -> Path:
    """Copy the installed runtime client, and nothing else of this environment, to `folder`."""
    for name in packages:
        for file in importlib.metadata.files(name):
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = folder / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)
    return folder
