"""In place of LocalStack's Docker executor: a process of Lambda's runtime client for each environment.

LocalStack imports it, in the environment `.venv-e2e`. The process sees the function's code, its
layers, the runtime client and the AWS SDK, as in Lambda, and nothing else. It ends with `stop`, and by
itself when LocalStack is gone, since its Runtime API is then gone, too.
"""

import json
import os
import queue
import shutil
import time
from pathlib import Path

from localstack import config
from localstack.services.lambda_.invocation.executor_endpoint import StatusErrorException
from localstack.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localstack.services.lambda_.invocation.runtime_executor import (
    LambdaRuntimeException,
    RuntimeExecutor,
)
from support.lambda_runtime_api import Answer, LambdaProcess, RuntimeApi

RUNTIME_CLIENT = Path(os.environ["E2E_RUNTIME_CLIENT"])
INIT_TIMEOUT_S = 60
LOOK_S = 0.1
"""How often it is checked that the process lives while an answer is awaited."""


class ProcessExecutor(RuntimeExecutor):
    """One execution environment of a function."""

    def __init__(self, id: str, function_version: FunctionVersion) -> None:  # noqa: A002 - LocalStack's name
        super().__init__(id, function_version)
        self._process: LambdaProcess | None = None
        self._env: dict[str, str] = {}
        self._read = 0

    def start(self, env_vars: dict[str, str]) -> None:
        self._env = {
            name: str(value)
            for name, value in env_vars.items()
            # These lie elsewhere here, or are of this process.
            if name not in {"LAMBDA_TASK_ROOT", "LAMBDA_RUNTIME_DIR", "AWS_EXECUTION_ENV"}
        }
        self._env["E2E_RUN"] = os.environ["E2E_RUN"]
        self._start_process()

    def _start_process(self) -> None:
        code = self.function_version.config.code
        process = LambdaProcess(
            task=code.get_unzipped_code_location(),
            layer=layers_folder(self.function_version) / "python",
            runtime_client=RUNTIME_CLIENT,
            env=self._env,
            handler=self.function_version.config.handler,
            api=RuntimeApi(
                self.function_version.qualified_arn, self.function_version.config.timeout
            ),
        )
        process.__enter__()
        self._process, self._read = process, 0
        deadline = time.monotonic() + INIT_TIMEOUT_S
        while process.api.ready_at is None:
            ended = not process.child.is_running
            if process.api.init_error is not None:
                raise StatusErrorException(
                    "initialisation failed", json.dumps(process.api.init_error).encode()
                )
            if ended or time.monotonic() > deadline:
                raise LambdaRuntimeException(
                    f"no initialisation: exit code {process.child.exit_code}: {self.get_logs()}"
                )
            time.sleep(0.005)  # between two looks

    def invoke(self, payload: dict[str, str]) -> InvocationResult:
        request_id = payload["invoke-id"]
        if self._process is None:
            self._start_process()
        answers = self._process.api.invoke(json.loads(payload["payload"] or "{}"), request_id)
        answer = self._wait_answer(answers)
        if answer is not None:
            body, is_error = answer.body, answer.is_error
        else:
            is_timeout = self._process.child.is_running
            seconds = self.function_version.config.timeout
            reason = (
                f"Task timed out after {seconds:.2f} seconds"
                if is_timeout
                else f"Runtime exited with exit code {self._process.child.exit_code}"
            )
            body, is_error = {"errorMessage": f"{request_id} {reason}"}, True
        logs = self._new_logs()
        if answer is None:
            self.stop()
        return InvocationResult(request_id, json.dumps(body).encode(), is_error=is_error, logs=logs)

    def _wait_answer(self, answers: "queue.Queue[Answer]") -> Answer | None:
        deadline = time.monotonic() + self.function_version.config.timeout
        while time.monotonic() < deadline:
            was_running = self._process.child.is_running
            try:
                return answers.get(timeout=LOOK_S)
            except queue.Empty:
                if not was_running:
                    return None
        return None

    def _new_logs(self) -> str:
        output = self._process.child.output
        new, self._read = output[self._read :], len(output)
        return new

    def stop(self) -> None:
        if self._process is not None:
            self._process.__exit__(None, None, None)
            self._process = None

    def get_logs(self) -> str:
        return self._process.child.output if self._process else ""

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}"

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()
        layers = function_version.config.layers or []
        for layer in layers:
            layer.code.prepare_for_execution()
        folder = layers_folder(function_version)
        if layers and not folder.exists():
            # Unpacked one over the other, as in /opt.
            unfinished = folder.with_name(f"{folder.name}.new")
            for layer in layers:
                source = layer.code.get_unzipped_code_location()
                shutil.copytree(source, unfinished, dirs_exist_ok=True)
            unfinished.rename(folder)

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        """The folder of the whole run is removed at its end."""


def layers_folder(function_version: FunctionVersion) -> Path:
    """What is /opt in Lambda."""
    versions = [layer.code.id for layer in function_version.config.layers or []]
    return Path(config.dirs.tmp, "opt-" + "-".join(versions or ["none"]))
