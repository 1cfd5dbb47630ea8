"""A function of the template on this machine: its handler in a child, with its own environment.

`LocalFunctions` starts those of the rules at once, others when they are invoked.
"""

import contextlib
import json
import multiprocessing
import signal
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kiqbridge.dev import child_process
from kiqbridge.errors import ConfigError, KiqbridgeError
from kiqbridge.schedule.template import TemplateFunction, TemplateSchedule, read_functions

if TYPE_CHECKING:
    import subprocess
    from multiprocessing.connection import Connection


_ANSWER_S: Final = 30.0
_STOP_S: Final = 2.0


class FunctionError(KiqbridgeError):
    """The function raised, or gave no answer.

    Attributes:
        kind: class name of what it raised, or Lambda's name for its end.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class LocalFunction:
    """One warm environment, used from the main thread.

    Args:
        folder: the function's code.
        handler: MODULE.FUNCTION below it.
        environ: all that the child gets.
        log: file for what it logs and prints, metrics included; None = our standard error.
    """

    def __init__(
        self, *, folder: Path, handler: str, environ: Mapping[str, str], log: Path | None
    ) -> None:
        self._arguments = [str(folder), handler]
        self._environ = environ
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection
        self._is_ready = False
        if log is not None:
            log.unlink(missing_ok=True)

    def start(self) -> None:
        """Start loading the handler; the first invocation waits for it."""
        ours, theirs = multiprocessing.Pipe()
        with theirs, self._log.open("ab") if self._log else contextlib.nullcontext(2) as log:
            runtime = [sys.executable, "-m", "kiqbridge.dev.lambda_runtime", str(theirs.fileno())]
            self._process = child_process.spawn(
                [*runtime, *self._arguments],
                when_we_die=signal.SIGKILL,
                env=self._environ,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
            )
        self._channel = ours
        self._is_ready = False

    def invoke(self, event: Any) -> Any:
        """Return the handler's answer; raises as `invoke_json`."""
        return self.invoke_json(json.dumps(event).encode(), str(uuid.uuid4()))

    def invoke_json(self, payload: bytes, request_id: str, qualifier: str = "") -> Any:
        """Return the handler's answer.

        Args:
            payload: the event as JSON.
            request_id: of the invocation.
            qualifier: version or alias by which the function is invoked; "" = without one.

        Raises:
            FunctionError: what it raised, or that it ended or hung.
        """
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self.start()
        try:
            if not self._is_ready:
                # A large event is not sent to a process that may never read it.
                self._receive()
                self._is_ready = True
            self._channel.send_bytes(json.dumps([request_id, qualifier]).encode())
            self._channel.send_bytes(payload)
            answer = json.loads(self._receive())
        except (EOFError, OSError) as error:
            self.stop()
            text = "the function's process ended without an answer"
            raise FunctionError("Runtime.ExitError", text) from error
        if "error" in answer:
            raise FunctionError(answer["error"], answer["message"])
        return answer["answer"]

    def _receive(self) -> bytes:
        if not self._channel.poll(_ANSWER_S):
            self.stop()  # a late answer would be taken for that to the next event
            raise FunctionError("Sandbox.Timedout", f"no answer within {_ANSWER_S:.0f} s")
        return self._channel.recv_bytes()

    def stop(self) -> None:
        """End the child."""
        process, self._process = self._process, None
        if process is not None:
            child_process.stop(process, _STOP_S)
            self._channel.close()


_HANDLER = "app.lambda_handler"


@dataclass(slots=True, kw_only=True)
class LocalFunctions:
    """Makes and ends them; from the main thread.

    Attributes:
        template: names them; its folder is above theirs.
        log: file of a function's own log; None = our standard error.
        made: logical id → function.
    """

    template: Path | None
    log: Callable[[str], Path | None]
    made: dict[str, LocalFunction] = field(default_factory=dict)
    _environ: Mapping[str, str] = field(init=False, default_factory=dict)
    _own: Mapping[str, str] = field(init=False, default_factory=dict)

    def take(
        self, rules: Sequence[TemplateSchedule], environ: Mapping[str, str], own: Mapping[str, str]
    ) -> None:
        """End all that there are, and make those of the rules; `start` starts them.

        Args:
            rules: of the template as it is now.
            environ: what all children get.
            own: what goes before the variables of the template.
        """
        self.stop()
        self._environ, self._own = environ, own
        for rule in rules:
            if rule.function.name not in self.made:
                self._make(rule.function)

    def find(self, name: str) -> LocalFunction | None:
        """The function with this logical id; None = the template has none, or it is not in Python."""
        if name not in self.made and self.template is not None:
            try:
                functions = read_functions(self.template)
            except ConfigError:  # it was edited, and is not followed
                return None
            for function in functions:
                if function.name == name and self._is_python(function):
                    self._make(function)
        return self.made.get(name)

    def start(self) -> None:
        """Start loading those that were made."""
        for function in self.made.values():
            function.start()

    def stop(self) -> None:
        """End all."""
        for function in self.made.values():
            function.stop()
        self.made.clear()

    def _is_python(self, function: TemplateFunction) -> bool:
        module = (function.handler or _HANDLER).rpartition(".")[0]
        return (
            function.code_uri is not None
            and (self._folder(function) / f"{module.replace('.', '/')}.py").is_file()
        )

    def _folder(self, function: TemplateFunction) -> Path:
        above = self.template.parent if self.template else Path()
        return above / (function.code_uri or "")

    def _make(self, function: TemplateFunction) -> None:
        self.made[function.name] = LocalFunction(
            folder=self._folder(function),
            handler=function.handler or _HANDLER,
            environ={
                "AWS_LAMBDA_FUNCTION_NAME": function.name,
                **self._environ,
                **function.environment,
                **self._own,
            },
            log=self.log(function.name),
        )
