"""Where a no-op job's microseconds go: CPU time of one thread, step by step, minimum of several rounds.

    python tests/benchmarks/budget.py

The steps are those of docs/explanation/scaling.md. CPU time instead of wall time, so that a busy machine
disturbs little; what threads lose to each other over the interpreter lock is not in it.
"""

import inspect
import logging
import random
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.engine import EngineProcess
from support.servers import embedded_server

from kiqbridge.client.client import Client
from kiqbridge.client.middleware import Chain
from kiqbridge.client.registry import JobDefinition, Registry
from kiqbridge.client.server import Server
from kiqbridge.engine.perform.execution import Execution, JobRunner
from kiqbridge.engine.perform.failure import Failures
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.engine.settle.metrics import Metrics
from kiqbridge.engine.settle.notifications import Handlers
from kiqbridge.engine.settle.retry import RetryPolicy
from kiqbridge.wire import json_text
from kiqbridge.wire.keys import Keys

TEXT = (
    b'{"retry":true,"queue":"default","class":"NoOp","args":[12345],"jid":"0b3e5c7d9f1a2b4c6d8e0f12",'
    b'"created_at":1795174461.434427,"enqueued_at":1795174461.434432}'
)
CHUNK = 100
ROUNDS, TIMES = 15, 5_000


def main() -> None:
    logging.getLogger().setLevel(logging.WARNING)
    registry = Registry()
    registry.register(_no_op())
    metrics = Metrics(Keys(), identity="host:1:aaa")
    plain = _runner(registry, metrics, Chain())
    wrapped = _runner(registry, metrics, Chain(*(_middleware() for _ in range(5))))
    unmeasured = _runner(registry, None, Chain())
    thread = SimpleNamespace(performing=False, interrupted=False, tid="t")

    begin = _micros(lambda: plain.read(TEXT, "default"))
    parse = _micros(lambda: json_text.loads(TEXT))
    perform = _micros(lambda: plain.perform(_begun(plain), thread)) - begin
    bare = _micros(lambda: unmeasured.perform(_begun(unmeasured), thread)) - begin
    chain = _micros(lambda: wrapped.perform(_begun(wrapped), thread)) - begin - perform
    claim = _claim_micros()

    rows = [
        ("claim, which acknowledges the chunk before", claim),
        ("parse", parse),
        ("gate and look-up of the class", begin - parse),
        ("call, with logging and error handling around it", bare),
        ("metrics", perform - bare),
        ("five middlewares, where there are any", chain),
    ]
    for name, micros in rows:
        print(f"{name:50} {micros:6.2f} µs")
    print(f"{'in all, without middleware':50} {claim + begin + perform:6.2f} µs")


def _micros(step: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(TIMES):
            step()
        best = min(best, time.thread_time() - began)
    return best / TIMES * 1e6


def _claim_micros() -> float:
    """Of one thread's CPU, for each job of full chunks."""
    with embedded_server() as server, EngineProcess(server.url) as process:
        client = Client(server.url)
        claimer = process.claimer()
        best = float("inf")
        for _ in range(ROUNDS):
            client.push_bulk({"class": "NoOp", "args": [[1]] * (CHUNK * 20)})
            began = time.thread_time()
            for _ in range(20):
                claimer.claim(["default", "low", "mail"], CHUNK)
            best = min(best, time.thread_time() - began)
        claimer.claim(["default"], CHUNK)
        client.close()
    return best / (CHUNK * 20) * 1e6


def _begun(runner: JobRunner[Settlement]) -> Execution:
    begun = runner.read(TEXT, "default")
    assert isinstance(begun, Execution)
    return begun


def _runner(
    registry: Registry, metrics: Metrics | None, chain: Chain[Any]
) -> JobRunner[Settlement]:
    return JobRunner(
        registry=registry,
        invoker=Invoker(chain),
        outcomes=Failures(
            keys=Keys(),
            registry=registry,
            policy=lambda: RetryPolicy(max_retries=25, profile="7"),
            handlers=Handlers(Server()),
            rng=random.Random(1),
        ),
        metrics=metrics,
    )


def _no_op() -> JobDefinition:
    def no_op(number: int) -> None:
        pass

    return JobDefinition(
        name="NoOp",
        options={"retry": True, "queue": "default"},
        instantiate=lambda _jid: deque(),
        perform_of=lambda _instance: no_op,
        signature=inspect.signature(no_op),
        origin=__name__,
    )


def _middleware() -> Callable[..., Any]:
    return lambda _job, _payload, _queue, call_next: call_next()


if __name__ == "__main__":
    main()
