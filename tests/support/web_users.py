"""Users of the page for tests: a hash at the lowest costs that are accepted, so that no test is slow."""

import base64
import functools
import hashlib

PASSWORD = "correct horse"
SECRET = b"0123456789abcdef0123456789abcdef"


@functools.cache
def cheap_hash(password: str = PASSWORD) -> str:
    salt = b"sixteen bytes 16"
    made = hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)
    parts = [base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in (salt, made)]
    return f"scrypt$14$8$1${'$'.join(parts)}"
