"""Kiqbridge: Sidekiq-compatible background jobs for Python and AWS.

This is the client half: declaring jobs and enqueuing them. It loads nothing of the engine.
"""

from kiqbridge.client import Client, configure
from kiqbridge.current import interrupted, log_context
from kiqbridge.current_attributes import locale
from kiqbridge.errors import (
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
from kiqbridge.iterable import IterableJob
from kiqbridge.job import Job, job
from kiqbridge.server import Server, server

__version__ = "0.1.0"

__all__ = [
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
    "Server",
    "__version__",
    "configure",
    "interrupted",
    "job",
    "locale",
    "log_context",
    "server",
]
