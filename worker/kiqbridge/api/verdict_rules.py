"""The rules of a verdict: each is a function that gives the facts of one kind, worst first.

A fact says with numbers what was found, what to do next, and where to look. Pure. The page Now, `kiqbridge stats --watch`,
the doctor (features/doctor/now.py describes each kind), Prometheus and the monitor function all judge by this list.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

from kiqbridge.api.facts import LATELY_S, Facts, QueueFacts, SetFacts, fetch_facts
from kiqbridge.api.in_flight import HeldJob
from kiqbridge.api.operator import Operator
from kiqbridge.api.stuck import STUCK, describe_stuck
from kiqbridge.api.verdict import Fact, Verdict
from kiqbridge.store import server_check
from kiqbridge.store.pauses import Pause
from kiqbridge.wire.amounts import count_text, instant_text, oldest_text, span_text
from kiqbridge.wire.names import shown

_NAMED: Final = 3
"""So many names are in a sentence; more are only counted."""


def _no_worker(facts: Facts) -> Iterator[Fact]:
    waiting = sum(queue.size for queue in facts.queues)
    due = facts.retry.due + facts.schedule.due
    if facts.processes or not waiting + due:
        return
    oldest = max((queue.latency_s for queue in facts.queues), default=0.0)
    since = f", {oldest_text(oldest)}" if oldest else ""
    more = f", and {due:,} of the scheduled jobs and retries {_are(due)} due" if due else ""
    stuck, do = describe_stuck(
        facts.held,
        "Start one: kiqbridge worker. Look at why the last one ended: its log, systemctl status, or the "
        "events of its ECS service.",
    )
    lives = "gives a heartbeat" if do == STUCK else "lives"
    yield Fact(
        kind="no-worker",
        severity="critical",
        what=f"No worker {lives}, and {count_text(waiting, 'job')} wait{_s(waiting)} in queues{since}{more}{stuck}.",
        do=do,
        link="/processes",
    )


def _all_quiet(facts: Facts) -> Iterator[Fact]:
    waiting = sum(queue.size for queue in facts.queues)
    if facts.processes and waiting and all(each.is_quiet for each in facts.processes):
        yield Fact(
            kind="all-quiet",
            severity="critical",
            what=f"All processes ({len(facts.processes):,}) are quiet: they take no new jobs, and "
            f"{count_text(waiting, 'job')} wait{_s(waiting)}.",
            do="A process that is quiet stays so: stop it and start it again.",
            link="/processes",
        )


def _unserved(facts: Facts) -> Iterator[Fact]:
    at_work = [each for each in facts.processes if not each.is_quiet]
    if not at_work:
        return
    served = {name for each in at_work for name in each.queues} | _paused_queues(facts)
    for queue in _longest(facts.queues):
        if queue.size and queue.name not in served:
            name = shown(queue.name)
            stuck, do = describe_stuck(
                [each for each in facts.held if each.queue == queue.name],
                f"Start a worker with -q {name}; if the name is wrong, correct it where the job is declared "
                "and move what waits.",
            )
            yield Fact(
                kind="unserved-queue",
                severity="critical",
                what=f"No process {'with a heartbeat ' if stuck else ''}serves the queue {name}: "
                f"{count_text(queue.size, 'job')} wait{_s(queue.size)}, {oldest_text(queue.latency_s)}{stuck}.",
                do=do,
                link=_queue_link(queue.name),
            )


def _unknown(facts: Facts) -> Iterator[Fact]:
    if facts.unknown:
        names = [f"{name} ({count:,})" for name, count in facts.unknown.items()]
        yield Fact(
            kind="unknown-class",
            severity="critical",
            what=f"No process that may take them declares {_names(names)}.",
            do="Load the module that declares the class in the worker (-r), serve the queue by a process that knows "
            "it, or correct the name.",
            link="/retries?error_class=NameError",
        )


def _not_ready(facts: Facts) -> Iterator[Fact]:
    said: dict[str, list[str]] = {}
    for each in facts.processes:
        for text in each.troubles:
            said.setdefault(text, []).append(each.identity)
    for text, names in said.items():
        yield Fact(
            kind="not-ready",
            severity="critical",
            what=f"{count_text(len(names), 'worker')} {_are(len(names))} not ready ({_names(names)}): {shown(text)}.",
            do="Do what it says: the worker tries again by itself. Its log has the same line.",
            link="/processes",
        )


def _pollers(facts: Facts) -> Iterator[Fact]:
    if not facts.processes:
        return
    for name, link, each in _due_sets(facts):
        if each.due and each.late_s > facts.limits.overdue_s:
            yield Fact(
                kind="overdue",
                severity="critical",
                what=f"{count_text(each.due, 'job')} of the {name} set {_are(each.due)} due and not moved to a "
                f"queue, the first for {span_text(each.late_s)}.",
                do="The poller of a worker moves them: look for its errors in the log of the workers, and whether "
                "the clocks of the machines agree.",
                link=link,
            )


def _orphans(facts: Facts) -> Iterator[Fact]:
    held = sum(each.held_jobs for each in facts.orphans)
    if not held:
        return
    silent = max((each.silent_for_s or 0.0 for each in facts.orphans), default=0.0)
    rescued = facts.leases > 0
    stuck, do = describe_stuck(
        [each for each in facts.held if each.is_orphan],
        "Another worker gives them back within a minute; wait, then look at why the process ended."
        if rescued
        else "No other worker lives to give them back: start one, or run kiqbridge recover.",
    )
    yield Fact(
        kind="orphans",
        severity="warning" if rescued else "critical",
        what=f"{count_text(len(facts.orphans), 'worker')} of Python {_are(len(facts.orphans))} silent, the first "
        f"for {span_text(silent)}, and hold{_s(len(facts.orphans))} {count_text(held, 'job')} that may not be "
        f"running{stuck}.",
        do=do,
        link="/processes",
    )


def _memory(facts: Facts) -> Iterator[Fact]:
    memory = facts.memory
    if memory is None:
        return
    yield from eviction_facts(memory.policy)
    if memory.share >= facts.limits.memory_warning:
        used, most = memory.taken
        whose = "maxmemory" if memory.most else "the machine's memory"
        yield Fact(
            kind="memory",
            severity="critical" if memory.share >= facts.limits.memory_critical else "warning",
            what=f"Redis uses {memory.share:.0%} of {whose} ({_megabytes(used)} of {_megabytes(most)}); "
            "when it is full, no job can be pushed.",
            do="Look for what grows (kiqbridge stats --memory, or the doctor): more workers, limits of queues (KIQBRIDGE_QUEUE_LIMITS), fewer "
            "dead jobs, a server of their own for foreign keys. Else raise maxmemory or take a larger machine.",
            link="/doctor",
        )


def eviction_facts(policy: str) -> Iterator[Fact]:
    """What is wrong with an eviction policy; empty = not known."""
    if policy and policy != server_check.NOEVICTION:
        yield Fact(
            kind="eviction",
            severity="critical",
            what=f"Redis has the eviction policy {policy}: when its memory is full it loses "
            f"{server_check.what_can_be_lost(policy)}.",
            do=f"{server_check.WHAT_TO_DO[0].upper()}{server_check.WHAT_TO_DO[1:]}.",
            link="/doctor",
        )


def _cluster(facts: Facts) -> Iterator[Fact]:
    if facts.is_cluster:
        yield Fact(
            kind="cluster",
            severity="critical",
            what=f"Redis is in cluster mode: {server_check.CLUSTERED}.",
            do=f"{server_check.UNCLUSTER[0].upper()}{server_check.UNCLUSTER[1:]}.",
            link="/doctor",
        )
    if facts.ruby_in_cluster:
        yield Fact(
            kind="cluster",
            severity="critical",
            what=f"Redis is in cluster mode, and Ruby processes use it: {_names(facts.ruby_in_cluster)}. {server_check.RUBY}.",
            do=f"{server_check.WITHOUT_RUBY[0].upper()}{server_check.WITHOUT_RUBY[1:]}.",
            link="/doctor",
        )


def _missed(facts: Facts) -> Iterator[Fact]:
    for came_later in (False, True):
        ticks = [each for each in facts.missed if each.came_later is came_later]
        if not ticks:
            continue
        names = list(dict.fromkeys(each.schedule for each in ticks))
        yield Fact(
            kind="late-ticks" if came_later else "missed-ticks",
            severity="warning" if came_later else "critical",
            what=f"{count_text(len(ticks), 'tick')} of {_names(names)} did not come in time within a day, the "
            f"last {instant_text(ticks[0].at)}; {'all came' if came_later else 'none came'} later.",
            do="Look at the rule in EventBridge Scheduler, at the enqueue function and its dead-letter queue; of a "
            "dynamic schedule at the log of the workers."
            + ("" if came_later else " Then run the schedule, if its work is still wanted."),
            link="/schedules",
        )


def _latency(facts: Facts) -> Iterator[Fact]:
    served = {name for each in facts.processes for name in each.queues}
    paused = _paused_queues(facts)
    late = [
        (queue.latency_s / facts.limits.latency_s, queue)
        for queue in facts.queues
        if queue.size and queue.name in served and queue.name not in paused
    ]
    for factor, queue in sorted(late, key=lambda each: -each[0]):
        if factor > 1:
            stuck, do = describe_stuck(
                _of_those_that_serve(facts, queue.name),
                f"Look at what runs ({_busy(facts)}): add workers or threads, or give slow jobs a queue of "
                "their own.",
            )
            yield Fact(
                kind="queue-latency",
                severity="critical" if factor > facts.limits.much_worse else "warning",
                what=f"The oldest job of the queue {shown(queue.name)} has waited for "
                f"{span_text(queue.latency_s)}; {count_text(queue.size, 'job')} wait{_s(queue.size)}{stuck}.",
                do=do,
                link=_queue_link(queue.name),
            )


def _deaths(facts: Facts) -> Iterator[Fact]:
    if facts.dead_lately > facts.limits.deaths:
        yield Fact(
            kind="deaths",
            severity="warning",
            what=f"{count_text(facts.dead_lately, 'job')} died within the last hour; {facts.dead:,} "
            f"{_are(facts.dead)} dead in all.",
            do="Look at their errors. When the cause is removed, retry them; until then they are kept, the "
            f"last {facts.dead_bounds.most:,} of them, for {span_text(facts.dead_bounds.timeout_s)}.",
            link=f"/dead?newer_than_s={LATELY_S:.0f}",
        )


def _dead_set(facts: Facts) -> Iterator[Fact]:
    bounds = facts.dead_bounds
    is_over = bounds.is_kept and facts.dead > bounds.most
    if facts.dead_dropped:
        yield Fact(
            kind="dead-full",
            severity="critical",
            what=f"{count_text(facts.dead_dropped, 'dead job')} of the last day {_were(facts.dead_dropped)} dropped, "
            f"since the dead set is full: it keeps {bounds.most:,}.",
            do="The log of the workers names their classes, and the files of dead_archive if they were written "
            "there (kiqbridge restore). Remove the cause; raise dead_max_jobs, or set dead_overflow: keep.",
            link="/dead",
        )
    elif bounds.is_near(facts.dead):
        yield Fact(
            kind="dead-full",
            severity="warning",
            what=f"{count_text(facts.dead, 'job')} {_are(facts.dead)} dead, and the set "
            + (
                f"grows beyond the {bounds.most:,} of dead_max_jobs until Redis is full (dead_overflow: keep)."
                if is_over
                else f"keeps {bounds.most:,}: "
                + ("it grows then." if bounds.is_kept else "then the oldest are dropped.")
            ),
            do="Remove the cause, then retry or delete them.",
            link="/dead",
        )


def _retries(facts: Facts) -> Iterator[Fact]:
    if facts.retry.size > facts.limits.retries:
        yield Fact(
            kind="retries",
            severity="warning",
            what=f"{count_text(facts.retry.size, 'job')} failed and wait for their retry.",
            do="Look which class and error prevail: often one service is away. They run again by themselves.",
            link="/retries",
        )


def _failing(facts: Facts) -> Iterator[Fact]:
    for name, counts in sorted(facts.classes.items(), key=lambda each: -each[1].failures):
        enough = counts.executions >= facts.limits.fewest_executions
        if enough and counts.failures >= facts.limits.failed_share * counts.executions:
            yield Fact(
                kind="failing-class",
                severity="warning",
                what=f"{shown(name)} fails: {counts.failures:,} of {counts.executions:,} executions in the last "
                "five minutes.",
                do="Look at its errors; pause the class or its queue while the cause lasts.",
                link=f"/metrics?class={quote(name, safe='', errors='replace')}",
            )


def _beats(facts: Facts) -> Iterator[Fact]:
    silent = {each.identity: each.silent_s(facts.at) for each in facts.processes}
    late = [identity for identity, for_s in silent.items() if for_s > facts.limits.beat_s]
    if late:
        oldest = max(late, key=lambda each: silent[each])
        stuck, do = describe_stuck(
            [each for each in facts.held if each.process in silent],
            "It is stopped, starved of CPU, or cut off from Redis: look at its machine and its log. After a "
            "minute without one it is shown no more.",
        )
        yield Fact(
            kind="heartbeat",
            severity="warning",
            what=f"{count_text(len(late), 'heartbeat')} {_are(len(late))} late; the last one of "
            f"{shown(oldest)} came {span_text(silent[oldest])} ago{stuck}.",
            do=do,
            link="/processes",
        )
    if facts.gone:
        stuck, do = describe_stuck(
            [each for each in facts.held if each.process not in silent],
            "Look at their logs, and why they ended. Another worker gives back what they hold; if none lives, "
            "kiqbridge recover does.",
        )
        yield Fact(
            kind="heartbeat",
            severity="warning",
            what=f"{facts.gone:,} registered process{'' if facts.gone == 1 else 'es'} "
            f"{'has' if facts.gone == 1 else 'have'} no heartbeat any more: killed, or cut off from Redis{stuck}.",
            do=do,
            link="/processes",
        )


def _long_jobs(facts: Facts) -> Iterator[Fact]:
    running = [each for each in facts.work if facts.at - each.run_at > facts.limits.job_s]
    if running:
        first = running[0]
        yield Fact(
            kind="long-jobs",
            severity="warning",
            what=f"{count_text(len(running), 'job')} {_are(len(running))} running for more than "
            f"{span_text(facts.limits.job_s)}; {shown(first.job.display_class)} {shown(first.job.jid)} for "
            f"{span_text(facts.at - first.run_at)}.",
            do="Dump the threads of its process to see where it is. Give calls over a network a timeout; make "
            "long work an iterable job.",
            link="/busy",
        )


def _suspects(facts: Facts) -> Iterator[Fact]:
    queues = [each for each in facts.queues if each.suspects]
    if queues:
        count = sum(each.suspects for each in queues)
        yield Fact(
            kind="suspects",
            severity="warning",
            what=f"{count_text(count, 'job')} of {_names([each.name for each in queues])} "
            f"{'was' if count == 1 else 'were'} running when a worker died, and wait{_s(count)} to run alone.",
            do="Nothing, if a worker serves the queue: one at a time, each runs in a process of its own, and one "
            "that kills it dies. Look at the memory of the workers.",
            link="/busy",
        )


def _paused(facts: Facts) -> Iterator[Fact]:
    sizes = {queue.name: queue.size for queue in facts.queues}
    for pause in facts.pauses:
        size = sizes.get(pause.name, 0) if pause.kind == "queue" else 0
        yield Fact(
            kind="paused",
            severity="warning",
            what=_pause_text(pause, facts.at)
            + (f" {count_text(size, 'job')} wait{_s(size)}." if size else ""),
            do=f"When the reason is gone: kiqbridge {pause.kind} resume {shown(pause.name)}.",
            link=_queue_link(pause.name) if pause.kind == "queue" else "/queues",
        )


def _unreadable(facts: Facts) -> Iterator[Fact]:
    for queue in facts.queues:
        if not queue.is_readable:
            yield Fact(
                kind="payload",
                severity="critical",
                what=f"The oldest job of the queue {shown(queue.name)} is no JSON object. Ruby's page of all queues "
                "fails as long as it lies there.",
                do="Look at its text and at who pushed it. A worker of Python moves it to the dead set.",
                link=_queue_link(queue.name),
            )
    if facts.refused:
        yield Fact(
            kind="refused",
            severity="warning",
            what=f"Redis refused {count_text(len(facts.refused), 'question')}: {shown(facts.refused[0])}",
            do="What was asked for is not judged here. Run kiqbridge doctor: it names keys of a wrong type and "
            "rights that are missing.",
            link="/doctor",
        )


RULES: Final[Sequence[Callable[[Facts], Iterator[Fact]]]] = (
    *(
        _no_worker,
        _all_quiet,
        _unserved,
        _unknown,
        _not_ready,
        _pollers,
        _orphans,
        _cluster,
        _memory,
        _missed,
    ),
    _latency,
    *(_failing, _deaths, _dead_set, _retries, _beats, _long_jobs, _suspects, _paused, _unreadable),
)
"""In the order in which facts of the same severity are shown."""


def fetch_verdict(operator: Operator | None = None) -> Verdict:
    """The verdict now; raises as `fetch_facts`."""
    return judge(fetch_facts(operator))


def judge(facts: Facts) -> Verdict:
    """What is wrong, the worst first."""
    found = [fact for rule in RULES for fact in rule(facts)]
    return Verdict(at=facts.at, facts=sorted(found, key=lambda fact: fact.severity != "critical"))


def _due_sets(facts: Facts) -> Iterator[tuple[str, str, SetFacts]]:
    yield "schedule", "/scheduled", facts.schedule
    yield "retry", "/retries", facts.retry


def _paused_queues(facts: Facts) -> set[str]:
    return {each.name for each in facts.pauses if each.kind == "queue"}


def _pause_text(pause: Pause, now: float) -> str:
    since = f" for {span_text(now - pause.at)}" if pause.at is not None else ""
    by = f" by {shown(pause.by)}" if pause.by else ""
    until = f", until {instant_text(pause.until)}" if pause.until is not None else ""
    reason = f": {shown(pause.reason)}" if pause.reason else ""
    return f"The {pause.kind} {shown(pause.name)} is paused{since}{by}{until}{reason}."


def _of_those_that_serve(facts: Facts, queue: str) -> Sequence[HeldJob]:
    serving = {each.identity for each in facts.processes if queue in each.queues}
    return [each for each in facts.held if each.queue == queue or each.process in serving]


def _longest(queues: Sequence[QueueFacts]) -> Sequence[QueueFacts]:
    return sorted(queues, key=lambda each: (-each.size, each.name))


def _busy(facts: Facts) -> str:
    busy = sum(each.busy for each in facts.processes)
    return f"{busy:,} of {sum(each.concurrency for each in facts.processes):,} threads are busy"


def _queue_link(name: str) -> str:
    return f"/queues/{quote(name, safe='', errors='surrogateescape')}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more


def _megabytes(count: int) -> str:
    return f"{count / 1_000_000:,.0f} MB"


def _s(count: int) -> str:
    """The ending of a verb whose subject is so many."""
    return "s" if count == 1 else ""


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
