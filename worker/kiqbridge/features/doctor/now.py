"""Rules about what goes on now: what waits, fails, dies, and does not come.

The list of the page Now judges (kiqbridge/api/verdict_rules.py); here each kind of its facts is described.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from kiqbridge.api import Limits
from kiqbridge.features.doctor.finding import Finding, Rule, counted
from kiqbridge.features.doctor.system import Checks, System
from kiqbridge.wire.amounts import span_text
from kiqbridge.wire.dead_bounds import WARNING_SHARE

_LIMITS: Final = Limits()

_rule: Final = partial(Rule, area="now")

NO_WORKER: Final = _rule(
    id="no-worker",
    reports="jobs that wait in queues, or are due, while no process lives",
    why="nobody performs them",
    action="start a worker, and look why the last one ended",
)
ALL_QUIET: Final = _rule(
    id="all-quiet",
    reports="jobs that wait while all processes are quiet",
    why="a quiet process takes no new jobs, and stays quiet",
    action="stop the quiet ones and start them again",
)
UNSERVED_QUEUE: Final = _rule(
    id="unserved-queue",
    reports="queues with jobs that no living process serves; quiet processes serve none, paused queues do not count",
    why="the jobs wait for ever",
    action="start a worker with -q QUEUE; if the name is wrong, correct it where they are enqueued",
)
UNKNOWN_CLASS: Final = _rule(
    id="unknown-class",
    reports="jobs whose queue only Python processes serve, none of which declares the class; jobs in retry that "
    "failed since their class was not found",
    why="each attempt fails, and after the last retry the job is dead",
    action="load the module in the worker (-r), serve the queue by a process that knows it, or correct the name",
)
NOT_READY: Final = _rule(
    id="not-ready",
    reports="Python workers that cannot do a part of their work until somebody changes something, such as a right "
    "that the server refuses them",
    why="that part stands still; kiqbridge health --ready fails on their machines",
    action="do what the finding says; a worker tries again by itself",
)
OVERDUE: Final = _rule(
    id="overdue",
    reports=f"jobs in schedule or retry, due for more than {_LIMITS.overdue_s:.0f} s while a process lives",
    why="no process moves them to their queues",
    action="look into the logs of the workers for the poller, and at their clocks",
)
ORPHANS: Final = _rule(
    id="orphans",
    reports="jobs in the hands of Python workers that are silent (a problem if no other worker lives)",
    why="they may not be running, and run again only when another worker gives them back",
    action="wait a minute; if no worker lives, start one, or run kiqbridge recover",
)
MISSED_TICKS: Final = _rule(
    id="missed-ticks",
    reports="ticks of schedules that did not come within the last day, and did not come later either",
    why="the job of the schedule was not enqueued for that time",
    action="look at the rule and the enqueue function, or the workers' log, then run the schedule",
)
LATE_TICKS: Final = _rule(
    id="late-ticks",
    reports="ticks of schedules that came after their grace time within the last day",
    why="the job ran later than planned",
    action="look at the rule, the enqueue function and its dead-letter queue, or the workers' log",
)
LATENCY: Final = _rule(
    id="queue-latency",
    reports=f"served queues whose oldest job has waited for more than {_LIMITS.latency_s:.0f} s (a problem from "
    f"{span_text(_LIMITS.latency_s * _LIMITS.much_worse)} on)",
    why="more is pushed than is performed, or the workers are stuck in long jobs",
    action="add workers or threads, or give slow jobs a queue of their own",
)
FAILING_CLASS: Final = _rule(
    id="failing-class",
    reports=f"classes of which {_LIMITS.failed_share:.0%} or more of the executions of the last five minutes failed, "
    f"from {_LIMITS.fewest_executions} executions on",
    why="their jobs fill the retry set, and die when their retries are used up",
    action="look at the errors; pause the class or its queue while the cause lasts",
)
DEATHS: Final = _rule(
    id="deaths",
    reports="jobs that died within the last hour",
    why="they have used up their retries, and do not run again by themselves",
    action="look at their errors, remove the cause, then retry them: kiqbridge dead",
)
DEAD_FULL: Final = _rule(
    id="dead-full",
    reports=f"a dead set that is {WARNING_SHARE:.0%} full (dead_max_jobs), and dead jobs that were dropped within a day",
    why="each further job that dies removes the oldest one; with dead_overflow: keep the set grows until Redis is full",
    action="remove the cause, then retry or delete the jobs: kiqbridge dead; to keep more, raise dead_max_jobs, set "
    "dead_overflow: keep, or name a dead_archive",
)
RETRIES: Final = _rule(
    id="retries",
    reports=f"more than {_LIMITS.retries:,} jobs that failed and wait for their retry",
    why="something fails in mass, and all of it comes back",
    action="look which class and error prevail: kiqbridge retries; often one service is away",
)
HEARTBEAT: Final = _rule(
    id="heartbeat",
    reports=f"processes whose last heartbeat is older than {_LIMITS.beat_s:.0f} s; registered ones without any",
    why="they died, hang, or cannot reach Redis; what they hold is given back by another worker only",
    action="look at their logs; kiqbridge recover gives back what dead ones hold if no worker lives",
)
LONG_JOBS: Final = _rule(
    id="long-jobs",
    reports=f"jobs that have been running for more than {span_text(_LIMITS.job_s)}",
    why="each takes a thread, and begins again if its worker ends",
    action="give calls over a network a timeout; make long work an iterable job",
)
SUSPECTS: Final = _rule(
    id="suspects",
    reports="jobs that were running when a worker died, and wait to run alone",
    why="one of them may have killed the worker; the one that kills its own process dies with ProcessDied",
    action="look at the memory of the workers; see the runbook on killed workers (docs/runbooks.md)",
)
PAUSED: Final = _rule(
    id="paused",
    reports="queues and classes that are paused",
    why="their jobs wait until somebody resumes them",
    action="when the reason is gone: kiqbridge queue resume, kiqbridge class resume",
)
REFUSED: Final = _rule(
    id="refused",
    reports="questions of this area that the server refuses: a right is missing, or a key has a wrong type",
    why="what was asked for is not judged",
    action="allow them in the ACL of this user (docs/security.md), or look at the rule types",
)

_WELL: Final[Sequence[tuple[Rule, str]]] = (
    (NO_WORKER, "no job waits without any process"),
    (ALL_QUIET, "no job waits for quiet processes alone"),
    (UNSERVED_QUEUE, "each queue with jobs is served or paused"),
    (NOT_READY, "no worker lacks what it needs"),
    (OVERDUE, "what is due is moved to its queue"),
    (ORPHANS, "no silent worker holds jobs"),
    (MISSED_TICKS, "no tick is missing"),
    (LATE_TICKS, "no tick came late"),
    (LATENCY, f"no job of a served queue waits for more than {_LIMITS.latency_s:.0f} s"),
    (FAILING_CLASS, "no class fails in mass"),
    (DEATHS, "no job died within the last hour"),
    (
        DEAD_FULL,
        f"the dead set holds less than {WARNING_SHARE:.0%} of its bound, and none was dropped",
    ),
    (LONG_JOBS, f"no job runs for more than {span_text(_LIMITS.job_s)}"),
    (SUSPECTS, "no job waits to run alone"),
    (PAUSED, "no queue or class is paused"),
)
"""The rules that need no number where all is well."""


def check_now(system: System) -> Iterator[Finding]:
    """What the list of the page Now finds."""
    for rule, well in _WELL:
        yield from system.judged(rule, well)
    facts = system.facts
    yield from system.judged(UNKNOWN_CLASS, f"no job of an unknown class; {system.sample.scope}")
    yield from system.judged(RETRIES, f"{counted(facts.retry.size, 'job')} wait for their retry")
    yield from system.judged(
        HEARTBEAT, f"{counted(len(facts.processes), 'process')}, each with a heartbeat"
    )
    found = system.found(REFUSED)
    yield (
        REFUSED.unknown(found[0].what.removesuffix("."))
        if found
        else REFUSED.ok("the server answered all")
    )


CHECKS: Final[Checks] = (
    ((*(rule for rule, _ in _WELL), UNKNOWN_CLASS, RETRIES, HEARTBEAT, REFUSED), check_now),
)
"""Rules, and the function that applies them."""
