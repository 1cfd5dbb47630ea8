"""The rules of a verdict: each is a function that gives the facts of one kind, worst first.

A fact says with numbers what was found, what to do next, and where to look; rulebook.py describes each rule. Pure. The
page Now, `kiqbridge stats --watch`, the doctor, alerts, Prometheus and the monitor function all judge by this list.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kiqbridge.api import acts, rulebook, server_rules
from kiqbridge.api.acts import page_of
from kiqbridge.api.counts import Counts
from kiqbridge.api.facts import LATELY_S, Facts, fetch_facts
from kiqbridge.api.in_flight import HeldJob
from kiqbridge.api.operator import Operator
from kiqbridge.api.verdict import Fact, Verdict
from kiqbridge.api.wording import (
    MOST_NAMED,
    STUCK,
    are,
    deployed_text,
    describe_stuck,
    died_text,
    ending,
    killed_text,
    listed,
    pause_text,
    were,
)
from kiqbridge.api.works import Work
from kiqbridge.wire.amounts import count_text, instant_text, oldest_text, span_text, took_text
from kiqbridge.wire.names import shown


def _no_worker(facts: Facts) -> Iterator[Fact]:
    waiting = sum(queue.size for queue in facts.queues)
    due = facts.retry.due + facts.schedule.due
    if facts.processes or not waiting + due:
        return
    oldest = max((queue.latency_s for queue in facts.queues), default=0.0)
    since = f", {oldest_text(oldest)}" if oldest else ""
    more = f", and {due:,} of the scheduled jobs and retries {are(due)} due" if due else ""
    stuck, do = describe_stuck(facts.held, rulebook.NO_WORKER.do)
    lives = "gives a heartbeat" if do == STUCK else "lives"
    yield rulebook.NO_WORKER.fact(
        "critical",
        f"No worker {lives}, and {count_text(waiting, 'job')} wait{ending(waiting)} in queues{since}{more}{stuck}.",
        "/processes",
        do,
    )


def _all_quiet(facts: Facts) -> Iterator[Fact]:
    waiting = sum(queue.size for queue in facts.queues)
    if facts.processes and waiting and all(each.is_quiet for each in facts.processes):
        yield rulebook.ALL_QUIET.fact(
            "critical",
            f"All processes ({len(facts.processes):,}) are quiet: they take no new jobs, and "
            f"{count_text(waiting, 'job')} wait{ending(waiting)}.",
            "/processes",
            acts=[acts.stop()],
        )


def _unserved(facts: Facts) -> Iterator[Fact]:
    at_work = [each for each in facts.processes if not each.is_quiet]
    if not at_work:
        return
    served = {name for each in at_work for name in each.queues} | _paused_queues(facts)
    for queue in sorted(facts.queues, key=lambda each: (-each.size, each.name)):
        if queue.size and queue.name not in served:
            name = shown(queue.name)
            stuck, do = describe_stuck(
                [each for each in facts.held if each.queue == queue.name],
                rulebook.UNSERVED_QUEUE.do.replace("QUEUE", name, 1),
            )
            yield rulebook.UNSERVED_QUEUE.fact(
                "critical",
                f"No process {'with a heartbeat ' if stuck else ''}serves the queue {name}: "
                f"{count_text(queue.size, 'job')} wait{ending(queue.size)}, {oldest_text(queue.latency_s)}{stuck}.",
                page_of("queues", queue.name),
                do,
                QUEUE=queue.name,
            )


def _unknown(facts: Facts) -> Iterator[Fact]:
    if facts.unknown:
        names = [f"{name} ({count:,})" for name, count in facts.unknown.items()]
        yield rulebook.UNKNOWN_CLASS.fact(
            "critical",
            f"No process that may take them declares {listed(names)}.",
            "/retries?q=error_class:NameError",
        )


def _not_ready(facts: Facts) -> Iterator[Fact]:
    said: dict[str, list[str]] = {}
    for each in facts.processes:
        for text in each.troubles:
            said.setdefault(text, []).append(each.identity)
    for text, names in said.items():
        yield rulebook.NOT_READY.fact(
            "critical",
            f"{count_text(len(names), 'worker')} {are(len(names))} not ready ({listed(names)}): {shown(text)}.",
            "/processes",
        )


def _pollers(facts: Facts) -> Iterator[Fact]:
    if not facts.processes:
        return
    now = instant_text(facts.at)
    for name, screen, each in (
        ("schedule", "scheduled", facts.schedule),
        ("retry", "retries", facts.retry),
    ):
        if each.due and each.late_s > facts.limits.overdue_s:
            yield rulebook.OVERDUE.fact(
                "critical",
                f"{count_text(each.due, 'job')} of the {name} set {are(each.due)} due and not moved to a "
                f"queue, the first for {span_text(each.late_s)}.",
                f"/{screen}",
                acts=[acts.to_all("retry", "Push them…", screen, f"due_before:{now}")],
                SET=screen,
                TIME=now,
            )


def _orphans(facts: Facts) -> Iterator[Fact]:
    held = sum(each.held_jobs for each in facts.orphans)
    if not held:
        return
    silent = max((each.silent_for_s or 0.0 for each in facts.orphans), default=0.0)
    rescued = facts.leases > 0
    stuck, do = describe_stuck([each for each in facts.held if each.is_orphan], rulebook.ORPHANS.do)
    yield rulebook.ORPHANS.fact(
        "warning" if rescued else "critical",
        f"{count_text(len(facts.orphans), 'worker')} of Python {are(len(facts.orphans))} silent, the first "
        f"for {span_text(silent)}, and hold{ending(len(facts.orphans))} {count_text(held, 'job')} that may not be "
        f"running{stuck}.",
        "/processes",
        do,
    )


def _missed(facts: Facts) -> Iterator[Fact]:
    for came_later in (False, True):
        ticks = [each for each in facts.missed if each.came_later is came_later]
        if not ticks:
            continue
        names = list(dict.fromkeys(each.schedule for each in ticks))
        rule = rulebook.LATE_TICKS if came_later else rulebook.MISSED_TICKS
        yield rule.fact(
            "warning" if came_later else "critical",
            f"{count_text(len(ticks), 'tick')} of {listed(names)} did not come in time within a day, the "
            f"last {instant_text(ticks[0].at)}; {'all came' if came_later else 'none came'} later.",
            page_of("schedules", names[0]) if len(names) == 1 else "/schedules",
            acts=[] if came_later else [acts.run_schedule(name) for name in names[:MOST_NAMED]],
            SCHEDULE=names[0],
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
                rulebook.LATENCY.do.replace(
                    "what runs", f"what runs ({_busy(facts, queue.name)})", 1
                ),
            )
            yield rulebook.LATENCY.fact(
                "critical" if factor > facts.limits.much_worse else "warning",
                f"The oldest job of the queue {shown(queue.name)} has waited for "
                f"{span_text(queue.latency_s)}; {count_text(queue.size, 'job')} wait{ending(queue.size)}{stuck}.",
                page_of("queues", queue.name),
                do,
            )


def _deaths(facts: Facts) -> Iterator[Fact]:
    if facts.dead_lately > facts.limits.deaths:
        yield rulebook.DEATHS.fact(
            "warning",
            f"{count_text(facts.dead_lately, 'job')} died within the last hour{killed_text(facts.killed_lately)}"
            f"{died_text(facts.died_of)}; {facts.dead:,} {are(facts.dead)} dead in all.",
            f"/dead?q=newer:{LATELY_S:.0f}",
            f"{rulebook.DEATHS.do} Until then they are kept, the last {facts.dead_bounds.most:,} of them, for "
            f"{span_text(facts.dead_bounds.timeout_s)}.",
            acts=[acts.to_all("retry", "Retry them…", "dead", f"newer:{LATELY_S:.0f}")],
        )


def _dead_set(facts: Facts) -> Iterator[Fact]:
    bounds = facts.dead_bounds
    is_over = bounds.is_kept and facts.dead > bounds.most
    if facts.dead_dropped:
        yield rulebook.DEAD_FULL.fact(
            "critical",
            f"{count_text(facts.dead_dropped, 'dead job')} of the last day {were(facts.dead_dropped)} dropped, "
            f"since the dead set is full: it keeps {bounds.most:,}.",
            "/dead",
            "The log of the workers names their classes, and the files of dead_archive if they were written there "
            f"(kiqbridge restore). {rulebook.DEAD_FULL.do}",
        )
    elif bounds.is_near(facts.dead):
        yield rulebook.DEAD_FULL.fact(
            "warning",
            f"{count_text(facts.dead, 'job')} {are(facts.dead)} dead, and the set "
            + (
                f"grows beyond the {bounds.most:,} of dead_max_jobs until Redis is full (dead_overflow: keep)."
                if is_over
                else f"keeps {bounds.most:,}: "
                + ("it grows then." if bounds.is_kept else "then the oldest are dropped.")
            ),
            "/dead",
        )


def _retries(facts: Facts) -> Iterator[Fact]:
    if facts.retry.size > facts.limits.retries:
        yield rulebook.RETRIES.fact(
            "warning",
            f"{count_text(facts.retry.size, 'job')} failed and wait for their retry.",
            "/retries",
            acts=[acts.to_all("retry", "Retry all…", "retries")],
        )


def _failing(facts: Facts) -> Iterator[Fact]:
    for name, counts in sorted(facts.classes.items(), key=lambda each: -each[1].failures):
        enough = counts.executions >= facts.limits.fewest_executions
        if enough and counts.failures >= facts.limits.failed_share * counts.executions:
            yield rulebook.FAILING_CLASS.fact(
                "warning",
                f"{shown(name)} fails: {counts.failures:,} of {counts.executions:,} executions in the last "
                f"five minutes.{deployed_text(facts.deployed, facts.at)}",
                page_of("metrics", name),
                acts=acts.of_failing(name),
                CLASS=name,
            )


def _beats(facts: Facts) -> Iterator[Fact]:
    silent = {each.identity: each.silent_s(facts.at) for each in facts.processes}
    late = [identity for identity, for_s in silent.items() if for_s > facts.limits.beat_s]
    if late:
        oldest = max(late, key=lambda each: silent[each])
        stuck, do = describe_stuck(
            [each for each in facts.held if each.process in silent], rulebook.HEARTBEAT.do
        )
        yield rulebook.HEARTBEAT.fact(
            "warning",
            f"{count_text(len(late), 'heartbeat')} {are(len(late))} late; the last one of "
            f"{shown(oldest)} came {span_text(silent[oldest])} ago{stuck}.",
            "/processes",
            do,
        )
    if facts.gone:
        stuck, do = describe_stuck(
            [each for each in facts.held if each.process not in silent], rulebook.HEARTBEAT.do
        )
        yield rulebook.HEARTBEAT.fact(
            "warning",
            f"{facts.gone:,} registered process{'' if facts.gone == 1 else 'es'} "
            f"{'has' if facts.gone == 1 else 'have'} no heartbeat any more: killed, or cut off from Redis{stuck}.",
            "/processes",
            do,
        )


def _long_jobs(facts: Facts) -> Iterator[Fact]:
    running = [each for each in facts.work if facts.at - each.run_at > facts.limits.job_s]
    if running:
        first = running[0]
        yield rulebook.LONG_JOBS.fact(
            "warning",
            f"{count_text(len(running), 'job')} {are(len(running))} running for more than "
            f"{span_text(facts.limits.job_s)}; {shown(first.job.display_class)} {shown(first.job.jid)} for "
            f"{span_text(facts.at - first.run_at)}.",
            "/busy",
            acts=[acts.dump_threads(first.process)],
        )
    odd = [each for each in facts.work if _is_odd(facts, each)]
    if odd:
        first = odd[0]
        mean_s = _mean_s(facts, first)
        yield rulebook.LONG_JOBS.fact(
            "warning",
            f"{count_text(len(odd), 'job')} run{ending(len(odd))} for far longer than usual; "
            f"{shown(first.job.display_class)} {shown(first.job.jid)} for {span_text(facts.at - first.run_at)}, where the "
            f"mean of its class is {took_text(mean_s)}.",
            "/busy",
            acts=[acts.dump_threads(first.process)],
        )


def _is_odd(facts: Facts, work: Work) -> bool:
    age_s, mean_s, limits = facts.at - work.run_at, _mean_s(facts, work), facts.limits
    return limits.odd_job_s < age_s <= limits.job_s and 0 < mean_s * limits.job_times < age_s


def _mean_s(facts: Facts, work: Work) -> float:
    """Of the last executions of its class; 0: there were too few."""
    counts = facts.classes.get(work.job.display_class, Counts())
    enough = counts.executions - counts.failures >= facts.limits.fewest_executions
    return (counts.average_ms or 0.0) / 1000 if enough else 0.0


def _suspects(facts: Facts) -> Iterator[Fact]:
    queues = [each for each in facts.queues if each.suspects]
    if queues:
        count = sum(each.suspects for each in queues)
        yield rulebook.SUSPECTS.fact(
            "warning",
            f"{count_text(count, 'job')} of {listed([each.name for each in queues])} "
            f"{were(count)} running when a worker died, or hung when one stopped, and wait{ending(count)} to run alone.",
            "/busy",
        )


def _paused(facts: Facts) -> Iterator[Fact]:
    sizes = {queue.name: queue.size for queue in facts.queues}
    for pause in facts.pauses:
        size = sizes.get(pause.name, 0) if pause.kind == "queue" else 0
        yield rulebook.PAUSED.fact(
            "warning",
            f"The {pause_text(pause, facts.at)}."
            + (f" {count_text(size, 'job')} wait{ending(size)}." if size else ""),
            acts.resume(pause).path,
            acts=[acts.resume(pause)],
            KIND=pause.kind,
            NAME=pause.name,
        )


def _unreadable(facts: Facts) -> Iterator[Fact]:
    for queue in facts.queues:
        if not queue.is_readable:
            yield rulebook.PAYLOAD.fact(
                "critical",
                f"The oldest job of the queue {shown(queue.name)} is no JSON object. Ruby's page of all queues "
                "fails as long as it lies there.",
                page_of("queues", queue.name),
                QUEUE=queue.name,
            )
    if facts.refused:
        yield rulebook.REFUSED.fact(
            "warning",
            f"Redis refused {count_text(len(facts.refused), 'question')}: {shown(facts.refused[0])}",
            "/doctor",
        )


RULES: Final[Sequence[Callable[[Facts], Iterator[Fact]]]] = (
    *(_no_worker, _all_quiet, _unserved, _unknown, _not_ready, _pollers, _orphans),
    *(server_rules.cluster, server_rules.memory),
    *(_missed, _latency),
    *(_failing, _deaths, _dead_set, _retries, _beats, _long_jobs, _suspects, _paused, _unreadable),
)
"""In the order in which facts of the same severity are shown."""


def fetch_verdict(operator: Operator | None = None) -> Verdict:
    """The verdict now; raises as `fetch_facts`."""
    return judge(fetch_facts(operator))


def judge(facts: Facts) -> Verdict:
    """The findings about these facts, the worst first."""
    found = [fact for rule in RULES for fact in rule(facts)]
    return Verdict(at=facts.at, facts=sorted(found, key=lambda fact: fact.severity != "critical"))


def _paused_queues(facts: Facts) -> set[str]:
    return {each.name for each in facts.pauses if each.kind == "queue"}


def _of_those_that_serve(facts: Facts, queue: str) -> Sequence[HeldJob]:
    serving = {each.identity for each in facts.processes if queue in each.queues}
    return [each for each in facts.held if each.queue == queue or each.process in serving]


def _busy(facts: Facts, queue: str) -> str:
    serving = [each for each in facts.processes if queue in each.queues]
    busy = sum(each.busy for each in serving)
    return (
        f"{busy:,} of {sum(each.concurrency for each in serving):,} threads that serve it are busy"
    )
