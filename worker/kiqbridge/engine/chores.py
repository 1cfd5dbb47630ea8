"""Small chores of the kernel; leader.py lists all."""

import time
from collections.abc import Callable
from typing import Final

from kiqbridge.engine.inflight.incarnations import UnregisteredWatch
from kiqbridge.engine.parts import EngineParts
from kiqbridge.store.forgetting import forget_what_is_over
from kiqbridge.store.process_set import remove_gone
from kiqbridge.store.redis_connection import RedisConnection

FORGET_S: Final = 3600.0
"""How often guards and ledgers that are over are forgotten; pushes forget some as well."""

Call = Callable[[RedisConnection], object]


def remove_processes(parts: EngineParts) -> Call:
    """Processes that are gone leave the set."""
    return lambda connection: remove_gone(connection, parts.keys)


def forget(parts: EngineParts) -> Call:
    """Hourly; every minute while more are left than one turn takes."""
    forget_at = 0.0

    def forget_some(connection: RedisConnection) -> None:
        nonlocal forget_at
        if time.monotonic() >= forget_at and forget_what_is_over(connection, parts.keys):
            forget_at = time.monotonic() + FORGET_S

    return forget_some


def watch_unregistered(parts: EngineParts) -> Call:
    """Now and then all keys are looked through, one step at a call."""
    watch = UnregisteredWatch(parts.keys)
    return lambda connection: watch.step(connection, time.monotonic())


def look_at_rights(parts: EngineParts) -> Call:
    """While something is refused, what this worker may do is tried again."""
    return lambda _connection: parts.rights.look_again()
