"""How often somebody may do something."""

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

Key = TypeVar("Key")
Kept = TypeVar("Kept")

MAX_BUCKETS: Final = 10_000
ATTEMPTS: Final = 5
ATTEMPTS_PER_S: Final = 1 / 12
"""Of one network: five at once, then five a minute. A right password does not count."""
ATTEMPTS_OF_NAME: Final = 20
"""At one name, from the networks around one another, and of a network that has signed in with that name before."""

_OWN_BITS: Final = {4: 32, 6: 64}
_WIDE_BITS: Final = {4: 24, 6: 48}
"""By version: of the network that one subscriber has, and of a block that one may easily have all of."""


class Buckets:
    """A bucket of tokens for each key; safe for threads, bounded in memory.

    Args:
        capacity: how many may be taken at once.
        per_s: how many come back in a second.
        clock: seconds, never going back.
    """

    def __init__(
        self, capacity: float, per_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._capacity = capacity
        self._per_s = per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Take one; 0 if there was one, else the seconds until there is."""
        with self._lock:
            level = self._level(key)
            if level < 1:
                return (1 - level) / self._per_s
            keep(self._levels, key, (level - 1, self._clock()), MAX_BUCKETS)
            return 0.0

    def give_back(self, key: str) -> None:
        """Put one back: what it was taken for does not count."""
        with self._lock:
            self._levels[key] = (min(self._capacity, self._level(key) + 1), self._clock())

    def _level(self, key: str) -> float:
        now = self._clock()
        level, at = self._levels.pop(key, (self._capacity, now))
        current = min(self._capacity, level + (now - at) * self._per_s)
        self._levels[key] = (current, now)
        return current


class Attempts:
    """How often a password may be tried: by network, and by name and wider network together.

    Guesses from elsewhere never keep anybody out: no limit counts a name alone. A network from which a name has
    signed in before has a bucket of its own for that name, so that others in it do not keep that name out either.
    Kept in memory, for each process.
    """

    def __init__(self) -> None:
        self._by_network = Buckets(ATTEMPTS, ATTEMPTS_PER_S)
        self._by_name = Buckets(ATTEMPTS_OF_NAME, ATTEMPTS_PER_S)
        self._lock = threading.Lock()
        self._proven: OrderedDict[str, None] = OrderedDict()

    def take(self, name: str, address: str) -> float:
        """Count one; the seconds to wait if there were too many, else 0."""
        own = network_of(address)
        with self._lock:
            is_proven = _pair(own, name) in self._proven
        if is_proven:
            return self._by_name.take(_pair(own, name))
        wait_s = self._by_network.take(own)
        return wait_s or self._by_name.take(_pair(network_of(address, _WIDE_BITS), name))

    def succeed(self, name: str, address: str) -> None:
        """The password was right: the attempt does not count, and the network is known for that name."""
        own = network_of(address)
        with self._lock:
            is_proven = _pair(own, name) in self._proven
            keep(self._proven, _pair(own, name), None, MAX_BUCKETS)
        if is_proven:
            self._by_name.give_back(_pair(own, name))
        else:
            self._by_network.give_back(own)
            self._by_name.give_back(_pair(network_of(address, _WIDE_BITS), name))


def keep(kept: OrderedDict[Key, Kept], key: Key, value: Kept, most: int) -> None:
    """Put a value as the newest; of more than so many the oldest goes."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def network_of(address: str, bits: Mapping[int, int] = _OWN_BITS) -> str:
    """The network that counts as one caller: an IPv4 address, or a /64, of which one subscriber has all addresses.

    Args:
        address: any other text is its own network.
        bits: by version of the protocol, how many bits of the address count.
    """
    try:
        found = ipaddress.ip_address(address)
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped:
            found = found.ipv4_mapped
        return str(ipaddress.ip_network(f"{found}/{bits[found.version]}", strict=False))
    except ValueError:
        return address


def _pair(network: str, name: str) -> str:
    return f"{network} {name}"
