"""Which arguments of a declared job are encrypted."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from kiqbridge.client.registry import JobDefinition
from kiqbridge.errors import ConfigError
from kiqbridge.runtime.redaction import shorten


def encrypting(definition: JobDefinition, encrypted: Any) -> JobDefinition:
    """The definition with the places of the arguments that are encrypted.

    Raises:
        ConfigError: the value cannot be used, or names no parameters of the job.
    """
    if encrypted is False:
        return definition
    if encrypted is not True and not (
        isinstance(encrypted, list | tuple) and _are_texts(encrypted)
    ):
        raise ConfigError(
            f"encrypted {shorten(encrypted)} is not true, false or a list of parameters; write True for the last one, or "
            "a list of names"
        )
    placed = [
        each.name
        for each in definition.signature.parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    names = placed[-1:] if encrypted is True else encrypted
    if not names or not set(names) <= set(placed):
        raise ConfigError(
            f"encrypted {encrypted!r} names no parameters of it; write True for the last one, or a list out of "
            f"{', '.join(placed) or 'its parameters (it has none)'}"
        )
    return replace(definition, encrypted=tuple(sorted(map(placed.index, names))))


def _are_texts(values: Iterable[object]) -> bool:
    return all(isinstance(each, str) for each in values)
