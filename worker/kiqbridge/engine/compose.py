"""Puts the engine of a worker together around its parts: in two steps, since each needs what came before.

1. `build_capsules`: the threads and the event loop of each capsule, once resources are open.
2. `build_around_capsules`: manager, heartbeat, roles of features, once the process is registered.

None of them starts a thread; launcher.py does.
"""

import os
import random
import time
from collections.abc import Callable
from functools import partial

from kiqbridge import __version__, seams
from kiqbridge.client.current import Runtime
from kiqbridge.engine.capsule_runtime import Capsule, CapsuleRuntime, capsules_of
from kiqbridge.engine.heartbeat import DeclaredClasses, Heartbeat, ProcessInfo, ProcessView
from kiqbridge.engine.host.surroundings import hostname
from kiqbridge.engine.leader import OF_THE_KERNEL
from kiqbridge.engine.manager import Manager
from kiqbridge.engine.parts import EngineParts
from kiqbridge.engine.perform.execution import JobRunner
from kiqbridge.engine.perform.failure import Failures
from kiqbridge.engine.perform.invocation import Invoker
from kiqbridge.engine.perform.job_logger import JobLines
from kiqbridge.engine.perform.processor import ProcessorContext
from kiqbridge.engine.perform.running_job import Holder
from kiqbridge.engine.settle.ending import Settlement
from kiqbridge.runtime.role import fields_of
from kiqbridge.wire.dead_bounds import FIELD

LABEL = "kiqbridge"
"""Our processes carry it, so that Ruby's UI and version detection can distinguish them."""


def load_before_fork() -> None:
    """Load what a process loads after its first job: processes that are forked share the memory of what is loaded before."""
    for claim in seams.found("worker"):
        claim.load()
    for feature in (OF_THE_KERNEL, *seams.loaded()):  # a single process loads these on a thread
        for chore in feature.chores:
            feature.load(chore.place)
    seams.by_name("pools")
    seams.functions("consequences")
    seams.functions("barrier")
    import kiqbridge.engine.perform.event_loop  # noqa: F401, PLC0415 - for those with something asynchronous


def build_capsules(parts: EngineParts) -> None:
    """Make the capsules; the event loops take their resources from `resources`, which are open."""
    config = parts.config
    runtime = Runtime(
        client=parts.client,
        redis=parts.pool,
        is_stopping=parts.is_quiet,
        timeout_s=config.timeout_s,
        max_iteration_runtime_s=config.max_iteration_runtime_s,
        incarnation=lambda: parts.keeper.current.incarnation,
        troubles=parts.troubles,
    )
    parts.capsules = [
        CapsuleRuntime(
            capsule,
            context=_context(parts, capsule, runtime),
            config=config,
            pool=parts.pool,
            declared=parts.registry,
            resources=parts.resources.for_loop() if _needs_loop(parts, capsule) else None,
        )
        for capsule in capsules_of(config, parts.server.capsules, parts.server_middleware)
    ]
    parts.keeper.report(parts.note)


def build_around_capsules(
    parts: EngineParts, *, on_signal: Callable[[str], None], on_lost: Callable[[Holder], None]
) -> None:
    """Make what counts, publishes and manages what the capsules do.

    Args:
        parts: of the worker, with its capsules.
        on_signal: called with the name of a signal that was sent through Redis (§10.5).
        on_lost: called with what runs a job that was taken away and that does not end.
    """
    processors = [each for capsule in parts.capsules for each in capsule.processors]
    loops = [capsule.loop for capsule in parts.capsules if capsule.loop is not None]
    parts.manager = Manager(
        processors,
        [capsule.gate for capsule in parts.capsules],
        parts.connect(),
        parts.keys,
        parts.notifications,
        loops=loops,
        bookkeeper=parts.bookkeeper if loops else None,
    )
    parts.revoker.processors = parts.manager.processors
    parts.counters += [*processors, *loops]
    declared = DeclaredClasses(parts.registry)
    parts.heartbeat = Heartbeat(
        info=_process_info(parts),
        keys=parts.keys,
        connection=parts.connect(),
        view=ProcessView(
            work=parts.running_jobs,
            is_quiet=parts.is_quiet,
            taken=parts.taken.totals,
            fields=lambda: {
                **parts.ages().fields(),
                **declared.fields(),
                FIELD: parts.config.dead_bounds.field(),
                **fields_of(parts.all_troubles()),
            },
        ),
        counters=parts.counters,
        events=parts.events,
        on_signal=on_signal,
        metrics=parts.metrics,
    )
    parts.on_lost = on_lost
    parts.brought = list(seams.brought("worker", parts, config=parts.config))
    parts.manager.on_late = parts.on_late
    if parts.suspects is not None:
        parts.counters.append(parts.suspects)
    elif parts.config.fetch != "basic":
        parts.keeper.watch(
            [*map(parts.keys.suspects, parts.served_queues())], partial(_note_suspects, parts)
        )


def _note_suspects(parts: EngineParts, is_some: bool, /) -> None:  # noqa: FBT001 - as `LeaseKeeper.watch` calls it
    """Without what runs them, suspects wait where they are, and that is not passed over in silence."""
    if is_some:
        parts.troubles.set(
            "suspects",
            "jobs that may have killed their process wait in kb:suspects, and this worker lacks the feature "
            "suspects, which runs them; start a worker that has it, or remove them",
        )
    else:
        parts.troubles.clear("suspects")


def _context(parts: EngineParts, capsule: Capsule, runtime: Runtime) -> ProcessorContext:
    return ProcessorContext(
        keeper=parts.keeper,
        runner=_runner(parts, capsule),
        revoker=parts.revoker,
        outage=parts.outage,
        settler=parts.settler,
        bookkeeper=parts.bookkeeper,
        timekeeper=parts.timekeeper,
        handlers=parts.handlers,
        runtime=runtime,
        pools=parts.pools,
        look_ahead=parts.config.look_ahead,
        note_taken=parts.taken.note,
    )


def _runner(parts: EngineParts, capsule: Capsule) -> JobRunner[Settlement]:
    return JobRunner(
        registry=parts.registry,
        invoker=Invoker(
            capsule.middleware,
            timekeeper=parts.timekeeper,
            pools={
                kind: partial(pool.perform_job, capsule=capsule.name, policy=parts.policy)
                for kind, pool in parts.pools.items()
            },
        ),
        outcomes=Failures(
            keys=parts.keys,
            registry=parts.registry,
            policy=parts.policy,
            handlers=parts.handlers,
            rng=random.Random(),  # noqa: S311 - jitter
            ended=parts.ended,
        ),
        gate=parts.gate,
        lines=JobLines(skip=parts.config.skip_default_job_logging),
        metrics=parts.metrics if parts.metrics.on else None,
        ended=parts.ended,
        max_payload_bytes=parts.config.max_payload_bytes,
    )


def _process_info(parts: EngineParts) -> ProcessInfo:
    return ProcessInfo(
        identity=parts.identity,
        hostname=hostname(),
        pid=os.getpid(),
        tag=parts.tag,
        labels=[LABEL, *(label for label in parts.config.labels if label != LABEL)],
        concurrency=parts.concurrency,
        capsules=[capsule.capsule for capsule in parts.capsules],
        version=f"kiqbridge-{__version__}",
        started_at=time.time(),
        beat_s=parts.config.beat_s,
    )


def _needs_loop(parts: EngineParts, capsule: Capsule) -> bool:
    return capsule.middleware.is_partly_async or any(
        definition.handling.pool == "async" for definition in parts.registry
    )
