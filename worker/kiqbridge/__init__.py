"""Kiqbridge: Sidekiq-compatible background jobs for Python and AWS.

This is the client half: declaring jobs and enqueuing them. It loads nothing of the engine.
"""

import os
from typing import TYPE_CHECKING, Any

from kiqbridge import redaction
from kiqbridge.client.client import Client
from kiqbridge.client.current import interrupted, log_context
from kiqbridge.client.default_client import configure
from kiqbridge.client.job import Job, job
from kiqbridge.client.server import Server, server
from kiqbridge.config.client_settings import REDACT
from kiqbridge.config.setting import read
from kiqbridge.errors import (
    ArgumentMismatch,
    ConfigError,
    EventError,
    JobInterrupted,
    JobNotFound,
    JobRefused,
    JobTimeout,
    KiqbridgeError,
    NotAllowed,
    PayloadError,
    ProcessDied,
    PushNotReplicated,
    PushOutcomeUnknown,
    RedisRefused,
    RedisUnavailable,
)

if TYPE_CHECKING:
    from kiqbridge.client.current_attributes import locale
    from kiqbridge.client.iterable import IterableJob
    from kiqbridge.client.remote import RemoteJob
    from kiqbridge.client.schedule import Schedule
    from kiqbridge.client.schedules import Schedules

__version__ = "0.1.0"

__all__ = [
    "ArgumentMismatch",
    "Client",
    "ConfigError",
    "EventError",
    "IterableJob",
    "Job",
    "JobInterrupted",
    "JobNotFound",
    "JobRefused",
    "JobTimeout",
    "KiqbridgeError",
    "NotAllowed",
    "PayloadError",
    "ProcessDied",
    "PushNotReplicated",
    "PushOutcomeUnknown",
    "RedisRefused",
    "RedisUnavailable",
    "RemoteJob",
    "Schedule",
    "Schedules",
    "Server",
    "__version__",
    "configure",
    "interrupted",
    "job",
    "locale",
    "log_context",
    "server",
]

redaction.configure_later(lambda: read(REDACT, os.environ))  # a worker chooses by its file, too


def __getattr__(name: str) -> Any:
    """What few need, loaded when it is asked for: a function that enqueues starts the sooner."""
    if name == "IterableJob":
        from kiqbridge.client.iterable import IterableJob  # noqa: PLC0415 - that is the point

        return IterableJob
    if name == "RemoteJob":
        from kiqbridge.client.remote import RemoteJob  # noqa: PLC0415 - as above

        return RemoteJob
    if name == "Schedule":
        from kiqbridge.client.schedule import Schedule  # noqa: PLC0415 - as above

        return Schedule
    if name == "Schedules":
        from kiqbridge.client.schedules import Schedules  # noqa: PLC0415 - as above

        return Schedules
    if name == "locale":
        from kiqbridge.client.current_attributes import locale  # noqa: PLC0415 - as above

        return locale
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
