"""redis-py without what nobody here uses: its front loads an asyncio side, clusters and all commands.

Of redis-py we use connections and errors. Our modules take `redis` from here and name submodules
(`redis.exceptions.RedisError`); `runtime/lean_imports.py` says what others find who import it later.
"""

from typing import TYPE_CHECKING, Final

from kiqbridge.runtime import lean_imports

USED: Final = ("connection", "credentials", "exceptions", "retry", "backoff")

if TYPE_CHECKING:
    import redis
else:
    # The metadata of packages, of which it reads its own version.
    redis = lean_imports.load("redis", USED, late=("importlib.metadata",))

__all__ = ("redis",)
