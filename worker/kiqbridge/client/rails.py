"""Which declared job performs what Rails enqueues with `perform_later` (protocol §17).

Such a job names a wrapper as its class, and the class to perform in its only argument. When the wrapper is
not declared itself, the declared job of the inner class is performed, with the arguments as Rails meant
them. `of` makes a definition out of that job's own which takes the wrapper's argument: so threads, event
loop, child processes and `perform_inline` run it like any other. What is in that argument, the feature
`active_job` knows.

Where the payload has no `retry`, that of the wrapper counts, as in Sidekiq.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kiqbridge import seams
from kiqbridge.errors import ConfigError, PayloadError
from kiqbridge.wire.active_job import WRAPPERS, performed_class

if TYPE_CHECKING:
    from kiqbridge.client.registry import JobDefinition, Registry

_WRAPPERS_OPTIONS = {"retry": True}


def parse(item: Mapping[str, Any]) -> Any:
    """What an item with the key `active_job` asks for; its `wrap(now, profile)` is the item to push.

    Raises:
        PayloadError: names the field and shows the value; or the feature is not here.
    """
    try:
        read = seams.call("parse_active_job", of="active_job")
    except ConfigError as error:
        raise PayloadError(str(error)) from error
    return read(item)


def find(payload: Mapping[str, Any], registry: "Registry") -> "JobDefinition | None":
    """The definition that performs a job, if there is one."""
    name = str(payload.get("class"))
    definition = registry.find(name)
    if definition is None and name in WRAPPERS:
        return of(payload, registry)
    return definition


def of(payload: Mapping[str, Any], registry: "Registry") -> "JobDefinition | None":
    """The definition that performs a job whose class is a wrapper which is not declared itself."""
    definition = registry.find(performed_class(payload))
    if definition is None:
        return None
    return replace(
        definition,
        options={**definition.options, **_WRAPPERS_OPTIONS},
        perform_of=partial(_perform_of, definition),
        arguments=None,  # the wrapper's own argument passes as it is
    )


def require(payload: Mapping[str, Any], registry: "Registry") -> "JobDefinition":
    """The definition that performs a job.

    Raises:
        JobNotFound: there is none; for a wrapped job the message names the class inside.
    """
    definition = find(payload, registry)
    return definition if definition is not None else registry.require(performed_class(payload))


def rules_of(
    payload: Mapping[str, Any], definition: "JobDefinition | None", registry: "Registry"
) -> "JobDefinition | None":
    """Whose rules count for a failure: of a wrapped job those of the class inside (§8.3).

    Args:
        payload: as fetched.
        definition: what performed it; None: nothing did.
        registry: the declared jobs.
    """
    wrapped = payload.get("wrapped")
    if not wrapped:
        return definition
    if payload.get("class") in WRAPPERS and (definition is None or definition.name not in WRAPPERS):
        return definition
    return registry.find(str(wrapped))


def shown_arguments(payload: Mapping[str, Any], definition: "JobDefinition | None") -> Any:
    """The arguments that go with the parameters of `definition`: of a wrapped job those inside."""
    args = payload.get("args", [])
    is_inside = (
        payload.get("class") in WRAPPERS
        and definition is not None
        and definition.name not in WRAPPERS
    )
    if is_inside and isinstance(args, list) and args and isinstance(args[0], dict):
        return args[0].get("arguments", [])
    return args


def _perform_of(definition: "JobDefinition", instance: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = seams.call("perform_active_job", of="active_job")(
        definition, instance
    )
    return made
