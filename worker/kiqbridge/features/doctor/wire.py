"""Rules about jobs, queues and schedules: what a sample of them holds, what is due, what lies elsewhere."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from kiqbridge.api import rulebook
from kiqbridge.api.acts import to_all
from kiqbridge.api.verdict import Finding, Rule
from kiqbridge.api.wording import listed
from kiqbridge.errors import RedisRefused
from kiqbridge.features.doctor.finding import counted, printable
from kiqbridge.features.doctor.system import Checks, Sampled, System
from kiqbridge.features.dynamic.published import refused, undeclared
from kiqbridge.wire.amounts import instant_text, span_text
from kiqbridge.wire.job_faults import LARGE_BYTES, Remark, remarks
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.payload import MILLISECONDS_FROM
from kiqbridge.wire.raw_job import DEFAULT_MAX_PAYLOAD_BYTES

_rule: Final = partial(Rule, area="wire", link="/queues")

PAYLOAD: Final = rulebook.PAYLOAD

PAYLOAD_SIZE: Final = _rule(
    id="payload-size",
    reports=f"jobs above {LARGE_BYTES // 1000} kB; above KIQBRIDGE_MAX_PAYLOAD_BYTES it is a problem",
    why="Redis keeps them in memory, and each claim, retry and page reads them; above the limit they are refused",
    do="put the data into S3 or a database, and pass its key",
    command="kiqbridge stats --memory",
)

TIMESTAMPS: Final = _rule(
    id="timestamps",
    reports="times that are an integer number of seconds (created_at, enqueued_at, failed_at, retried_at)",
    why="Ruby Sidekiq 8 takes an integer for milliseconds: such a job seems to wait since 1970",
    do="correct the producer: seconds as a float (1700000000.5), or milliseconds as an integer",
    command="kiqbridge doctor --rule timestamps",
)

FOREIGN_BATCH: Final = _rule(
    id="foreign-batch",
    reports="jobs of a batch of Sidekiq Pro (bid) that wait for a Python worker",
    why="a batch is never informed of what Python does, so a Python worker refuses such a job to the dead set",
    do="let only Ruby workers serve its queue, or choose with KIQBRIDGE_FOREIGN_JOBS what happens to them",
    command="bundle exec sidekiq -q QUEUE",
)

FOREIGN_ENCRYPTION: Final = _rule(
    id="foreign-encryption",
    reports="jobs with encrypted arguments of Sidekiq Enterprise (encrypt) that wait for a Python worker",
    why="only Ruby can read the arguments, so a Python worker refuses such a job to the dead set",
    do="let only Ruby workers serve its queue, or enqueue it without encrypt",
    command="bundle exec sidekiq -q QUEUE",
)

FOREIGN_LOCK: Final = _rule(
    id="foreign-lock",
    reports="jobs with a lock of Sidekiq Enterprise or sidekiq-unique-jobs that wait for a Python worker",
    why="Python does not release the lock at the end, so Ruby drops further ones until it expires, if ever",
    do="let only Ruby workers serve its queue, or enqueue it without that option and with unique of kiqbridge.flow",
    command="bundle exec sidekiq -q QUEUE",
)

_FOREIGN: Final[Mapping[Rule, Sequence[str]]] = {
    FOREIGN_BATCH: ("bid",),
    FOREIGN_ENCRYPTION: ("encrypt",),
    FOREIGN_LOCK: ("unique_for", "lock_digest", "unique_digest"),
}

FAR_S: Final = 366 * 86_400
_MARK: Final = b"queue:"

NAMESPACE: Final = _rule(
    id="namespace",
    reports="queues with jobs under another namespace than the configured one, where no process lives",
    why="a client and its workers disagree about the namespace: no worker performs these jobs",
    do="set KIQBRIDGE_NAMESPACE to the same for clients and workers, and move the jobs by RENAME",
    command="export KIQBRIDGE_NAMESPACE=NAMESPACE",
)

FAR_FUTURE: Final = _rule(
    id="far-future",
    reports="jobs in schedule or retry that are due in more than a year",
    why="a time in milliseconds, where seconds are expected, is due in 50,000 years",
    do="correct the time where they are enqueued, and reschedule or delete them",
    command="kiqbridge scheduled list --due-after TIME",
)

UNDECLARED: Final = _rule(
    id="undeclared-schedule",
    reports="schedules that were declared beside a job, and that no living worker declares any more",
    why="they go on firing: only a worker of the application that declared them removes them",
    do="if they were taken out of the code for good: kiqbridge schedule delete NAME",
    command="kiqbridge schedule delete NAME",
)

TWO_APPLICATIONS: Final = _rule(
    id="schedule-of-two-applications",
    reports="schedules that a second application has declared within the last hour, in another way than the first",
    why="workers of the second one do not start, or leave the schedule to the first: its own would never fire",
    do="give one of them another schedule_name; if it is one application under a new name, set app to the old one",
    command="kiqbridge schedule list",
)


def check_payloads(system: System) -> Iterator[Finding]:
    """Texts that no worker can perform."""
    faults = Counter(
        (remark.text.partition(":")[0], each.place)
        for each, remark in _remarked(_alive(system), PAYLOAD)
    )
    yield _summed(
        system,
        PAYLOAD,
        [f"{fault} in {printable(place)} ({count})" for (fault, place), count in faults.items()],
        "no unreadable job",
        is_problem=True,
    )


def check_sizes(system: System) -> Iterator[Finding]:
    """The largest one decides."""
    large = sorted(
        (each for each in system.sample.jobs if len(each.job.text) > LARGE_BYTES),
        key=lambda each: -len(each.job.text),
    )
    limit = system.environ.get("KIQBRIDGE_MAX_PAYLOAD_BYTES", "")
    most = int(limit) if limit.isdecimal() else DEFAULT_MAX_PAYLOAD_BYTES
    names = [f"{len(each.job.text) / 1000:,.0f} kB ({_named(each)})" for each in large]
    yield _summed(
        system,
        PAYLOAD_SIZE,
        names,
        f"no job above {LARGE_BYTES // 1000} kB",
        f"{counted(len(large), 'large job')}: ",
        is_problem=any(len(each.job.text) > most > 0 for each in large),
    )


def check_timestamps(system: System) -> Iterator[Finding]:
    """Integers that are seconds."""
    found = Counter(
        (remark.text.partition(" ")[0], printable(each.job.display_class))
        for each, remark in _remarked(system.sample.jobs, TIMESTAMPS)
    )
    names = [f"{name} of {job_class} ({count})" for (name, job_class), count in found.items()]
    well = "no integers of seconds"
    yield _summed(system, TIMESTAMPS, names, well, "integers of seconds: ")


def check_foreign(system: System) -> Iterator[Finding]:
    """What only Ruby can honour, where a Python process serves the queue."""
    served = {name for each in system.processes if each.is_ours for name in each.queues}
    waiting = [each for each in _alive(system) if each.job.queue in served]
    for rule, members in _FOREIGN.items():
        jobs = [each for each in waiting if any(map(each.job.item.get, members))]
        names = [f"{name} ({count})" for name, count in Counter(map(_named, jobs)).items()]
        which = " or ".join(members)
        well = f"no job with {which} waits for Python"
        yield _summed(system, rule, names, well, f"jobs with {which}: ", is_problem=True)


def _summed(
    system: System,
    rule: Rule,
    faults: Sequence[str],
    well: str,
    before: str = "",
    *,
    is_problem: bool = False,
) -> Finding:
    """One finding for all faults of a rule, with the number of jobs that were read."""
    found = rule.summed(faults, well, before, is_problem=is_problem)
    return replace(found, what=f"{found.what}; {system.sample.scope}")


def _remarked(jobs: Sequence[Sampled], rule: Rule) -> Iterator[tuple[Sampled, Remark]]:
    """What each job's own page says of it, as far as this rule counts it."""
    return ((each, one) for each in jobs for one in remarks(each.job) if one.rule == rule.id)


def _alive(system: System) -> list[Sampled]:
    return [each for each in system.sample.jobs if not each.is_dead]


def _named(each: Sampled) -> str:
    return f"{printable(each.job.display_class) or 'no class'} in {printable(each.place)}"


def check_declared(system: System) -> Iterator[Finding]:
    """Schedules whose code is gone."""
    names = undeclared(system.connection, system.keys)
    found = UNDECLARED.summed(names, "each declared schedule is declared by a living worker")
    yield found.naming(**({"NAME": names[0]} if names else {}))


def check_refused(system: System) -> Iterator[Finding]:
    """Schedules of one name in two applications."""
    found = [
        f"{printable(each.name)} of {printable(each.owner)} is declared by {printable(each.app)} as well "
        f"({printable(each.by)}, {each.age_s:.0f} s ago)"
        for each in refused(system.connection, system.keys)
    ]
    yield TWO_APPLICATIONS.summed(
        found, "no schedule is declared by two applications", is_problem=True
    )


def check_namespaces(system: System) -> Iterator[Finding]:
    """By a look at some keys: those of queues show their namespace."""
    own = system.keys.prefix.removesuffix(":")
    names, is_whole = system.scanned
    scope = "all keys were looked at" if is_whole else f"{len(names):,} keys were looked at"
    elsewhere = Counter(
        space for name in names if (space := namespace_of(name)) is not None and space != own
    )
    # A queue of ours may itself be called `a:queue:b`, so what lies under our prefix is never elsewhere.
    foreign = [
        space
        for space in elsewhere
        if not (own and space.startswith(f"{own}:")) and not _lives(system, space)
    ]
    shown = [
        f"{printable(space) or 'no namespace'} ({counted(elsewhere[space], 'queue')})"
        for space in foreign
    ]
    what = "no queues under another namespace"
    if foreign:
        here = f"the namespace {own}" if own else "no namespace"
        what = f"queues under {listed(shown)}, where no process lives; {here} is configured"
    yield NAMESPACE.rated(f"{what}; {scope}", warning=bool(foreign))


def namespace_of(name: bytes) -> str | None:
    """The namespace of a queue's key; None if it is no queue's."""
    before, mark, queue = name.partition(_MARK)
    if not mark or not queue or before.endswith((b"kb:suspects:", b"kb:")):
        return None
    if before and not before.endswith(b":"):
        return None
    return before.removesuffix(b":").decode("utf-8", "surrogateescape")


def _lives(system: System, space: str) -> bool:
    """Whether processes are registered there; where that may not be read, they are taken for living."""
    try:
        return bool(system.connection.call("EXISTS", Keys(space).processes))
    except RedisRefused:
        return True


def check_times(system: System) -> Iterator[Finding]:
    """What is due in an age."""
    now = system.server_now
    far, acts = [], []
    after = instant_text(now + FAR_S)
    sets = system.sets("schedule", "retry")
    replies = system.connection.run(
        *(("ZCOUNT", key, f"({now + FAR_S}", "+inf") for key in sets.values()),
        *(("ZRANGE", key, -1, -1, "WITHSCORES") for key in sets.values()),
    )
    for name, distant, last in zip(sets, replies, replies[len(sets) :], strict=False):
        if distant:
            far.append(f"{distant:,} in {name}, the last {_due(float(last[1]), now)}")
            screen = "scheduled" if name == "schedule" else "retries"
            acts.append(to_all("reschedule", f"Reschedule {screen}…", screen, f"due_after:{after}"))
    yield FAR_FUTURE.summed(far, "nothing is due after a year").naming(*acts, TIME=after)


def _due(score: float, now: float) -> str:
    if score >= MILLISECONDS_FROM:
        return f"at {score:.0f}, which looks like milliseconds"
    return f"in {span_text(score - now)}"


CHECKS: Final[Checks] = (
    ((PAYLOAD,), check_payloads),
    ((PAYLOAD_SIZE,), check_sizes),
    ((TIMESTAMPS,), check_timestamps),
    (tuple(_FOREIGN), check_foreign),
    ((NAMESPACE,), check_namespaces),
    ((FAR_FUTURE,), check_times),
    ((UNDECLARED,), check_declared),
    ((TWO_APPLICATIONS,), check_refused),
)
"""Rules, and the function that applies them."""
