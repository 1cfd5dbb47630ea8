"""What a worker and the child processes that run its jobs say to each other.

One socket a child. A message is a JSON object, and bytes where a job goes along; never pickle, which
would let whoever writes to the socket choose code. An error is told by its names and lines, and made
into a stand-in on this side, so that everything that handles errors goes on as if it had been raised
here.
"""

import contextlib
import json
import socket
import struct
import sys
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from kiqbridge import descriptors, job_forks
from kiqbridge.payload import ProfileSetting
from kiqbridge.raw_job import DEFAULT_MAX_PAYLOAD_BYTES
from kiqbridge.redaction import DEFAULT_KEYS

_HEADER = struct.Struct(">II")

FAILURE = "__kiqbridge_failure__"
"""Attribute of a stand-in: the `Failure` that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """What of the worker's settings its children need.

    Told over the socket: flags and environment are for everybody to read, and there are passwords.
    """

    require: tuple[str, ...]
    log_level: str
    log_format: str
    redis_url: str = field(repr=False)
    namespace: str
    profile: ProfileSetting
    timeout_s: float
    max_iteration_runtime_s: float | None = None
    logged_job_attributes: tuple[str, ...] = ("bid", "tags")
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
        return cls(**{**message, **lists})


class Channel:
    """One end of the socket. Sent to by one thread at a time, and read by one."""

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(None)  # whatever a job has made the default
        self.socket = end
        self._descriptor = descriptors.Descriptor(end)
        _channels.add(self)

    def send(self, message: Mapping[str, Any], body: bytes = b"") -> None:
        """Send a message.

        Raises:
            OSError: the other end is gone.
        """
        head = json.dumps(message).encode()
        self.check()
        self.socket.sendall(_HEADER.pack(len(head), len(body)) + head + body)

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """Wait for a message; None when the other end is gone, in the midst of one too."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error in a child, and what the rules of its class answered about it there.

    Attributes:
        error_class: `builtins` by name, others `module.QualName`, as it is kept with the job.
        message: cut and encodable, as it is kept with the job.
        backtrace: lines, innermost first.
        mro: `module:QualName` of its classes, its own first.
        traceback: as Python prints it, for the log.
        rule: what `on_error` says of its class, or None.
        retry_in: what `retry_in` answered: "discard", "kill", seconds, or None.
        is_given_up: whether `retries_exhausted` asked to skip the dead set.
    """

    error_class: str
    message: str
    backtrace: Sequence[str]
    mro: Sequence[str]
    traceback: str
    rule: str | float | None = None
    retry_in: str | float | None = None
    is_given_up: bool = False

    def stand_in(self) -> BaseException:
        """An error of the same name, message and backtrace.

        It is an instance of the nearest class of the original that is loaded here, so that handlers
        recognize it; attributes that the original's own code sets are not there.
        """
        module, _, path = self.mro[0].partition(":")
        name = path.rpartition(".")[2]
        namespace = {
            "__module__": module,
            "__qualname__": path,
            "__str__": lambda _self: self.message,
        }
        error: BaseException | None = None
        for base in filter(None, map(_find_class, self.mro)):
            # A class with rules of its own for subclasses or instances: the next one will do.
            with contextlib.suppress(Exception):
                kind: type[BaseException] = type(name, (base,), namespace)
                error = kind.__new__(kind)
                break
        if error is None:
            error = type(name, (Exception,), namespace)()
        error.__cause__ = ChildTraceback(self.traceback)
        setattr(error, FAILURE, self)
        return error


def failure_of(error: BaseException) -> Failure | None:
    """What a stand-in stands for; None for an error of this process."""
    found = getattr(error, FAILURE, None)
    return found if isinstance(found, Failure) else None


class ChildTraceback(Exception):  # noqa: N818 - no error, but where to see one
    """Where an error was raised in a child process, for the log."""


def _find_class(path: str) -> type[BaseException] | None:
    """A class of errors that is loaded here; nothing is imported for it."""
    module, _, name = path.partition(":")
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None
