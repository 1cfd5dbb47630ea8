"""SHA-1 and SHA-256 as `hashlib` has them, without OpenSSL, which that loads: 5 MB, and 3 ms of a start.

They name things; nothing is kept secret by them.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha1, sha256
else:
    # As `random` of the standard library does it. Only 3.12 and later have `_sha2`.
    try:
        from _sha1 import sha1

        try:
            from _sha2 import sha256
        except ImportError:
            from _sha256 import sha256
    except ImportError:  # a Python that was built without them
        from hashlib import sha1, sha256

__all__ = ("sha1", "sha256")
