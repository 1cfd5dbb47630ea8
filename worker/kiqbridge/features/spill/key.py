"""The key that signs what is spilled: a secret of the stack, so that no other writer's message counts.

A message names the source of its jobs, by which it is decided what they may be. SQS does not say who sent it, and a
policy of the queue says nothing of a message that was moved: only the signature does.

The first message that is signed or checked reads the secret, and loads what that needs: never the start of a function.
"""

import contextlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.redis_access import aws_variables
from kiqbridge.config.setting import read
from kiqbridge.errors import RedisMisconfigured, RedisUnavailable
from kiqbridge.store import deadline

if TYPE_CHECKING:
    from kiqbridge.config.credentials.stored_address import StoredText

READ_WITHIN_S: Final = 3.0
"""Until a silent Secrets Manager counts as away."""
AGAIN_AFTER_S: Final = 5.0
"""Between two reads because a signature does not match."""
KEPT_S: Final = 3600.0
"""For so long a key signs until it is read again: after two rotations what it has signed is not accepted any more."""


class SpillKey:
    """Signs and checks; the secret is read once, and again as the times above say.

    What was signed before the key was rotated is accepted, by the version AWSPREVIOUS of the secret.

    Args:
        arn: of the secret.
        aws: the variables of the environment that are AWS's.
        clock: epoch seconds; not monotonic, since that stands still in an environment that is frozen.
    """

    def __init__(
        self, arn: str, aws: Mapping[str, str], clock: Callable[[], float] = time.time
    ) -> None:
        self._arn, self._aws, self._clock = arn, aws, clock
        self._stored: StoredText | None = None
        self._keys: list[bytes] = []
        self._read_at = 0.0
        self._compared_at = -AGAIN_AFTER_S

    def __repr__(self) -> str:
        return f"SpillKey({self._arn})"

    def signature(self, body: str) -> str:
        """The signature of a message, in hexadecimal; the same for the same body.

        Raises:
            RedisUnavailable: the key cannot be read.
        """
        if not self._keys:
            self._read()
        elif not self._is_within(self._read_at, KEPT_S):
            try:
                self._read()
            except RedisUnavailable:
                # What the known one signs is accepted, as long as it is the one before.
                self._read_at = self._clock() - KEPT_S + AGAIN_AFTER_S
        return _signature(self._keys[0], body)

    def accepts(self, body: str, signature: str) -> bool:
        """Whether the key, or the one before it, has signed this very body.

        Raises:
            RedisUnavailable: the key cannot be read.
        """
        if not self._keys:
            self._read()
        if self._fits(body, signature):
            return True
        if self._is_within(self._compared_at, AGAIN_AFTER_S):
            return False
        self._read(with_previous=True)
        self._compared_at = self._read_at
        return self._fits(body, signature)

    def _is_within(self, since: float, seconds: float) -> bool:
        """Whether less time has passed since then; never after the clock was set back."""
        return 0 <= self._clock() - since < seconds

    def _fits(self, body: str, signature: str) -> bool:
        given = signature.encode("utf-8", "surrogatepass")
        return any(hmac.compare_digest(_signature(key, body).encode(), given) for key in self._keys)

    def _read(self, *, with_previous: bool = False) -> None:
        if self._stored is None:
            from kiqbridge.config.credentials.stored_address import StoredText  # noqa: PLC0415 - see the module

            self._stored = StoredText(self._arn, "", self._aws)
        stored, within_s = self._stored, deadline.bounded(READ_WITHIN_S)
        keys = [stored.read(within_s)]
        if with_previous:
            with contextlib.suppress(RedisMisconfigured):  # it was never rotated
                keys.append(stored.read(within_s, VersionStage="AWSPREVIOUS"))
        if not keys[0]:
            raise RedisMisconfigured(
                f"{stored.name} is empty, and signs what is spilled: put a long random text into it"
            )
        self._keys = [key.encode() for key in keys if key]
        self._read_at = self._clock()


def _signature(key: bytes, body: str) -> str:
    return hmac.digest(key, body.encode("utf-8", "surrogatepass"), "sha256").hex()


def spill_key_of(environ: Mapping[str, str]) -> SpillKey | None:
    """The key that the environment names, None if it names none; nothing is read."""
    arn = read(ForFunctions.spill_key_secret_arn, environ)
    return SpillKey(arn, aws_variables(environ)) if arn else None
