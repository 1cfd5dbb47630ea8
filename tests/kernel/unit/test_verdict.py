"""The rules of a verdict: what is wrong is said with its numbers, and nothing is where all is well."""

import json
from dataclasses import replace

import pytest

from kiqbridge.api import Counts, Facts, HeldJob, JobRecord, Process, Work, judge
from kiqbridge.api.facts import MissedFact, QueueFacts, SetFacts
from kiqbridge.api.rulebook import RULEBOOK
from kiqbridge.api.wording import IF_STUCK, STUCK
from kiqbridge.engine.inflight.incarnations import Incarnation
from kiqbridge.store.pauses import Pause
from kiqbridge.store.server_memory import Memory
from kiqbridge.wire.dead_bounds import DeadBounds

NOW = 1_770_015_780.0
DEAD_WORKER = Incarnation(
    name="v2:host:1:aaa:1", state="silent", silent_for_s=42.0, beat=None, held={"default": 3}
)


def process(
    queues=("default",), *, beat=NOW - 3, quiet="false", identity="host:1:aaa", troubles=()
):
    return Process(
        identity=identity,
        info={"queues": list(queues), "concurrency": 10},
        fields={
            "busy": "4",
            "beat": str(beat),
            "quiet": quiet,
            "kb_troubles": json.dumps(troubles),
        },
        operator=None,
    )


def work(seconds):
    job = JobRecord(b'{"class":"Report","jid":"abc","args":[]}')
    return Work(process="host:1:aaa", tid="t1", job=job, run_at=NOW - seconds)


def held(jid, *, process="host:1:aaa", queue="default", begun=False, owner="alive"):
    job = JobRecord(json.dumps({"class": "Report", "jid": jid, "args": []}).encode())
    return HeldJob(
        process=process, tid="t1", queue=queue, job=job, owner=owner, begun=begun, is_silent=True
    )


def queue(name="default", size=5, latency_s=2.0, **more):
    return QueueFacts(name=name, size=size, latency_s=latency_s, **more)


WELL = Facts(
    at=NOW,
    queues=[queue(), queue("empty", 0, 0.0)],
    processes=[process()],
    work=[work(30)],
    retry=SetFacts(size=900),
    schedule=SetFacts(size=10, due=2, late_s=1.0),
    dead=100,
    leases=1,
    memory=Memory(used=10, most=100, policy="noeviction"),
    classes={
        "Mail": Counts(executions=100, failures=49),
        "Rare": Counts(executions=19, failures=19),
    },
)


def test_where_all_is_well_there_is_no_fact():
    verdict = judge(WELL)
    assert verdict.healthy
    assert verdict.severity == "healthy"
    assert judge(Facts(at=NOW)).healthy  # without a process and without a job


FOUND = {
    "no-worker": (
        {
            "processes": [],
            "queues": [queue(size=1204, latency_s=720)],
            "retry": SetFacts(size=9, due=7),
        },
        (
            "No worker lives, and 1,204 jobs wait in queues, the oldest for 12 min, and 9 of the scheduled jobs "
            "and retries are due."
        ),
        "/processes",
    ),
    "no-worker stuck": (
        {
            "processes": [],
            "queues": [queue(size=2, latency_s=720)],
            "schedule": SetFacts(),
            "held": [held("f1"), held("f2")],
        },
        (
            "No worker gives a heartbeat, and 2 jobs wait in queues, the oldest for 12 min; host:1:aaa gives no heartbeat "
            "and is stuck, perhaps in Report f1 or in one of 1 more."
        ),
        "/processes",
    ),
    "no-worker killed or stuck?": (
        {
            "processes": [],
            "queues": [queue(size=2, latency_s=720)],
            "schedule": SetFacts(),
            "held": [held("f1", owner="silent")],
        },
        (
            "No worker lives, and 2 jobs wait in queues, the oldest for 12 min; host:1:aaa gives no heartbeat and was "
            "killed, or is stuck, perhaps in Report f1."
        ),
        "/processes",
    ),
    "all-quiet": (
        {"processes": [process(quiet="true")] * 2},
        "All processes (2) are quiet: they take no new jobs, and 5 jobs wait.",
        "/processes",
    ),
    "unserved-queue": (
        {"queues": [queue("mail/ü", 1, 300)]},
        "No process serves the queue mail/ü: 1 job waits, the oldest for 5 min.",
        "/queues/mail%2F%C3%BC",
    ),
    "unserved-queue stuck": (
        {
            "queues": [queue(), queue("slow", 1, 300)],
            "held": [
                held("f1", process="host:2:bbb", queue="slow"),
                held("f2", process="host:3:ccc", queue="slow"),
            ],
        },
        (
            "No process with a heartbeat serves the queue slow: 1 job waits, the oldest for 5 min; host:2:bbb gives no "
            "heartbeat and is stuck, perhaps in Report f1; so is 1 other."
        ),
        "/queues/slow",
    ),
    "overdue": (
        {"schedule": SetFacts(size=40, due=37, late_s=300.0)},
        "37 jobs of the schedule set are due and not moved to a queue, the first for 5 min.",
        "/scheduled",
    ),
    "orphans": (
        {"orphans": [DEAD_WORKER]},
        "1 worker of Python is silent, the first for 42 s, and holds 3 jobs that may not be running.",
        "/processes",
    ),
    "orphans killed or stuck?": (
        {"orphans": [DEAD_WORKER], "held": [held("f1"), held("f2", begun=True, owner="silent")]},
        (
            "1 worker of Python is silent, the first for 42 s, and holds 3 jobs that may not be running; host:1:aaa gives "
            "no heartbeat and was killed, or is stuck, perhaps in Report f2."
        ),
        "/processes",
    ),
    "eviction": (
        {"memory": Memory(used=1, most=100, policy="allkeys-lru")},
        (
            "Redis has the eviction policy allkeys-lru: when its memory is full it loses any key, whole queues "
            "with all their jobs included."
        ),
        "/doctor",
    ),
    "memory": (
        {"memory": Memory(used=97_000_000, most=100_000_000, policy="noeviction")},
        "Redis uses 97% of maxmemory (97 MB of 100 MB); when it is full, no job can be pushed.",
        "/doctor",
    ),
    "cluster": (
        {"is_cluster": True},
        "Redis is in cluster mode: it spreads keys over slots, and a script may only use keys of one slot.",
        "/doctor",
    ),
    "cluster of Ruby": (
        {"ruby_in_cluster": ["web:7:bbb", "web:8:ccc"]},
        (
            "Redis is in cluster mode, and Ruby processes use it: web:7:bbb, web:8:ccc. Ruby's Sidekiq does not "
            "follow keys from one node of a cluster to another."
        ),
        "/doctor",
    ),
    "missed-ticks": (
        {"missed": [MissedFact(schedule="shop/Nightly", at=1_770_000_000, came_later=False)]},
        (
            "1 tick of shop/Nightly did not come in time within a day, the last 2026-02-02T02:40:00Z; none came "
            "later."
        ),
        "/schedules/shop%2FNightly",
    ),
    "late-ticks": (
        {
            "missed": [
                MissedFact(schedule=f"s{n}", at=1_770_000_000, came_later=True) for n in range(5)
            ]
        },
        (
            "5 ticks of s0, s1, s2 and 2 more did not come in time within a day, the last 2026-02-02T02:40:00Z; "
            "all came later."
        ),
        "/schedules",
    ),
    "queue-latency": (
        {"queues": [queue(latency_s=61)]},
        "The oldest job of the queue default has waited for 61 s; 5 jobs wait.",
        "/queues/default",
    ),
    "queue-latency stuck": (
        {"queues": [queue(latency_s=61)], "held": [held("f1")]},
        (
            "The oldest job of the queue default has waited for 61 s; 5 jobs wait; host:1:aaa gives no heartbeat and is "
            "stuck, perhaps in Report f1."
        ),
        "/queues/default",
    ),
    "failing-class": (
        {"classes": {"Mail::Job": Counts(executions=60, failures=45)}},
        "Mail::Job fails: 45 of 60 executions in the last five minutes.",
        "/metrics/Mail%3A%3AJob",
    ),
    "failing-class deployed": (
        {
            "classes": {"Mail": Counts(executions=60, failures=45)},
            "deployed": {NOW - 3000: "v1", NOW - 120: "v2"},
        },
        "Mail fails: 45 of 60 executions in the last five minutes. v2 was deployed 2 min ago.",
        "/metrics/Mail",
    ),
    "deaths": (
        {"dead_lately": 2},
        "2 jobs died within the last hour; 100 are dead in all.",
        "/dead?q=newer:3600",
    ),
    "deaths killed": (
        {"dead_lately": 20, "killed_lately": 18},
        "20 jobs died within the last hour, 18 of them killed by operators; 100 are dead in all.",
        "/dead?q=newer:3600",
    ),
    "deaths by error": (
        {
            "dead_lately": 40,
            "died_of": {("Mail", "OSError"): 15, ("Pdf", "kiqbridge.errors.ProcessDied"): 5},
        },
        (
            "40 jobs died within the last hour, of the newest 20: 15 Mail (OSError), 5 Pdf "
            "(kiqbridge.errors.ProcessDied: its process was killed, or crashed); 100 are dead in all."
        ),
        "/dead?q=newer:3600",
    ),
    "dead-full": (
        {"dead": 8000},
        "8,000 jobs are dead, and the set keeps 9,999: then the oldest are dropped.",
        "/dead",
    ),
    "dead-full dropped": (
        {"dead_dropped": 40_001, "dead": 9999},
        "40,001 dead jobs of the last day were dropped, since the dead set is full: it keeps 9,999.",
        "/dead",
    ),
    "retries": (
        {"retry": SetFacts(size=1001)},
        "1,001 jobs failed and wait for their retry.",
        "/retries",
    ),
    "heartbeat": (
        {"processes": [process(), process(beat=NOW - 45, identity="host:2:bbb")]},
        "1 heartbeat is late; the last one of host:2:bbb came 45 s ago.",
        "/processes",
    ),
    "heartbeat stuck": (
        {
            "processes": [process(), process(beat=NOW - 45, identity="host:2:bbb")],
            "held": [held("f1", process="host:2:bbb")],
        },
        (
            "1 heartbeat is late; the last one of host:2:bbb came 45 s ago; host:2:bbb gives no heartbeat and is stuck, "
            "perhaps in Report f1."
        ),
        "/processes",
    ),
    "heartbeat gone": (
        {"gone": 2},
        "2 registered processes have no heartbeat any more: killed, or cut off from Redis.",
        "/processes",
    ),
    "unknown-class": (
        {"unknown": {"Male in retry": 1, "Female in queue default": 3}},
        "No process that may take them declares Male in retry (1), Female in queue default (3).",
        "/retries?q=error_class:NameError",
    ),
    "not-ready": (
        {
            "processes": [
                process(troubles=["the poller may not run ZRANGE; allow it"]),
                process(identity="host:2:bbb"),
            ]
        },
        "1 worker is not ready (host:1:aaa): the poller may not run ZRANGE; allow it.",
        "/processes",
    ),
    "memory of the machine": (
        {
            "memory": Memory(
                used=1, most=0, policy="noeviction", resident=75_000_000, machine=100_000_000
            )
        },
        (
            "Redis uses 75% of the machine's memory (75 MB of 100 MB); when it is full, no job can be pushed."
        ),
        "/doctor",
    ),
    "long-jobs": (
        {"work": [work(9000), work(30)]},
        "1 job is running for more than 60 min; Report abc for 2 h.",
        "/busy",
    ),
    "long-jobs beside its class": (
        {
            "work": [work(190), work(30)],
            "classes": {"Report": Counts(executions=25, failures=5, ms=60_000)},
        },
        "1 job runs for far longer than usual; Report abc for 3 min, where the mean of its class is 3.0 s.",
        "/busy",
    ),
    "suspects": (
        {"queues": [queue(suspects=2)]},
        "2 jobs of default were running when a worker died, or hung when one stopped, and wait to run alone.",
        "/busy",
    ),
    "paused": (
        {
            "pauses": [
                Pause(kind="queue", name="default", reason="migration", by="ann", at=NOW - 7200)
            ]
        },
        "The queue default is paused for 2 h by ann: migration. 5 jobs wait.",
        "/queues/default",
    ),
    "payload": (
        {"queues": [queue(is_readable=False)]},
        (
            "The oldest job of the queue default is no JSON object. Ruby's page of all queues fails as long as it "
            "lies there."
        ),
        "/queues/default",
    ),
    "refused": (
        {"refused": ["INFO memory: NOPERM"]},
        "Redis refused 1 question: INFO memory: NOPERM",
        "/doctor",
    ),
}


@pytest.mark.parametrize("kind", FOUND)
def test_each_rule_says_what_it_found_and_nothing_else_does(kind):
    changes, what, link = FOUND[kind]

    [fact] = judge(replace(WELL, **changes)).facts

    assert (fact.kind, fact.what, fact.link) == (kind.partition(" ")[0], what, link)
    assert fact.do.endswith(".")
    assert (fact.do == STUCK) is kind.endswith(" stuck")
    assert fact.do.endswith(IF_STUCK) is kind.endswith(" killed or stuck?")


def test_each_kind_is_found():
    assert {kind.partition(" ")[0] for kind in FOUND} == {each.id for each in RULEBOOK}


KEPT = {"max_jobs": 71, "is_kept": True}
WORSE = {
    "queues": [queue(latency_s=601)],
    "orphans": [DEAD_WORKER],
    "memory": Memory(used=90, most=100, policy="volatile-ttl"),
}


@pytest.mark.parametrize("name", WORSE)
def test_what_is_worse_is_critical(name):
    facts = replace(WELL, **{name: WORSE[name]}, **({"leases": 0} if name == "orphans" else {}))

    assert judge(facts).severity == "critical"


def test_the_worst_come_first():
    facts = replace(WELL, dead_lately=1, is_cluster=True, queues=[queue("nobody")])
    kinds = [fact.kind for fact in judge(facts).facts]
    assert kinds == ["unserved-queue", "cluster", "deaths"]


@pytest.mark.parametrize(
    ("dead", "bounds", "what"),
    [
        (7999, {}, []),
        (39_999, {"max_jobs": 50_000}, []),
        (60, KEPT, ["60 jobs are dead, and the set keeps 70: it grows then."]),
        (90, KEPT, ["90 jobs are dead, and the set grows beyond the 70 of dead_max_jobs until Redis is full (dead_overflow: keep)."]),
    ],
)  # fmt: skip
def test_the_dead_are_judged_by_the_bounds_of_the_fleet(dead, bounds, what):
    facts = replace(WELL, dead=dead, dead_bounds=DeadBounds(**bounds))
    assert [fact.what for fact in judge(facts).facts] == what


def test_quiet_processes_serve_no_queue_and_a_paused_one_is_not_late_and_needs_nobody():
    def kinds(**changes):
        return [fact.kind for fact in judge(replace(WELL, **changes)).facts]

    paused = {"pauses": [Pause(kind="queue", name="mail")]}
    processes = {"processes": [process(), process(["mail"], quiet="true")]}
    assert kinds(queues=[queue("mail")], **processes) == ["unserved-queue"]
    assert kinds(queues=[queue("mail")], **processes, **paused) == ["paused"]
    assert kinds(queues=[queue("mail", latency_s=9000)], **paused) == ["paused"]


def test_any_bytes_may_be_a_name():
    facts = replace(
        WELL, queues=[queue("\udcff")], classes={"\udcff": Counts(executions=30, failures=30)}
    )

    assert [fact.link for fact in judge(facts).facts] == ["/queues/%FF", "/metrics/%FF"]
