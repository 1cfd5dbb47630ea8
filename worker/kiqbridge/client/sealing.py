"""Arguments and values that are sealed for as long as they are in Redis, by the feature that can (`Feature.seals`).

A definition says at which places (`encrypted`), a payload which of its arguments are (`kb_encrypted`). They are sealed
once client middleware has seen the job, and opened where the job is called.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Protocol, cast

from kiqbridge.client.registry import JobDefinition
from kiqbridge.errors import DecryptionFailed, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.seams import loaded
from kiqbridge.wire.payload import ENCRYPTED


class Sealing(Protocol):
    """What the module has that a feature names."""

    def encrypt(self, payload: dict[str, Any], places: Sequence[int]) -> dict[str, Any]:
        """The payload with its arguments at these places sealed; one that is sealed already stays as it is."""

    def plain_arguments(self, payload: Mapping[str, Any], definition: JobDefinition) -> list[Any]:
        """The arguments of a job as they were, converted by the annotations of its parameters."""

    def encrypt_value(self, jid: str, text: str) -> str:
        """The JSON text of what a job returned as one of the sealed value."""

    def decrypt_value(self, jid: str, value: object) -> str:
        """The counterpart of `encrypt_value`."""


@cache
def sealing() -> Sealing:
    """That of the feature that is here.

    Raises:
        DecryptionFailed: there is none; the job is retried.
    """
    for each in loaded():
        if each.seals:
            return cast("Sealing", each.load(each.seals))
    raise DecryptionFailed(
        "this job has encrypted arguments (kb_encrypted), and the feature encryption is not here; install it, and the job "
        "succeeds when it is retried"
    )


def arguments_in(payload: Mapping[str, Any], definition: JobDefinition) -> list[Any]:
    """What a job is called with: opened if it is encrypted, else by the annotations of its parameters.

    Raises:
        PayloadError, ArgumentMismatch: they cannot be arguments of this job.
    """
    args = payload.get("args")
    if not isinstance(args, list):
        raise PayloadError(
            f"args: {shorten(args)} is not a list; the client that pushes this job must write its arguments as a list"
        )
    if ENCRYPTED in payload:
        return sealing().plain_arguments(payload, definition)
    return args if definition.arguments is None else definition.arguments.from_wire(args)
