"""Many incarnations of a worker within one process of the operating system: a fleet for measures.

    python tests/benchmarks/crowd.py URL COUNT QUEUE…

Each has the real parts of a worker that talk to Redis: lease, heartbeat, pauses, what wakes idle threads, and one thread
that claims and performs jobs. Left out are threads that send nothing while they have nothing to do. The poller and
the schedules run in the first one. Orders come as lines on standard input, each is answered by a line: `start` starts
all, `stop` ends all, as fast as they can. Ends with standard input.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from kiqbridge import job
from kiqbridge.client.registry import default_registry
from kiqbridge.client.server import Server
from kiqbridge.config.merge import merge
from kiqbridge.engine.compose import build_around_capsules, build_capsules
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.registration import spread_start
from kiqbridge.engine.served_queues import warn_of_odd_queues
from kiqbridge.features.neighbours.warning import warn_of_shared_queues
from kiqbridge.store.server_check import warn_of_eviction

STACK_BYTES = 256 * 1024
AT_ONCE = 250
STOP_S = 2.0
JOB_S = 0.01


@job(name="ShortJob")
def short_job() -> None:
    time.sleep(JOB_S)  # what such a job does


class Incarnation:
    """One simulated worker process; started and stopped as the launcher does it."""

    def __init__(self, url: str, queues: Sequence[str], *, may_lead: bool) -> None:
        flags = {
            "redis_url": url,
            "concurrency": "1",
            "queues": tuple((each, 1) for each in queues),
        }
        self._quiet = threading.Event()
        self._may_lead = may_lead
        self._parts = EngineParts(
            merge(file={}, environ={}, flags=flags),
            default_registry,
            Server(),
            is_quiet=self._quiet.is_set,
            on_registered=lambda _incarnation: None,
        )

    def start(self) -> None:
        parts = self._parts
        build_capsules(parts)
        parts.keeper.start()
        spread_start(parts.pool, parts.keys, self._quiet)
        build_around_capsules(parts, on_signal=lambda _name: None, on_lost=lambda _holder: None)
        parts.heartbeat.start()
        parts.pauses.start()
        if self._may_lead:
            parts.poller.start()
            parts.leader.start()
        run, keys, queues = parts.pool.run, parts.keys, parts.served_queues()
        warn_of_shared_queues(run, keys, queues, "retry")
        warn_of_odd_queues(run, keys, queues, parts.registry)
        warn_of_eviction(run)
        parts.manager.start()

    def stop(self) -> None:
        parts = self._parts
        self._quiet.set()
        parts.manager.quiet()
        parts.poller.quiet()
        parts.manager.stop(time.monotonic() + STOP_S)
        if self._may_lead:
            parts.leader.stop()
            parts.poller.stop()
        parts.pauses.stop()
        parts.keeper.stop()
        parts.heartbeat.stop()
        parts.pool.close_all()


def main(arguments: Sequence[str]) -> None:
    url, count, *queues = arguments
    logging.disable(logging.WARNING)
    threading.stack_size(STACK_BYTES)
    crowd = [Incarnation(url, queues, may_lead=number == 0) for number in range(int(count))]
    print("made", flush=True)
    orders: dict[str, Callable[[Incarnation], None]] = {
        "start": Incarnation.start,
        "stop": Incarnation.stop,
    }
    with ThreadPoolExecutor(AT_ONCE) as at_once:
        for line in sys.stdin:
            order = line.strip()
            list(at_once.map(orders[order], crowd))
            print(order, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
