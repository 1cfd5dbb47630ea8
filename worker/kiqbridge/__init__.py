"""Kiqbridge: Sidekiq-compatible background jobs for Python and AWS.

This is the client half: declaring jobs and enqueuing them. It loads nothing of the engine.
"""

import os
from typing import TYPE_CHECKING, Any

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
from kiqbridge.runtime import redaction

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.client.current import CurrentJob, current_job, interrupted, log_context
    from kiqbridge.client.default_client import configure
    from kiqbridge.client.job import Job, RemoteJob, job
    from kiqbridge.client.job_handle import JobHandle
    from kiqbridge.client.server import Server, server
    from kiqbridge.features.current_attributes.middleware import locale
    from kiqbridge.features.depends.filling import Depends
    from kiqbridge.features.dynamic.schedule import Schedule
    from kiqbridge.features.dynamic.schedules import Schedules
    from kiqbridge.features.iterable.iterable import IterableJob

__version__ = "0.1.0"

# Loaded when they are asked for: a command that needs none of them, such as a health check, starts the sooner, and
# a worker is asked how it shall load them (commands/cli.py) before it has.
_HOMES = {
    "Client": "client",
    "CurrentJob": "current",
    "Depends": "kiqbridge.features.depends.filling",
    "IterableJob": "kiqbridge.features.iterable.iterable",
    "Job": "job",
    "JobHandle": "job_handle",
    "RemoteJob": "job",
    "Schedule": "kiqbridge.features.dynamic.schedule",
    "Schedules": "kiqbridge.features.dynamic.schedules",
    "Server": "server",
    "configure": "default_client",
    "current_job": "current",
    "interrupted": "current",
    "job": "job",
    "locale": "kiqbridge.features.current_attributes.middleware",
    "log_context": "current",
    "server": "server",
}

__all__ = [
    "ArgumentMismatch", "Client", "ConfigError", "CurrentJob", "Depends", "EventError",
    "IterableJob", "Job", "JobHandle", "JobInterrupted", "JobNotFound", "JobRefused", "JobTimeout",
    "KiqbridgeError", "NotAllowed", "PayloadError", "ProcessDied", "PushNotReplicated",
    "PushOutcomeUnknown", "RedisRefused", "RedisUnavailable", "RemoteJob", "Schedule", "Schedules",
    "Server", "__version__", "configure", "current_job", "interrupted", "job", "locale",
    "log_context", "server",
]  # fmt: skip


def _names_to_redact() -> Any:
    from kiqbridge.config.client_settings import ForClients  # noqa: PLC0415 - most never ask
    from kiqbridge.config.setting import read  # noqa: PLC0415 - as above

    return read(ForClients.redact, os.environ)


redaction.configure_later(_names_to_redact)  # a worker chooses by its file, too


def __getattr__(name: str) -> Any:
    if (home := _HOMES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - its name shall not be one of this package

    found = globals()[name] = getattr(
        import_module(home if "." in home else f"kiqbridge.client.{home}"), name
    )
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
