"""Kiqbridge: Sidekiq-compatible background jobs for Python and AWS.

This is the client half: declaring jobs and enqueuing them. It loads nothing of the engine.
"""

from kiqbridge.client import Client, configure
from kiqbridge.errors import (
    ConfigError,
    EventError,
    JobNotFound,
    KiqbridgeError,
    NotAllowed,
    PayloadError,
    PushNotReplicated,
    PushOutcomeUnknown,
    RedisRefused,
    RedisUnavailable,
)
from kiqbridge.job import Job, job

__version__ = "0.1.0"

__all__ = [
    "Client",
    "ConfigError",
    "EventError",
    "Job",
    "JobNotFound",
    "KiqbridgeError",
    "NotAllowed",
    "PayloadError",
    "PushNotReplicated",
    "PushOutcomeUnknown",
    "RedisRefused",
    "RedisUnavailable",
    "__version__",
    "configure",
    "job",
]
