"""What a worker and the child processes that run its jobs say to each other.

One socket a child. A message is a JSON object, and bytes where a job goes along; never pickle, which
would let any writer to the socket choose code. An error is described by its names and lines, and
the worker makes a stand-in of it (error_report.py).

What a child process answers about a job: how it went, and what the rules of its class say of an error.

The rules are asked in the child, where the exception is: the worker gets its names and lines.
"""

import json
import random
import socket
import struct
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from kiqbridge import seams
from kiqbridge.client import rails
from kiqbridge.client.current import Cancelled
from kiqbridge.client.registry import Registry
from kiqbridge.config.client_settings import RedisAccess
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.settle import error_report
from kiqbridge.engine.settle.ending import Refusal, wants_output
from kiqbridge.engine.settle.output import NOT_PERFORMED, encode_output
from kiqbridge.engine.settle.retry import DEFAULT_HANDLING, PutOff, RetryPolicy, decide
from kiqbridge.errors import JobNotFound
from kiqbridge.runtime import descriptors, job_forks
from kiqbridge.runtime.logs import tracebacks
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import DEFAULT_KEYS
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import ProfileSetting
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from kiqbridge.config.config import Fleets


_HEADER = struct.Struct(">II")

TRACEBACK_LIMIT = 20_000
"""Characters of a traceback for the worker's log and handlers, its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildJob:
    """A job for a child process.

    Attributes:
        text: as fetched.
        queue: where it was fetched from.
        tid: the thread's, for log lines.
        capsule: whose middleware goes around it.
        max_retries, profile: what the rules of its class may depend on (§8).
        timeout_s: seconds that it may run, or None.
    """

    text: bytes
    queue: str
    tid: str
    capsule: str
    max_retries: int
    profile: str
    timeout_s: float | None = None

    def to_message(self) -> dict[str, Any]:
        """As it goes over the socket, beside the text."""
        return {
            "queue": self.queue,
            "tid": self.tid,
            "capsule": self.capsule,
            "max_retries": self.max_retries,
            "profile": self.profile,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """What of the worker's settings its children need.

    Sent over the socket: flags and environment are for everybody to read, and there are passwords.
    """

    require: tuple[str, ...]
    log_level: str
    log_format: str
    redis: RedisAccess = field(repr=False)
    namespace: str
    fleets: "Fleets | None" = None
    profile: ProfileSetting
    timeout_s: float
    max_iteration_runtime_s: float | None = None
    logged_job_attributes: tuple[str, ...] = ("bid", "tags", "traceparent", "X-Amzn-Trace-Id")
    redact: tuple[str, ...] = DEFAULT_KEYS
    max_payload_bytes: int = DEFAULT_MAX_PAYLOAD_BYTES
    foreign_jobs: Literal["refuse", "run", "requeue"] = "refuse"
    unknown_class: str = "retry"
    skip_default_job_logging: bool = False

    def to_message(self) -> dict[str, Any]:
        """As it goes over the socket."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> Self:
        """The counterpart of `to_message`."""
        lists = {name: tuple(value) for name, value in message.items() if isinstance(value, list)}
        made: dict[str, Any] = {"redis": RedisAccess(**message["redis"])}
        if message.get("fleets"):
            made["fleets"] = seams.call("fleets_from_message")(message["fleets"])
        return cls(**{**message, **lists, **made})


class Channel:
    """One end of the socket. Sent to from any thread, and read by one."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(None)  # whatever a job has made the default
        self.socket = end
        self._sending = threading.Lock()
        self._descriptor = descriptors.Descriptor(end)
        _channels.add(self)

    def send(self, message: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a message.

        Raises:
            OSError: the other end is gone.
        """
        head = json.dumps(message).encode()
        self.check()
        with self._sending:
            self.socket.sendall(_HEADER.pack(len(head), len(body)) + head + body)

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """Wait for a message; None when the other end is gone, also if a part of one has come."""
        self.check()
        try:
            header = self._read(_HEADER.size)
            if header is None:
                return None
            length, rest = _HEADER.unpack(header)
            head, body = self._read(length), self._read(rest)
        except OSError:  # reset
            return None
        if head is None or body is None:
            return None
        message: dict[str, Any] = json.loads(head)
        return message, body

    def check(self) -> None:
        """Does not return when a job has closed this end."""
        if descriptors.is_watching:
            self._descriptor.check()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()

    def _read(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            part = self.socket.recv(count - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)


_channels: "weakref.WeakSet[Channel]" = weakref.WeakSet()


def _close_in_child() -> None:
    """What a job forks neither answers in its place nor keeps the socket open beyond its end."""
    for channel in list(_channels):
        channel.close()


job_forks.on_child(_close_in_child)


def describe(
    error: BaseException,
    answers: error_report.RuleAnswers | None = None,
    *,
    was_made: bool = True,
    put_off: PutOff | None = None,
) -> error_report.Failure:
    """An error of this child, and what the rules of its class and of features answered, for the worker."""
    printed = tracebacks.text_of(error).encode(errors="backslashreplace")
    return error_report.Failure(
        error_class=error_report.error_class(error),
        message=error_report.error_message(error),
        backtrace=error_report.backtrace_lines(error),
        mro=[f"{kind.__module__}:{kind.__qualname__}" for kind in type(error).__mro__],
        traceback=printed.decode()[-TRACEBACK_LIMIT:],
        rule=answers.rule_for(error) if answers else None,
        retry_in=answers.retry_in if answers else None,
        is_given_up=answers.is_given_up if answers else False,
        was_made=was_made,
        put_off=None if put_off is None else put_off._asdict(),
    )


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
        answers = error_report.RuleAnswers(ruling.handling if ruling else DEFAULT_HANDLING)
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
