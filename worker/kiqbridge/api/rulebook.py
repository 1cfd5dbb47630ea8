"""The rules of a verdict as they are described: what each finds, why that matters, what to do.

The page Now, `kiqbridge stats --watch`, the doctor, alerts, Prometheus and the monitor function show these texts;
verdict_rules.py applies the rules.
"""

from collections.abc import Sequence
from typing import Final

from kiqbridge.api.verdict import LIMITS, Rule
from kiqbridge.store import server_check
from kiqbridge.wire.amounts import span_text
from kiqbridge.wire.dead_bounds import WARNING_SHARE


def sentence(text: str) -> str:
    """A text that is written as a part of one, as a sentence of its own."""
    return f"{text[0].upper()}{text[1:]}."


REDIS_CLI: Final = 'redis-cli -u "$REDIS_URL" '
"""How a command to the server begins."""

NO_WORKER: Final = Rule(
    id="no-worker",
    reports="jobs that wait in queues, or are due, while no process lives",
    why="No process performs them.",
    do="Start one: kiqbridge worker. Look at why the last one ended: its log, systemctl status, or the events of its ECS "
    "service.",
    well="no job waits without any process",
    command="kiqbridge worker",
)
ALL_QUIET: Final = Rule(
    id="all-quiet",
    reports="jobs that wait while all processes are quiet",
    why="A quiet process takes no new jobs, and stays quiet.",
    do="A process that is quiet stays so: stop it and start it again.",
    well="no job waits for quiet processes alone",
    command="kiqbridge stop --all",
)
UNSERVED_QUEUE: Final = Rule(
    id="unserved-queue",
    reports="queues with jobs that no living process serves; quiet processes serve none, paused queues do not count",
    why="The jobs wait for ever.",
    do="Start a worker with -q QUEUE; if the name is wrong, correct it where the job is declared and move what waits.",
    well="each queue with jobs is served or paused",
    command="kiqbridge worker -q QUEUE",
)
UNKNOWN_CLASS: Final = Rule(
    id="unknown-class",
    reports="jobs whose queue only Python processes serve, none of which declares the class; jobs in retry that "
    "failed since their class was not found",
    why="Each attempt fails, and after the last retry the job is dead.",
    do="Load the module that declares the class in the worker (-r), serve the queue by a process that knows it, or "
    "correct the name.",
    command="kiqbridge worker -r MODULE",
)
NOT_READY: Final = Rule(
    id="not-ready",
    reports="Python workers that cannot do a part of their work until somebody changes something, such as a right "
    "that the server refuses them",
    why="That part stands still; kiqbridge health --ready fails on their machines.",
    do="Do what it says: the worker tries again by itself. Its log has the same line.",
    well="no worker lacks what it needs",
    command="kiqbridge ps",
)
OVERDUE: Final = Rule(
    id="overdue",
    reports=f"jobs in schedule or retry, due for more than {LIMITS.overdue_s:.0f} s while a process lives",
    why="No process moves them to their queues.",
    do="The poller of a worker moves them: look for its errors in the log of the workers, and whether the clocks of the "
    "machines agree.",
    well="what is due is moved to its queue",
    limit="overdue_s",
    command="kiqbridge SET retry --due-before TIME",
)
ORPHANS: Final = Rule(
    id="orphans",
    reports="jobs in the hands of Python workers that are silent (a problem if no other worker lives)",
    why="They may not be running, and run again only when another worker gives them back.",
    do="Another worker gives them back within a minute; wait, then look at why the process ended. If no other worker "
    "lives, start one, or run kiqbridge recover.",
    well="no silent worker holds jobs",
    command="kiqbridge recover",
)
CLUSTER: Final = Rule(
    id="cluster",
    area="redis",
    reports="cluster mode with a namespace without hash tag, with Ruby processes, or with the address of one node",
    why=sentence(server_check.CLUSTERED),
    do=sentence(server_check.UNCLUSTER),
    command="export KIQBRIDGE_NAMESPACE='{jobs}'",
)
EVICTION: Final = Rule(
    id="eviction",
    area="redis",
    reports=f"another eviction policy than {server_check.NOEVICTION}",
    why="With another policy a server forgets what it holds when its memory is full.",
    do=sentence(server_check.WHAT_TO_DO),
    command=REDIS_CLI + "CONFIG SET maxmemory-policy noeviction",
)
MEMORY: Final = Rule(
    id="memory",
    area="redis",
    reports=f"{LIMITS.memory_warning:.0%} of maxmemory (or of the machine) in use, a problem from "
    f"{LIMITS.memory_critical:.0%} on",
    why="A full server refuses jobs, and workers cannot write what became of theirs.",
    do="Look for what grows (kiqbridge stats --memory, or the doctor): more workers, limits of queues "
    "(KIQBRIDGE_QUEUE_LIMITS), fewer dead jobs, a server of their own for foreign keys. Else raise maxmemory or take a "
    "larger machine.",
    limit="memory_warning",
    command="kiqbridge stats --memory",
)
_TICKS: Final = (
    "Look at the rule in EventBridge Scheduler, at the enqueue function and its dead-letter queue; of a dynamic schedule "
    "at the log of the workers."
)
MISSED_TICKS: Final = Rule(
    id="missed-ticks",
    reports="ticks of schedules that did not come within the last day, and did not come later either",
    why="The job of the schedule was not enqueued for that time.",
    do=f"{_TICKS} Then run the schedule, if its work is still wanted.",
    well="no tick is missing",
    command="kiqbridge schedule run SCHEDULE",
)
PAYLOAD: Final = Rule(
    id="payload",
    area="wire",
    reports="texts in queues, retry and schedule that are no JSON object in UTF-8, or lack class, args or jid",
    why="No worker can perform them: ours moves them to the dead set, Ruby's pages may fail at them.",
    do="Look at the text and at who pushed it: kiqbridge queue and kiqbridge retries show such jobs, and delete them. A "
    "worker of Python moves them to the dead set.",
    command="kiqbridge queue show QUEUE",
)
LATE_TICKS: Final = Rule(
    id="late-ticks",
    reports="ticks of schedules that came after their grace time within the last day",
    why="The job ran later than planned.",
    do=_TICKS,
    well="no tick came late",
    command="kiqbridge schedule history SCHEDULE",
)
LATENCY: Final = Rule(
    id="queue-latency",
    reports=f"served queues whose oldest job has waited for more than {LIMITS.latency_s:.0f} s (a problem from "
    f"{span_text(LIMITS.latency_s * LIMITS.much_worse)} on)",
    why="More is pushed than is performed, or the workers are stuck in long jobs.",
    do="Look at what runs: add workers or threads, or give slow jobs a queue of their own.",
    well=f"no job of a served queue waits for more than {LIMITS.latency_s:.0f} s",
    limit="latency_s",
    command="kiqbridge ps --jobs",
)
FAILING_CLASS: Final = Rule(
    id="failing-class",
    reports=f"classes of which {LIMITS.failed_share:.0%} or more of the executions of the last five minutes failed, "
    f"from {LIMITS.fewest_executions} executions on",
    why="Their jobs fill the retry set, and die when their retries are used up.",
    do="Look at its errors, on its page or by kiqbridge metrics CLASS; pause the class or its queue while the cause lasts.",
    well="no class fails in mass",
    limit="failed_share",
    command="kiqbridge class pause CLASS --for 1h",
)
DEATHS: Final = Rule(
    id="deaths",
    reports="jobs that died within the last hour",
    why="They have used up their retries, and do not run again by themselves.",
    do="Look at their errors. When the cause is removed, retry them: kiqbridge dead.",
    well="no job died within the last hour",
    limit="deaths",
    command="kiqbridge dead retry --newer-than 1h",
)
DEAD_FULL: Final = Rule(
    id="dead-full",
    reports=f"a dead set that is {WARNING_SHARE:.0%} full (dead_max_jobs), and dead jobs that were dropped within a day",
    why="Each further job that dies removes the oldest one; with dead_overflow: keep the set grows until Redis is full.",
    do="Remove the cause, then retry or delete the jobs: kiqbridge dead. To keep more, raise dead_max_jobs, set "
    "dead_overflow: keep, or name a dead_archive.",
    well=f"the dead set holds less than {WARNING_SHARE:.0%} of its bound, and none was dropped",
    command="kiqbridge dead retry --class CLASS",
)
RETRIES: Final = Rule(
    id="retries",
    reports=f"more than {LIMITS.retries:,} jobs that failed and wait for their retry",
    why="Something fails in mass, and all of it comes back.",
    do="Look which class and error prevail: often one service is away. They run again by themselves.",
    limit="retries",
    command="kiqbridge retries",
)
HEARTBEAT: Final = Rule(
    id="heartbeat",
    reports=f"processes whose last heartbeat is older than {LIMITS.beat_s:.0f} s; registered ones without any",
    why="They died, hang, or cannot reach Redis; what they hold is given back by another worker only.",
    do="Look at their machines and logs: they are stopped, starved of CPU, cut off from Redis, or killed. Another worker "
    "gives back what they hold; if none lives, kiqbridge recover does.",
    limit="beat_s",
    command="kiqbridge recover",
)
LONG_JOBS: Final = Rule(
    id="long-jobs",
    reports=f"jobs that have been running for more than {span_text(LIMITS.job_s)}, or for more than "
    f"{span_text(LIMITS.odd_job_s)} and {LIMITS.job_times:g} times as long as the mean of their class in the last five "
    "minutes",
    why="Each takes a thread, and begins again if its worker ends.",
    do="Dump the threads of its process to see where it is. Give calls over a network a timeout; make long work an "
    "iterable job.",
    well=f"no job runs for more than {span_text(LIMITS.job_s)}, nor for far longer than its class does",
    limit="job_s",
    command="kiqbridge ps --jobs",
)
SUSPECTS: Final = Rule(
    id="suspects",
    reports="jobs that were running when a worker died, or hung when one stopped, and wait to run alone",
    why="One of them may have killed the worker; the one that kills its own process dies with ProcessDied.",
    do="Nothing, if a worker serves the queue: one at a time, each runs in a process of its own, and one that kills it "
    "dies. Look at the memory of the workers; see the runbook on killed workers (docs/how_to/runbooks.md).",
    well="no job waits to run alone",
    command="kiqbridge ps --jobs",
)
PAUSED: Final = Rule(
    id="paused",
    reports="queues and classes that are paused",
    why="Their jobs wait until somebody resumes them.",
    do="When the reason is gone: kiqbridge queue resume, kiqbridge class resume.",
    well="no queue or class is paused",
    command="kiqbridge KIND resume NAME",
)
REFUSED: Final = Rule(
    id="refused",
    reports="questions of this list that the server refuses: a right is missing, or a key has a wrong type",
    why="What was asked for is not judged.",
    do="Allow them in the ACL of this user (docs/reference/security.md). Run kiqbridge doctor: it names keys of a wrong type and "
    "rights that are missing.",
    command="kiqbridge doctor --area redis",
)

RULEBOOK: Final[Sequence[Rule]] = (
    *(NO_WORKER, ALL_QUIET, UNSERVED_QUEUE, UNKNOWN_CLASS, NOT_READY, OVERDUE, ORPHANS),
    *(CLUSTER, EVICTION, MEMORY, MISSED_TICKS, PAYLOAD, LATE_TICKS, LATENCY, FAILING_CLASS),
    *(DEATHS, DEAD_FULL, RETRIES, HEARTBEAT, LONG_JOBS, SUSPECTS, PAUSED, REFUSED),
)
"""All of them."""
