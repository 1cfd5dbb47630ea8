"""Passwords of the page's users: kept as salted hashes only (scrypt), compared in constant time.

The form is `scrypt$LOG2_N$R$P$SALT$HASH`, salt and hash in URL-safe base64 without padding. The costs are
OWASP's: N=2^15, r=8, p=3, which takes 32 MiB and a few hundred milliseconds.
"""

import hashlib
import hmac
import secrets
import threading
from typing import Final

from kiqbridge.errors import ConfigError
from kiqbridge.web.sessions import decode, encode

LOG2_N: Final = 15
R: Final = 8
P: Final = 3
SALT_BYTES: Final = 16
HASH_BYTES: Final = 32
MAX_PASSWORD_BYTES: Final = 1024
"""A longer one is refused before it costs anything."""

_LIMITS: Final = ((14, 20), (8, 32), (1, 16))
_AT_ONCE: Final = threading.BoundedSemaphore(2)
"""Hashes at a time: attempts from everywhere must not take all memory."""


Costs = tuple[int, int, int]
"""Binary logarithm of N, R and P."""


def hash_password(password: str) -> str:
    """The text that is kept of a password.

    Raises:
        ConfigError: the password is empty or longer than 1,024 bytes.
    """
    if not password or len(password.encode()) > MAX_PASSWORD_BYTES:
        raise ConfigError(f"password: write one of 1 to {MAX_PASSWORD_BYTES:,} bytes")
    salt = secrets.token_bytes(SALT_BYTES)
    made = _scrypt(password, salt, (LOG2_N, R, P))
    return f"scrypt${LOG2_N}${R}${P}${encode(salt)}${encode(made)}"


def check_hash(text: str, whose: str) -> str:
    """The text itself, if it is the hash of a password.

    Raises:
        ConfigError: it is none; names whose it is and shows no part of it.
    """
    try:
        _read(text)
    except ValueError as error:
        raise ConfigError(
            f"the password of {whose} is no hash of `kiqbridge web --hash-password`; make one with that command"
        ) from error
    return text


def is_right(password: str, kept: str | None) -> bool:
    """Whether a password belongs to a hash; as slow for a user that does not exist (None)."""
    if len(password.encode("utf-8", "replace")) > MAX_PASSWORD_BYTES:
        return False
    costs, salt, expected = _read(kept or _NOBODY)
    with _AT_ONCE:
        made = _scrypt(password, salt, costs)
    return hmac.compare_digest(made, expected) and kept is not None


def _read(text: str) -> tuple[Costs, bytes, bytes]:
    name, *numbers, salt, made = text.split("$")
    values = [int(number) for number in numbers]
    if name != "scrypt" or len(values) != len(_LIMITS):
        raise ValueError(text)
    if not all(low <= value <= high for value, (low, high) in zip(values, _LIMITS, strict=True)):
        raise ValueError(text)
    found = decode(salt), decode(made)
    if len(found[0]) < SALT_BYTES or len(found[1]) != HASH_BYTES:
        raise ValueError(text)
    return (values[0], values[1], values[2]), *found


def _scrypt(password: str, salt: bytes, costs: Costs) -> bytes:
    log2_n, r, p = costs
    n = 1 << log2_n
    return hashlib.scrypt(
        password.encode("utf-8", "replace"),
        salt=salt,
        n=n,
        r=r,
        p=p,
        maxmem=256 * n * r,  # OpenSSL's own bound is below what N=2^15 needs
        dklen=HASH_BYTES,
    )


_NOBODY: Final = f"scrypt${LOG2_N}${R}${P}${encode(bytes(SALT_BYTES))}${encode(bytes(HASH_BYTES))}"
