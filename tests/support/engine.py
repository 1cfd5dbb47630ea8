"""One worker process as Redis sees it, without threads of its own but the lease's: for engine tests."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from kiqbridge.client.client import Client
from kiqbridge.client.middleware import Chain
from kiqbridge.client.server import Events
from kiqbridge.engine.capsule_runtime import Capsule
from kiqbridge.engine.heartbeat import ProcessView
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import Claimer, give_back
from kiqbridge.engine.inflight.lease import LeaseKeeper, LeaseTimes
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.engine.poller import Poller
from kiqbridge.engine.settle.settling import settle
from kiqbridge.errors import KiqbridgeError, RedisUnavailable
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys


class UnreliableConnection:
    """A real connection that a test cuts off.

    Attributes:
        down: nothing reaches the server.
        lose: numbers of the script calls (from 1) that are carried out, but whose reply is lost.
        most_bytes: of a batch, instead of what the connection has found out; None = that.
        before_script: called before each script, as something that happens in between.
    """

    def __init__(
        self, real: RedisConnection, before_script: Callable[[], object] = lambda: None
    ) -> None:
        self.down = False
        self.lose: set[int] = set()
        self.before_script = before_script
        self.scripts = 0
        self.most_bytes: int | None = None
        self._real = real

    @property
    def batch_bytes(self) -> int:
        return self.most_bytes or self._real.batch_bytes

    @property
    def address(self) -> str:
        return self._real.address

    def call(self, *command: Any) -> Any:
        self._check()
        return self._real.call(*command)

    def run(self, *commands: Any, repeatable: bool = True) -> list[Any]:
        self._check()
        return self._real.run(*commands, repeatable=repeatable)

    def script(self, *args: Any, **options: Any) -> Any:
        self._check()
        self.before_script()
        self.scripts += 1
        reply = self._real.script(*args, **options)
        if self.scripts in self.lose:
            raise RedisUnavailable("the reply was lost, by the test's will")
        return reply

    def close(self) -> None:
        self._real.close()

    def _check(self) -> None:
        if self.down:
            raise RedisUnavailable("cut off, by the test's will")


class EngineProcess:
    """A lease, and claimers under it; as a context manager it registers and signs off."""

    def __init__(
        self,
        url: str,
        *,
        identity: str = "host:1:aaa",
        namespace: str = "",
        recover_after_s: float = 30,
    ) -> None:
        self.keys = Keys(namespace)
        self.pool = RedisPool(url)
        self.connections: list[UnreliableConnection] = []
        self.keeper = LeaseKeeper(
            identity=identity,
            keys=self.keys,
            connect=self.connect,
            times=LeaseTimes(recover_after_s),
        )

    def __enter__(self) -> Self:
        self.keeper.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(KiqbridgeError):
            self.keeper.stop()
        self.pool.close_all()

    @property
    def incarnation(self) -> str:
        return self.keeper.current.incarnation

    def connect(self) -> Any:
        connection = UnreliableConnection(self.pool.connection())
        self.connections.append(connection)
        return connection

    def claimer(self, tid: str = "t1", connection: Any = None, **options: Any) -> Claimer:
        return Claimer(tid, self.keeper, connection or self.connect(), self.keys, **options)

    def settle(
        self,
        chunk: Chunk,
        job: bytes,
        target: str,
        score: float,
        text: bytes,
        *,
        connection: Any = None,
    ) -> bool:
        return settle(
            connection or self.connect(),
            self.keys,
            chunk,
            job,
            target=target,
            score=score,
            text=text,
        )

    def lists(self, tid: str = "t1") -> list[str]:
        """Names of the two in-flight lists of a claimer, that of even claims first."""
        return [self.keys.inflight_list(self.incarnation, tid, parity) for parity in (0, 1)]


def take_away(process: EngineProcess) -> None:
    """What a reaper does to a process that was frozen."""
    reaper = Reaper(process.pool.connection(), process.keys)
    assert reaper.reap(process.incarnation, by_owner=True) >= 0


def put_back(connection: Any, keys: Keys, chunk: Chunk, jobs: Sequence[bytes] = ()) -> int:
    """Give back these jobs of a chunk, and all that is returning; without jobs all that waits."""
    with chunk.writing:
        if jobs:
            chunk.put_back(jobs)
        else:
            chunk.revoke()
        return give_back(connection, keys, chunk)


class Watch:
    """A reaper with a clock that the test moves; looks are at most some seconds apart."""

    def __init__(self, process: EngineProcess) -> None:
        self.connection = process.connect()
        self.now = 1000.0
        self.reaper = Reaper(self.connection, process.keys, clock=lambda: self.now)

    def look_after(self, seconds: float, own: str = "") -> int:
        self.now += seconds
        return self.reaper.look(own)

    def look_for(self, seconds: float, own: str = "") -> int:
        """Looks every two seconds and at the end; the answer of the last one."""
        while seconds > 2:
            self.look_after(2, own)
            seconds -= 2
        return self.look_after(seconds, own)


def in_flight(redis: Any) -> list[bytes]:
    """The jobs that any process holds."""
    lists = redis.keys("kb:inflight:*:[01]")
    return sorted(job for key in lists for job in redis.lrange(key, 0, -1))


def poller_on(
    pool: RedisPool, *, connection: Any = None, profile: str = "7", **options: Any
) -> Poller:
    """A poller that has not begun."""
    return Poller(
        **{
            "identity": "host:1:aaa",
            "keys": Keys(),
            "client": Client(namespace="", pool=pool, profile=profile),
            "connection": connection or pool.connection(),
            "track": pool.raw_connection,
            **options,
        }
    )


def register(process: EngineProcess) -> EngineProcess:
    """As a process that dies at once: nobody gives a further sign of life for it."""
    process.keeper._register(process.connect())
    return process


def capsule_of(weights: Mapping[str, int], *, concurrency: int, name: str = "default") -> Capsule:
    """A capsule without middleware."""
    return Capsule(
        name=name,
        queues=tuple(weights.items()),
        concurrency=concurrency,
        async_concurrency=1,
        middleware=Chain(),
    )


def heartbeat_of(
    processors: Sequence[Any], *, is_quiet: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """What a heartbeat asks of processors, or of what looks like them, as keyword arguments."""
    return {
        "view": ProcessView(
            work=lambda: {each.tid: each.current for each in processors if each.current},
            is_quiet=is_quiet,
        ),
        "counters": processors,
        "events": Events(),
    }
