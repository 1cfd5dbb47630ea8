"""Which queues a worker serves; which of them no job uses, and which used ones no worker serves."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kiqbridge.client.registry import JobDefinition
from kiqbridge.client.server import CapsuleSetup
from kiqbridge.config.config import Config, routed_queue
from kiqbridge.errors import KiqbridgeError, near_names
from kiqbridge.runtime.records import dataclass
from kiqbridge.store.process_set import MOST_READ, queues_of_processes
from kiqbridge.wire.keys import Keys

if TYPE_CHECKING:
    from kiqbridge.client.client import Client
    from kiqbridge.client.fleets import FleetWriters

logger = logging.getLogger(__name__)

_NAMED = 3
"""Jobs named for each queue; more are only counted."""


def declared_queues(declared: Iterable[JobDefinition]) -> Mapping[str, Sequence[str]]:
    """Queue → names of the jobs that use it, for their first run or for retries, in declared order."""
    queues: dict[str, list[str]] = {}
    for definition in declared:
        for option in ("queue", "retry_queue"):
            name = definition.options.get(option, "default" if option == "queue" else None)
            if isinstance(name, str) and definition.name not in queues.setdefault(name, []):
                queues[name].append(definition.name)
    return queues


def with_default_queues(
    config: Config, declared: Iterable[JobDefinition], capsules: Mapping[str, CapsuleSetup]
) -> Config:
    """The settings, with the queues of the declared jobs if no others are named.

    Those of other fleets are left to their workers, those of capsules to the capsules, and the queue to which unknown classes are routed is left
    to the other language. With several, each has weight 1, so that none has to wait until another is empty.

    Args:
        config: the settings; queues that come from a file, a variable or a flag stay as they are.
        declared: all jobs.
        capsules: those declared in code.
    """
    if config.sources["queues"] != "default":
        return config
    taken = {routed_queue(config.unknown_class)}
    taken.update(name for section in config.capsules for name, _ in section.queues)
    taken.update(name for setup in capsules.values() for name, _ in setup.queues)
    fleets = config.fleets
    names = [
        name
        for name in declared_queues(declared)
        if name not in taken and (not fleets or fleets.has(name))
    ]
    if not names:
        return config
    weight = 1 if len(names) > 1 else 0
    return replace(config, queues=tuple((name, weight) for name in names))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFaults:
    """Queues that do not fit together.

    Attributes:
        unused: served here, but no declared job uses it → near names of queues that are used.
        unserved: used by declared jobs, but served by no worker → names of the jobs.
    """

    unused: Mapping[str, Sequence[str]]
    unserved: Mapping[str, Sequence[str]]


def find_oddities(
    declared: Mapping[str, Sequence[str]], served: Iterable[str], elsewhere: Collection[str]
) -> QueueFaults:
    """Compare what jobs use with what is served; nothing is odd where no job is declared.

    Args:
        declared: as `declared_queues` has it.
        served: queues of this process.
        elsewhere: queues of other living processes.
    """
    here = list(dict.fromkeys(served))
    if not declared:
        return QueueFaults(unused={}, unserved={})
    return QueueFaults(
        unused={name: _near(name, declared) for name in here if name not in declared},
        unserved={
            name: jobs
            for name, jobs in declared.items()
            if name not in here and name not in elsewhere
        },
    )


def warn_of_odd_queues(
    run: Callable[..., list[Any]],
    keys: Keys,
    served: Collection[str],
    declared: Iterable[JobDefinition],
    fleets: "FleetWriters | None" = None,
) -> None:
    """Log at the start which queues no job uses, and which no worker serves.

    Args:
        run: sends commands and returns their replies.
        keys: the namespace.
        served: queues of this process.
        declared: all jobs.
        fleets: those of this process; queues of others are looked at by their workers.
    """
    used = declared_queues(declared)
    if fleets is not None:
        used = {name: jobs for name, jobs in used.items() if fleets.has(name)}
    try:
        elsewhere = _served_elsewhere(run, keys, set(used) - set(served))
    except KiqbridgeError as error:
        logger.debug("could not find out which processes serve queues: %s", error)
        return
    odd = find_oddities(used, served, elsewhere)
    for name, near in odd.unused.items():
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "is it for jobs that others declare?"
        )
        logger.warning("queue %s is served here, but no declared job uses it; %s", name, hint)
    for name, jobs in odd.unserved.items():
        shown = ", ".join(jobs[:_NAMED])
        more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
        logger.warning(
            "no worker serves queue %s, neither this one nor any other that runs now: jobs of %s%s wait "
            "there; name it with -q, here or in another worker",
            name,
            shown,
            more,
        )


def warn_of_another_client(own: "Client", pushing: "Client") -> None:
    """Log at the start that declared jobs are pushed to another place than the one that this worker serves.

    Args:
        own: the worker's.
        pushing: what declared jobs are pushed through here.
    """
    if (own.pool.place, own.keys.prefix) == (pushing.pool.place, pushing.keys.prefix):
        return
    logger.warning(
        "this worker serves %s, but what its code enqueues goes to %s, as configure or Celery(broker=…) says there, where "
        "this worker performs nothing: leave that out, or start the worker with that address (REDIS_URL, --redis-url)",
        _shown(own),
        _shown(pushing),
    )


def _shown(client: "Client") -> str:
    namespace = client.keys.prefix.rstrip(":")
    return f"{client.pool.address}{f', namespace {namespace}' if namespace else ''}"


def _served_elsewhere(run: Callable[..., list[Any]], keys: Keys, wanted: set[str]) -> set[str]:
    """Queues of other processes; all of these are only read if some of them do not serve what is wanted."""
    if not wanted:
        return set()
    some = queues_of_processes(run, keys, most=MOST_READ)
    return some if wanted <= some else queues_of_processes(run, keys)


def _near(name: str, known: Iterable[str]) -> list[str]:
    return near_names(name, known, 2)
