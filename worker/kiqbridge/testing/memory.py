"""What stands in for Redis while `fake` or `inline` is in effect: the same keys, in this process.

All pools of the process ask it (`store.redis_pool.use_stand_in`), so everything above is the true path: client,
middleware, checks, JSON text. It holds what a server would hold under the same keys, `queue:NAME`, `schedule`,
`retry`, `dead`, `it-JID`, `kb:…`, and knows the commands that the client half and the scripts send. A script is
run as it is (lua_scripts.py). What is not known is refused with `NotInMemory`, never ignored.

Guarded pushes (`push_once`, `push_tick`) are scripts, so a second push under the same guard is a duplicate, as on
a server.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from kiqbridge.runtime.interruption import PENDING, checkpoint
from kiqbridge.store.round_trip import Command
from kiqbridge.store.scripts import Script
from kiqbridge.testing.lua_scripts import LuaScripts
from kiqbridge.testing.memory_commands import COMMANDS, NotInMemory
from kiqbridge.testing.memory_values import Entry, List, Values
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.names import bytes_of, text_of


class Place(NamedTuple):
    """Where a job waits: the keys of its namespace, its queue, and the entry."""

    keys: Keys
    queue: str
    entry: Entry


class Memory(Values):
    """The keys of a fake and the commands on them, in the place of a server.

    Args:
        now: epoch seconds; for TIME and what expires.
        on_pushed: called after each call that pushed to queues, or left ends of jobs under flow control, with the
            numbers of its first entry and of the one after its last; without the lock.

    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        on_pushed: Callable[[int, int], object] = lambda _first, _end: None,
    ) -> None:
        super().__init__(now)
        self._on_pushed = on_pushed
        self._lua: LuaScripts | None = None

    def run(self, commands: Sequence[Command]) -> list[Any]:
        """The replies to commands, as of protocol 2; all are carried out before another thread's.

        Raises:
            NotInMemory: one is not known; those before it were carried out.
        """
        with self.lock:
            first = self._next
            replies = self._run(commands)
            end = self._next
        if end > first:
            self._on_pushed(first, end)
        if PENDING:  # as in RedisPool
            checkpoint()
        return replies

    def script(
        self, script: Script, keys: Sequence[str], args: Sequence[str | bytes | float]
    ) -> Any:
        """The answer of a script.

        Raises:
            NotInMemory: lupa is not installed.
        """
        with self.lock:
            first, ends = self._next, self._count_ends(keys)
            if self._lua is None:
                try:
                    self._lua = LuaScripts(self.run_one)
                except ImportError as error:
                    raise NotInMemory(
                        "the fake of kiqbridge.testing needs lupa to run the scripts of Redis: pip install "
                        "'kiqbridge[testing]'; or use the fixture kiqbridge_redis, which has a real server"
                    ) from error
            answer = self._lua.run(script, keys, [_bytes(arg) for arg in args])
            end = self._next
            has_ends = self._count_ends(keys) > ends
        if end > first or has_ends:
            self._on_pushed(first, end)
        if PENDING:  # as in RedisPool
            checkpoint()
        return answer

    def _count_ends(self, keys: Sequence[str]) -> int:
        return sum(len(self.get(key, dict)) for key in keys if key.endswith(_ENDS))

    def clear(self) -> None:
        """Forget everything."""
        with self.lock:
            self.values.clear()
            self._expires.clear()

    def namespaces(self) -> list[Keys]:
        """The namespaces in which something waits, has failed, or is scheduled."""
        with self.lock:
            found = {
                prefix
                for key in self.values
                for name in _PLACES
                if (prefix := key.removesuffix(name)) != key
                and (not prefix or prefix.endswith(":"))
                and "kb:" not in prefix
            }
        return [Keys(prefix) for prefix in sorted(found)]

    def queues(self, keys: Keys) -> list[str]:
        """The names of the queues of a namespace that hold jobs."""
        with self.lock:
            names = sorted(map(text_of, self.get(keys.queues, set)))
            return [name for name in names if self.get(keys.queue(name), deque)]

    def waiting(self) -> list[Place]:
        """All jobs in queues, the first that was pushed first."""
        with self.lock:
            places = [
                Place(keys, queue, entry)
                for keys in self.namespaces()
                for queue in self.queues(keys)
                for entry in self.get(keys.queue(queue), deque)
            ]
        return sorted(places, key=lambda place: place.entry.number)

    def next_waiting(self, is_wanted: Callable[[Place], bool]) -> Place | None:
        """The job that was pushed first of those that are wanted, but for paused queues."""
        with self.lock:
            firsts = [
                place
                for keys in self.namespaces()
                for queue in self.queues(keys)
                if bytes_of(queue) not in self.get(keys.paused, set)
                and (place := self._first(keys, queue, is_wanted)) is not None
            ]
        return min(firsts, key=lambda place: place.entry.number) if firsts else None

    def _first(self, keys: Keys, queue: str, is_wanted: Callable[[Place], bool]) -> Place | None:
        entries: List = self.get(keys.queue(queue), deque)
        places = (Place(keys, queue, entry) for entry in reversed(entries))
        return next((place for place in places if is_wanted(place)), None)

    def take(self, place: Place) -> bool:
        """Remove a job from its queue; False: another thread was faster."""
        with self.lock:
            key = place.keys.queue(place.queue)
            waiting: List = self.get(key, deque)
            if waiting and waiting[-1] == place.entry:  # the usual one; the others are looked for
                waiting.pop()
            elif place.entry in waiting:
                waiting.remove(place.entry)
            else:
                return False
            self._tidy(key)
            return True

    def push(self, keys: Keys, queue: str, text: bytes) -> int:
        """Put a text to the producing end of a queue, without a call of `on_pushed`; its number."""
        with self.lock:
            self.run_one("SADD", keys.queues, queue)
            self.run_one("LPUSH", keys.queue(queue), text)
            return self._next - 1

    def run_one(self, name: str, *parts: str | bytes | float) -> Any:
        """The reply to one command; the lock must be held."""
        [reply] = self._run([[name, *parts]])
        return reply

    def _run(self, commands: Sequence[Command]) -> list[Any]:
        replies: list[Any] = []
        queued: list[Any] | None = None
        reply: Any
        for command in commands:
            name = str(command[0]).upper()
            if name == "MULTI":
                queued, reply = [], b"OK"
            elif name == "EXEC":
                reply, queued = queued, None
            else:
                reply = self._one(name, command[1:])
                if queued is not None:
                    queued.append(reply)
                    reply = b"QUEUED"
            replies.append(reply)
        return replies

    def _one(self, name: str, parts: Sequence[str | bytes | float]) -> Any:
        command = COMMANDS.get(name)
        if command is None:
            raise NotInMemory(
                f"command {name}: the fake of kiqbridge.testing does not support it; use the fixture "
                "kiqbridge_redis, which has a real server"
            )
        if not parts:
            return command(self, "", ())
        key, *rest = parts
        reply = command(self, text_of(_bytes(key)), tuple(_bytes(part) for part in rest))
        self._tidy(text_of(_bytes(key)))
        return reply

    def _tidy(self, key: str) -> None:
        """An empty collection is no key."""
        if key in self.values and not self.values[key] and self.values[key] != b"":
            self._forget(key)


_ENDS: Final = "kb:flow:ends"
_PLACES: Final = ("queues", "schedule", "retry", "dead", "kb:schedules", _ENDS)


def _bytes(part: str | bytes | float) -> bytes:
    if isinstance(part, bytes):
        return part
    return bytes_of(part) if isinstance(part, str) else repr(part).encode()
