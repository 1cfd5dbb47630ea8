"""Declaring jobs in a test without leaving them behind, and looking at what would be pushed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kiqbridge import job
from kiqbridge.client.default_client import configure, own_default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.runtime.logs.log_level import begin_job, end_job


@contextmanager
def own_declarations() -> Iterator[None]:
    """Start with nothing declared, and forget at the end what was, and which client was configured."""
    declared = dict(default_registry._definitions)
    default_registry._definitions.clear()
    try:
        with own_default_client():
            yield
    finally:
        default_registry._definitions.clear()
        default_registry._definitions.update(declared)


@contextmanager
def at_level(level: int) -> Iterator[None]:
    """As within a job whose payload asks for this log level."""
    token = begin_job({"log_level": logging.getLevelName(level).lower()})
    assert token is not None
    try:
        yield
    finally:
        end_job(token)


class Pushes:
    """Jobs that declared classes pushed: (class as middleware sees it, payload); none is written."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    def __call__(self, declared, payload, queue, call_next):
        assert queue == payload["queue"]
        self.calls.append((declared, dict(payload)))

    @property
    def last(self) -> dict[str, Any]:
        return self.calls[-1][1]


def configure_capture() -> Pushes:
    """Make the default client one that stops each push at its middleware, before Redis."""
    pushes = Pushes()
    client = configure("redis://nowhere.invalid:1/0")
    client.middleware.add(pushes)
    return pushes


def declare_work(seen, **options):
    """The job Work, which notes its key, and may fail then."""

    @job(name="Work", **options)
    def work(key, fails=False):
        seen.append(key)
        if fails:
            raise ValueError(key)

    return work


def outcomes(jobs):
    """How the jobs of a fake have ended."""
    return [each.outcome for each in jobs.performed]
