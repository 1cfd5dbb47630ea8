"""Sessions in a signed cookie, and the token that each form of a session carries.

The server keeps nothing of a session but the ids of those that were ended before their time. The cookie
holds the user's name, an id, when it ends, and a proof made of the password's hash: a changed password
ends all sessions. Before anybody has signed in there is a session without a name, so that forms have a token.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
from dataclasses import dataclass
from typing import Final

MIN_KEY_BYTES: Final = 32
MAX_COOKIE: Final = 2000
MAX_ENDED: Final = 10_000
_ID_BYTES: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One browser's session.

    Attributes:
        id: random.
        name: of the user; empty = no user has signed in.
        ends_at: epoch seconds.
        proof: made of the password's hash at sign-in.
    """

    id: str
    name: str
    ends_at: float
    proof: str


class Sessions:
    """Makes and reads cookies with one key; safe for threads.

    Args:
        key: at least 32 bytes; all processes that share sessions have the same.
        lifetime_s: seconds from sign-in to the end.
    """

    def __init__(self, key: bytes, lifetime_s: float) -> None:
        self._key = key
        self.lifetime_s = lifetime_s
        self._ended: dict[str, float] = {}
        self._lock = threading.Lock()
        # Cookies know no ports: two pages on one host must not overwrite each other's.
        self._cookie = f"kiqbridge_{self._mac('cookie', b'')[:8].hex()}"

    def cookie(self, scheme: str) -> str:
        """The cookie's name. Over https no other host can set one of that name (RFC 6265bis, 4.1.3.2)."""
        return f"__Host-{self._cookie}" if scheme == "https" else self._cookie

    def begin(self, now: float, *, name: str = "", password_hash: str = "") -> Session:
        """A new session, with an id of its own."""
        return Session(
            id=secrets.token_urlsafe(_ID_BYTES),
            name=name,
            ends_at=now + self.lifetime_s,
            proof=self.proof(password_hash),
        )

    def write(self, session: Session) -> str:
        """The cookie's value."""
        fields = [session.id, session.name, session.ends_at, session.proof]
        body = json.dumps(fields, separators=(",", ":")).encode()
        return seal(self._key, "session", body)

    def read(self, cookie: str, now: float) -> Session | None:
        """The session of a cookie; None if the cookie is not ours, or its session is over."""
        if len(cookie) > MAX_COOKIE:
            return None
        body = unseal(self._key, "session", cookie)
        if body is None:
            return None
        identity, name, ends_at, proof = json.loads(body)  # ours, by its signature
        session = Session(id=identity, name=name, ends_at=ends_at, proof=proof)
        with self._lock:
            is_over = now >= ends_at or identity in self._ended
        return None if is_over else session

    def end(self, session: Session, now: float) -> None:
        """Its cookie is worth nothing from now on, in this process."""
        with self._lock:
            self._ended[session.id] = session.ends_at
            if len(self._ended) > MAX_ENDED:
                self._ended = {each: at for each, at in self._ended.items() if at > now}
            while len(self._ended) > MAX_ENDED:  # the one that was ended first
                del self._ended[next(iter(self._ended))]

    def proof(self, password_hash: str) -> str:
        """What a session keeps of a password's hash."""
        return self._mac("proof", password_hash.encode())[:12].hex()

    def token(self, seed: str) -> str:
        """The token of a form: of a session's id, or of an identity that each request proves anew."""
        return encode(self._mac("token", seed.encode("utf-8", "replace")))

    def _mac(self, purpose: str, text: bytes) -> bytes:
        return _mac(self._key, purpose, text)


def is_same(given: object, expected: str) -> bool:
    """Whether a form has the token that is expected; in constant time."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode("utf-8", "replace"), expected.encode()
    )


def seal(key: bytes, purpose: str, body: bytes) -> str:
    """A cookie's value that only who has the key can make; everybody can read it."""
    return f"{encode(body)}.{encode(_mac(key, purpose, body))}"


def unseal(key: bytes, purpose: str, value: str) -> bytes | None:
    """What was sealed for this purpose with this key; None if the value is nothing of that."""
    encoded, _, signature = value.partition(".")
    try:
        body, given = decode(encoded), decode(signature)
    except ValueError:
        return None
    return body if hmac.compare_digest(given, _mac(key, purpose, body)) else None


def _mac(key: bytes, purpose: str, text: bytes) -> bytes:
    return hmac.new(key, purpose.encode() + b"\0" + text, hashlib.sha256).digest()


def encode(value: bytes) -> str:
    """As URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes of it.

    Raises:
        ValueError: it is none.
    """
    encoded = text.encode("ascii")
    return base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
