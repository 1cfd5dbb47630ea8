"""One processor with all that it works with, put together as a worker does it."""

import random
from types import SimpleNamespace

from kiqbridge.client.registry import default_registry
from kiqbridge.engine.inflight.outage import Outage
from kiqbridge.engine.manager import Manager
from kiqbridge.engine.perform.fetch import Fetcher
from kiqbridge.engine.perform.look_ahead import PrefetchRevoker
from kiqbridge.engine.perform.processor import Processor, ProcessorContext
from kiqbridge.engine.perform.wakeup import IdleGate
from kiqbridge.engine.settle.notifications import Notifications
from kiqbridge.engine.settle.settling import Settler
from kiqbridge.wire.queues import queue_order
from support.runners import make_runner, processor_needs


def processor_on(engine, *, size=3, server=None, connection=None, order=None, wrap=None):
    """It claims chunks of this size from `default`; `wrap` gets its fetcher and gives another one."""
    notifications, gate, outage = Notifications(), IdleGate(), Outage()
    settler = Settler(engine.keys)
    revoker = PrefetchRevoker(engine.connect(), engine.keys, settler, notifications)
    runner = make_runner(default_registry, server=server)
    context = ProcessorContext(
        keeper=engine.keeper,
        runner=runner,
        **processor_needs(server),
        revoker=revoker,
        outage=outage,
        settler=settler,
        look_ahead=size,
    )
    order = order or queue_order([("default", 0)], random.Random(1))
    fetcher = Fetcher(engine.claimer(connection=connection), order, gate, outage)
    processor = Processor("t1", wrap(fetcher) if wrap else fetcher, context)
    processor._size = size
    return SimpleNamespace(
        processor=processor,
        gate=gate,
        outage=outage,
        revoker=revoker,
        runner=runner,
        notifications=notifications,
        manager=Manager([processor], [gate], engine.connect(), engine.keys, notifications),
    )
