"""Job runners for tests, put together as a worker does it."""

import inspect
import json
import random
import time
from types import SimpleNamespace

from kiqbridge.client.middleware import Chain
from kiqbridge.client.registry import JobDefinition, Registry
from kiqbridge.client.server import Server
from kiqbridge.engine.inflight.taken import Taken
from kiqbridge.engine.perform.execution import JobRunner
from kiqbridge.engine.perform.failure import Failures
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.runtime.interruption import Timekeeper
from kiqbridge.wire.flow_mark import FlowEnd
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.tick_mark import JobEnd

NOW = 1_700_000_000.5


def make_runner(
    registry,
    *,
    middleware=None,
    max_retries=25,
    wall_now=time.time,
    server=None,
    invoker=None,
    **options,
):
    """A runner without metrics and gate, unless `options` give them."""
    if middleware is None:
        middleware = Chain()
    return JobRunner(
        registry=registry,
        invoker=invoker or Invoker(middleware, timekeeper=Timekeeper()),
        outcomes=Failures(
            keys=Keys(),
            registry=registry,
            policy=lambda: RetryPolicy(max_retries=max_retries, profile="7"),
            handlers=Handlers(server or Server()),
            rng=random.Random(1),
            wall_now=wall_now,
        ),
        **options,
    )


def processor_needs(server=None):
    """What a `ProcessorContext` takes besides that has no part in most tests."""
    needs = {"timekeeper": Timekeeper(), "handlers": Handlers(server or Server())}
    return needs | {"bookkeeper": None, "runtime": None, "note_taken": Taken().note}


class RunnerStand:
    """A runner with its registry and middleware, and the thread that runs."""

    def __init__(self, max_retries=25, server=None):
        self.registry = Registry()
        self.middleware = Chain()
        self.thread = SimpleNamespace(performing=False, interrupted=False)
        self.invoker = Invoker(self.middleware, timekeeper=Timekeeper())
        self.refusal = None
        self.runner = make_runner(
            self.registry,
            invoker=self.invoker,
            max_retries=max_retries,
            server=server,
            wall_now=lambda: NOW,
            gate=SimpleNamespace(check=lambda _payload: self.refusal),
        )

    def declare(self, function, name="Work", **options):
        self.registry.register(
            JobDefinition(
                name=name,
                options={"retry": True, "queue": "default", **options},
                instantiate=lambda jid: SimpleNamespace(jid=jid),
                perform_of=lambda _instance: function,
                signature=inspect.signature(function),
                origin=__name__,
            )
        )

    def run(self, text, queue="default"):
        if not isinstance(text, bytes):
            text = json.dumps(text).encode()
        return self.runner.run(text, queue, self.thread)

    def close(self):
        loop = getattr(self.invoker._loops, "runner", None)
        if loop is not None:
            loop.close()


def payload(*args, **attributes):
    return {"class": "Work", "args": list(args), "jid": "j1", "retry": True, **attributes}


def kept(settlement):
    return json.loads(settlement.text)


def ends_among(effects):
    """The ends for the outbox among the effects of a job's end."""
    return [FlowEnd.from_text(each.args[1]) for each in effects if each.name == "add"]


def end_in(effects):
    """The only one of them, or None."""
    ends = ends_among(effects)
    assert len(ends) <= 1
    return ends[0] if ends else None


def ledger_end_in(effects):
    """The end for the ledger of a schedule, or None."""
    texts = [each.args[1] for each in effects if each.name == "ledger"]
    return JobEnd.from_text(*texts) if texts else None


def fail(*_args):
    raise ValueError("no luck")


def ends_in(redis):
    """The ends that wait for the outbox."""
    return [*map(FlowEnd.from_text, redis.zrange("kb:flow:ends", 0, -1))]


def ended_in_ledger(settlement):
    """Outcome, error and whether it was run, of the end that a settlement adds to the ledger."""
    end = ledger_end_in(settlement.effects)
    [keys] = [each.keys for each in settlement.effects if each.name == "ledger"]
    assert (keys[0], end.at) == ("kb:ends:shop/Nightly", 1_700_000_000)
    assert (end.jid, end.ended_at) == ("j1", NOW)
    return end.outcome, end.error, end.took_s is not None
