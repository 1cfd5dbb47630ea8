"""Which arguments of a declared job are encrypted; how, is in `encryption`, which few load."""

from collections.abc import Sequence
from dataclasses import replace

from kiqbridge.client.registry import JobDefinition
from kiqbridge.errors import ConfigError


def encrypting(definition: JobDefinition, encrypted: bool | Sequence[str]) -> JobDefinition:  # noqa: FBT001 - as declared
    """The definition with the places of the arguments that are encrypted.

    Raises:
        ConfigError: there is no such parameter, or it has no fixed place.
    """
    if encrypted is False:
        return definition
    placed = [
        each.name
        for each in definition.signature.parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    names = placed[-1:] if encrypted is True else encrypted
    if isinstance(names, str) or not names or not set(names) <= set(placed):
        raise ConfigError(
            f"job {definition.name!r}: encrypted {encrypted!r} names no parameters of it; write True for the last "
            f"one, or a list out of {', '.join(placed) or 'its parameters (it has none)'}"
        )
    return replace(definition, encrypted=tuple(sorted(map(placed.index, names))))
