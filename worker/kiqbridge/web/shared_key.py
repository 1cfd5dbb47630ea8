"""The key of forms for processes that start and end by themselves: it is in Redis, made by the first of them.

Whoever may read it in Redis could make a form's token, and a session of a user with a password. A page with such
users has a secret of its own: KIQBRIDGE_WEB_SECRET.
"""

import secrets
from typing import Final

from kiqbridge.api import Operator

KEY_BYTES: Final = 32


def fetch_shared_key(operator: Operator) -> bytes:
    """The key, made if there is none (`SET kb:web:key … NX`). Delete it in Redis to have a new one.

    Raises:
        RedisUnavailable: Redis does not answer.
        RedisRefused: Redis refuses it.
    """
    key = operator.keys.web_key
    pool = operator.pool
    pool.call("SET", key, secrets.token_urlsafe(KEY_BYTES), "NX")
    found = pool.call("GET", key)
    return found if isinstance(found, bytes) else str(found).encode()
