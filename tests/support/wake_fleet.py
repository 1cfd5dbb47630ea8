"""Many idle incarnations in one process: the real gate, listener, fetcher and claimer of each, and no other parts.

As a program it starts some, writes `ready`, and ends with its standard input:

    python -m support.wake_fleet URL COUNT EVIDENCE KIND

Each job is `{"args": [TIME]}`; a line `MEMBER SECONDS` goes to the file EVIDENCE. KIND is `listen`, or `brpop` for a
fleet that fetches as Ruby's Sidekiq does, with a BRPOP over all queues on a connection of each thread.
"""

import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import redis

from kiqbridge.engine.inflight.claims import Claimer, SpareClaimers
from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.fetch import Fetcher
from kiqbridge.engine.perform.listening import Listening
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

QUEUES = ("critical", "default", "low")
FOR_EVER_S = 1e9
STACK_BYTES = 256 * 1024

OnJob = Callable[[str, bytes], object]


class Member:
    """One incarnation with so many threads, all idle until there is a job; each claims up to `most` at once.

    Attributes:
        performed: texts of its jobs, in order.
        listening: its part in the fleet.
        on_chunk: called with the jobs of each claim.
    """

    def __init__(
        self,
        pool: RedisPool,
        on_job: OnJob = lambda _name, _text: None,
        *,
        name: str = "",
        queues: Sequence[str] = QUEUES,
        threads: int = 1,
        keys: Keys | None = None,
        most: int = 1,
    ) -> None:
        keys = keys or Keys()
        self.name = name or secrets.token_hex(4)
        self.performed: list[bytes] = []
        self.lease = Lease(f"v2:host:1:{self.name}:1")
        self.lease.valid_until = FOR_EVER_S
        self.stopping = threading.Event()
        self.listening = Listening(queues, keys, pool.raw_connection)
        self.gate = IdleGate(self.listening)
        self.on_chunk: Callable[[Any], object] = lambda _chunk: None
        self._on_job = on_job
        self._most = most
        self._queues = queues
        self._keys = keys
        self._pool = pool
        keeper: Any = SimpleNamespace(current=self.lease, renounce=lambda *_: None)
        make = lambda connection: Claimer(secrets.token_hex(3), keeper, connection, keys)  # noqa: E731
        self._spare = SpareClaimers(make)
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]

    def start(self) -> None:
        self._pool.call("SADD", self._keys.inflight, self.lease.incarnation)
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        self.stopping.set()
        self.gate.open()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()

    def _run(self) -> None:
        claimer = self._spare.lend(self._pool.connection())
        fetcher = Fetcher(claimer, lambda: self._queues, self.gate, Outage())
        while not self.stopping.is_set():
            chunk = fetcher.fetch(self._most, self.stopping)
            if chunk is not None:
                self.on_chunk(chunk)
            while chunk is not None and (text := chunk.take()) is not None:
                self.performed.append(text)
                self._on_job(self.name, text)
                chunk.finish()
        fetcher.acknowledge(self.stopping)


class BrpopMember:
    """A thread that fetches as Sidekiq's do."""

    def __init__(self, url: str, on_job: OnJob) -> None:
        self.name = secrets.token_hex(4)
        self._client = redis.Redis.from_url(url, socket_timeout=None)
        self._on_job = on_job
        self._keys = [f"queue:{name}" for name in QUEUES]

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            found = self._client.brpop(self._keys, 2)
            if found is not None:
                self._on_job(self.name, found[1])


def main(url: str, count: str, evidence: str, kind: str) -> None:
    """Run as a program: see above."""
    threading.stack_size(STACK_BYTES)
    file = os.open(evidence, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def note(name: str, text: bytes) -> None:
        late = time.time() - json.loads(text)["args"][0]
        os.write(file, b"%s %.6f\n" % (name.encode(), late))

    pool = RedisPool(url)
    for _ in range(int(count)):
        if kind == "brpop":
            BrpopMember(url, note).start()
            continue
        Member(pool, note).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
