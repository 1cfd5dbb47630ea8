"""redis-py without what is not used here: its front loads an asyncio side, clusters and all commands.

Of redis-py we use connections and errors. Our modules take `redis` from here and name submodules
(`redis.exceptions.RedisError`); `runtime/lean_imports.py` says what others find who import it later.
"""

from typing import TYPE_CHECKING, Final

from kiqbridge.runtime import lean_imports

USED: Final = ("connection", "credentials", "exceptions", "retry", "backoff")

LATE: Final = (
    "asyncio",  # names of it, in annotations and in its asyncio side
    "importlib.metadata",  # of which it reads its own version
    "opentelemetry.metrics",  # its metrics, which an application turns on by its front
    "opentelemetry.sdk.metrics",
    "ssl",  # OpenSSL is 5 MB; the first connection that uses TLS loads it
)
"""What it imports and does not use here."""

if TYPE_CHECKING:
    import redis
else:
    redis = lean_imports.load("redis", USED, LATE)

__all__ = ("redis",)
