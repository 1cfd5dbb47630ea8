"""The values of a `Memory`, by their keys: hashes, sorted sets, lists, sets and texts, some of which expire."""

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from kiqbridge.errors import RedisRefused

T = TypeVar("T")


class Entry(NamedTuple):
    """One member of a list: in which order all were pushed, and its text."""

    number: int
    text: bytes


Hash = dict[bytes, bytes]
Zset = dict[bytes, float]
List = deque[Entry]
Value = Hash | Zset | List | set[bytes] | bytes


class Values:
    """The values, each under its key.

    Args:
        now: epoch seconds; for TIME and what expires.

    Attributes:
        lock: held during each call; taken by who reads or changes the values directly.
        values: key → value; lists have their newest entry first, as LPUSH leaves them.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.lock = threading.RLock()
        self.values: dict[str, Value] = {}
        self.now = now
        self._expires: dict[str, float] = {}
        self._numbers = itertools.count()
        self._next = 0

    def get(self, key: str, kind: type[T]) -> T:
        """The value under a key, an empty one that is not kept if there is none.

        Raises:
            RedisRefused: it is of another type.
        """
        if self._expires.get(key, float("inf")) <= self.now():
            self._forget(key)
        value = self.values.get(key)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            raise RedisRefused("WRONGTYPE Operation against a key holding the wrong kind of value")
        return value

    def edit(self, key: str, kind: type[T]) -> T:
        """The value of a key, to be changed; an empty value is kept, to be filled at once."""
        value = self.get(key, kind)
        self.values[key] = value  # type: ignore[assignment] # one of the kinds of `Value`
        return value

    def sorted_set(self, key: str) -> list[tuple[float, bytes]]:
        """The members of a sorted set with their scores, in its order."""
        with self.lock:
            return sorted((score, text) for text, score in self.get(key, dict).items())

    def append(self, key: str, text: bytes, *, left: bool) -> int:
        """Add an entry to a list; how many it has then."""
        entries: List = self.edit(key, deque)
        self._next = next(self._numbers) + 1
        entry = Entry(self._next - 1, text)
        if left:
            entries.appendleft(entry)
        else:
            entries.append(entry)
        return len(entries)

    def expire(self, key: str, seconds: float | None) -> None:
        """Let a key be forgotten after so many seconds, None = never."""
        if seconds is None:
            self._expires.pop(key, None)
        elif key in self.values:
            self._expires[key] = self.now() + seconds

    def ttl_s(self, key: str) -> float | None:
        """Seconds until a key is forgotten; None = never."""
        at = self._expires.get(key)
        return None if at is None else at - self.now()

    def _forget(self, key: str) -> None:
        self.values.pop(key, None)
        self._expires.pop(key, None)
