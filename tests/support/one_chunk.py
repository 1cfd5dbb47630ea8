"""A processor on one chunk, without a server."""

import json
import threading
from types import SimpleNamespace

from kiqbridge.client.registry import default_registry
from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.perform.processor import Processor, ProcessorContext
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.wire.keys import Keys
from support.runners import make_runner, processor_needs
from support.scripted_connection import ScriptedConnection

KEYS = Keys()


class OneChunk:
    """A fetcher (`Fetches`) of one chunk.

    Attributes:
        acknowledged: a claim after it was acknowledged, by the thread or for it.
    """

    has_fetched = True
    refused = None
    last = None

    def __init__(self, chunk):
        self.connection = ScriptedConnection()
        self.acknowledged = threading.Event()
        self._chunks = [chunk]

    def fetch(self, _most, give_up):
        if self._chunks:
            return self._chunks.pop()
        self.acknowledged.set()
        give_up.wait(0.01)
        return None

    def acknowledge(self, _give_up):
        self.acknowledged.set()

    def acknowledge_for(self, _connection):
        self.acknowledged.set()


class Stand:
    """One processor and its chunk of declared jobs, the first name is the first to run.

    Attributes:
        confirms: what the lease's keeper answers; it loses the lease when it is None.
    """

    def __init__(self, *names):
        self.texts = [
            json.dumps(
                {"class": name, "args": [], "jid": f"{name}-{number}", "retry": True}
            ).encode()
            for number, name in enumerate(names)
        ]
        self.lease = Lease("v2:host:1:aaa:1")
        self.lease.valid_until = float("inf")
        self.chunk = Chunk(
            lease=self.lease,
            queue="default",
            home="queue:default",
            list_key="list",
            jobs=self.texts[::-1],
            tid="t1",
            sequence=1,
        )
        self.fetcher = OneChunk(self.chunk)
        self.connection = self.fetcher.connection
        self.confirms = True
        self.context = ProcessorContext(
            keeper=SimpleNamespace(confirm=self._confirm),
            runner=make_runner(default_registry),
            **processor_needs(),
            revoker=SimpleNamespace(watch=lambda: None),
            outage=Outage(),
            settler=Settler(KEYS),
            look_ahead=3,
        )
        self.processor = Processor("t1", self.fetcher, self.context)

    def _confirm(self, lease):
        lease.lost = self.confirms is None
        return bool(self.confirms)

    def end(self):
        self.processor.quiet()
        self.processor.join(30)
        assert not self.processor.alive
