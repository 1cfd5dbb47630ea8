"""Rules about single jobs: what a sample of the queues and sets holds."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from kiqbridge.api import JobRecord
from kiqbridge.doctor.finding import Finding, Rule, counted, listed, printable
from kiqbridge.doctor.sample import Sampled
from kiqbridge.doctor.system import System
from kiqbridge.wire.payload import MILLISECONDS_FROM
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES

LARGE_BYTES: Final = 100_000
_TIMES: Final = ("created_at", "enqueued_at", "failed_at", "retried_at")

_rule: Final = partial(Rule, area="wire")

PAYLOAD: Final = _rule(
    id="payload",
    reports="texts in queues, retry and schedule that are no JSON object in UTF-8, or lack class, args or jid",
    why="no worker can perform them: ours moves them to the dead set, Ruby's pages may fail at them",
    action="find who writes them; kiqbridge queue and kiqbridge retries show them, and delete them",
)
PAYLOAD_SIZE: Final = _rule(
    id="payload-size",
    reports=f"jobs above {LARGE_BYTES // 1000} kB; above KIQBRIDGE_MAX_PAYLOAD_BYTES it is a problem",
    why="Redis keeps them in memory, and each claim, retry and page reads them; above the limit they are refused",
    action="put the data into S3 or a database, and pass its key",
)
TIMESTAMPS: Final = _rule(
    id="timestamps",
    reports="times that are an integer number of seconds (created_at, enqueued_at, failed_at, retried_at)",
    why="Ruby Sidekiq 8 takes an integer for milliseconds, so such a job seems to wait since 1970, and alarms on "
    "latency go off",
    action="correct the producer: seconds as a float (1700000000.5), or milliseconds as an integer",
)
FOREIGN_BATCH: Final = _rule(
    id="foreign-batch",
    reports="jobs of a batch of Sidekiq Pro (bid) that wait for a Python worker",
    why="a batch is never informed of what Python does, so a Python worker refuses such a job to the dead set",
    action="let only Ruby workers serve its queue, or choose with KIQBRIDGE_FOREIGN_JOBS what happens to them",
)
FOREIGN_ENCRYPTION: Final = _rule(
    id="foreign-encryption",
    reports="jobs with encrypted arguments of Sidekiq Enterprise (encrypt) that wait for a Python worker",
    why="only Ruby can read the arguments, so a Python worker refuses such a job to the dead set",
    action="let only Ruby workers serve its queue, or enqueue it without encrypt",
)
FOREIGN_LOCK: Final = _rule(
    id="foreign-lock",
    reports="unique jobs of Sidekiq Enterprise (unique_for) or sidekiq-unique-jobs (lock_digest, unique_digest) that "
    "wait for a Python worker",
    why="Python does not release the lock at the end, so Ruby drops further ones until it expires, if ever",
    action="let only Ruby workers serve its queue, or enqueue it without that option and with unique of kiqbridge.flow",
)
_FOREIGN: Final[Mapping[Rule, Sequence[str]]] = {
    FOREIGN_BATCH: ("bid",),
    FOREIGN_ENCRYPTION: ("encrypt",),
    FOREIGN_LOCK: ("unique_for", "lock_digest", "unique_digest"),
}


def check_payloads(system: System) -> Iterator[Finding]:
    """Texts that nobody can perform."""
    faults = Counter(
        (fault, each.place) for each in _alive(system) if (fault := fault_of(each.job)) is not None
    )
    if faults:
        places = [
            f"{fault} in {printable(place)} ({count})" for (fault, place), count in faults.items()
        ]
        yield PAYLOAD.problem(f"{listed(places)}; {system.sample.scope}")
    else:
        yield PAYLOAD.ok(f"no unreadable job; {system.sample.scope}")


def fault_of(job: JobRecord) -> str | None:
    """What keeps a job from being performed; None: nothing that its text shows."""
    try:
        job.text.decode()
    except UnicodeDecodeError:
        return "a text that is not UTF-8"
    if not job.is_readable:  # one that is too long to be parsed may be an object
        return None if job.item else "a text that is no JSON object"
    if not isinstance(job.item.get("class"), str) or not job.item["class"]:
        return "a job without a class"
    if not isinstance(job.item.get("args"), list):
        return "a job without a list of args"
    return None if job.jid else "a job without a jid"


def check_sizes(system: System) -> Iterator[Finding]:
    """The largest one decides."""
    large = sorted(
        (each for each in system.sample.jobs if len(each.job.text) > LARGE_BYTES),
        key=lambda each: -len(each.job.text),
    )
    if not large:
        yield PAYLOAD_SIZE.ok(f"no job above {LARGE_BYTES // 1000} kB; {system.sample.scope}")
        return
    limit = system.environ.get("KIQBRIDGE_MAX_PAYLOAD_BYTES", "")
    most = int(limit) if limit.isdecimal() else DEFAULT_MAX_PAYLOAD_BYTES
    names = [f"{len(each.job.text) / 1000:,.0f} kB ({_named(each)})" for each in large]
    what = f"{counted(len(large), 'large job')}: {listed(names)}; {system.sample.scope}"
    if most and len(large[0].job.text) > most:
        yield PAYLOAD_SIZE.problem(what)
    else:
        yield PAYLOAD_SIZE.warning(what)


def check_timestamps(system: System) -> Iterator[Finding]:
    """Integers that are seconds."""
    found = Counter(
        (name, printable(each.job.display_class))
        for each in system.sample.jobs
        for name in _TIMES
        if type(value := each.job.item.get(name)) is int and 0 < value < MILLISECONDS_FROM
    )
    if found:
        names = [f"{name} of {job_class} ({count})" for (name, job_class), count in found.items()]
        yield TIMESTAMPS.warning(f"integers of seconds: {listed(names)}; {system.sample.scope}")
    else:
        yield TIMESTAMPS.ok(f"no integers of seconds; {system.sample.scope}")


def check_foreign(system: System) -> Iterator[Finding]:
    """What only Ruby can honour, where a Python process serves the queue."""
    served = system.fleet.queues_of_python
    waiting = [each for each in _alive(system) if each.job.queue in served]
    for rule, members in _FOREIGN.items():
        jobs = [each for each in waiting if any(map(each.job.item.get, members))]
        found = Counter(map(_named, jobs))
        if found:
            names = [f"{name} ({count})" for name, count in found.items()]
            yield rule.problem(
                f"jobs with {' or '.join(members)}: {listed(names)}; {system.sample.scope}"
            )
        else:
            yield rule.ok(
                f"no job with {' or '.join(members)} waits for Python; {system.sample.scope}"
            )


def _alive(system: System) -> list[Sampled]:
    return [each for each in system.sample.jobs if not each.is_dead]


def _named(each: Sampled) -> str:
    return f"{printable(each.job.display_class) or 'no class'} in {printable(each.place)}"


CHECKS: Final[Sequence[tuple[Sequence[Rule], Callable[[System], Iterable[Finding]]]]] = (
    ((PAYLOAD,), check_payloads),
    ((PAYLOAD_SIZE,), check_sizes),
    ((TIMESTAMPS,), check_timestamps),
    (tuple(_FOREIGN), check_foreign),
)
"""Rules, and the function that applies them."""
