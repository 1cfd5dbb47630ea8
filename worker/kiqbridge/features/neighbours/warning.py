"""Ruby workers on the same queues: each language fails the jobs whose code only the other has."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kiqbridge.engine.parts import EngineParts
from kiqbridge.errors import KiqbridgeError
from kiqbridge.store.process_set import MOST_READ, is_ours, queues_in, read_infos
from kiqbridge.wire.keys import Keys

logger = logging.getLogger(__name__)

_NAMED = 5
"""Processes named in the warning; more are only counted."""


def look(parts: EngineParts) -> tuple[()]:
    """Warn at the start of a worker; it needs no thread."""
    unknown_class = parts.config.unknown_class
    warn_of_shared_queues(parts.pool.run, parts.keys, parts.served_queues(), unknown_class)
    return ()


def warn_of_shared_queues(
    run: Callable[..., list[Any]], keys: Keys, queues: Collection[str], unknown_class: str
) -> None:
    """Log at the start which Ruby processes serve our queues as well.

    Args:
        run: sends commands and returns their replies.
        keys: the namespace.
        queues: names of our queues.
        unknown_class: the setting; with a route, Ruby jobs that come here are passed on.
    """
    try:
        shared = find_shared(read_infos(run, keys, most=MOST_READ), queues)
    except KiqbridgeError as error:
        logger.debug("could not find out which processes serve our queues: %s", error)
        return
    if not shared:
        return
    names = sorted(set().union(*shared.values()))
    processes = sorted(shared)
    more = f" and {len(processes) - _NAMED} more" if len(processes) > _NAMED else ""
    count = "1 Ruby process serves" if len(shared) == 1 else f"{len(shared)} Ruby processes serve"
    consequence = (
        "a Ruby job that comes here is passed on, a Python job that goes there fails until it is dead"
        if unknown_class != "retry"
        else "each language fails the other's jobs and retries them until they are dead, or until they "
        "meet the right worker"
    )
    logger.warning(
        "%s queue %s as well (%s%s): %s; give each language queues of its own, or set unknown_class to route:QUEUE",
        count,
        ", ".join(names),
        ", ".join(processes[:_NAMED]),
        more,
        consequence,
    )


def find_shared(
    infos: Mapping[str, bytes | None], queues: Collection[str]
) -> Mapping[str, Sequence[str]]:
    """Identity of a live Ruby process → those of our queues that it serves.

    Args:
        infos: identity → the field `info` of its hash (§10.2), None when it is gone.
        queues: ours.
    """
    shared = {}
    for identity, info in infos.items():
        if info is None or is_ours(info):
            continue
        names = [name for name in queues_in(info) if name in queues]
        if names:
            shared[identity] = names
    return shared
