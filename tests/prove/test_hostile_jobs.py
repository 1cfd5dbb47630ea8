"""Hostile jobs, drawn at random, beside innocent ones: each innocent one is done, and no worker is wedged.

A plan is a list of acts, each in a kind of job: what hypothesis draws. Plans run in waves on workers
under a supervisor and on one that is started again as an orchestrator would. After each wave all of its
innocent jobs must be done; after the last one the workers must be as they were.
"""

import json
import re
import signal
import time
from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.fleet import Marks, keys_with, lists_in_flight
from support.processes import is_process_running
from support.proving import hurry_retries, sized
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge.client.client import Client

JOBS = Path(__file__).parent.parent / "kernel" / "faults" / "jobs" / "hostile.py"
BUDGET_S = sized(full=20 * 60.0, sample=20.0)
MOST_PLANS = sized(full=5_000, sample=40)
RECOVER_AFTER_S = 6.0
INNOCENT = ("Plain", "Async", "Pooled", "Retried", "Later")
WAVE_S = 120.0

ONE_OF_EACH = [
    *(("InThread", ("raise", error)) for error in ("Shutdown", "Panic", "NastyError")),
    *(("OnLoop", ("raise", error)) for error in ("SystemExit", "CancelledError", "NastyError")),
    ("InThread", ("fork", "return")),
    ("OnLoop", ("fork", "return")),
    ("InProcess", ("fork", "exit")),
    ("InThread", ("kill_thread", 3)),
    ("OnLoop", ("cancel_itself", None)),
    ("OnLoop", ("stop_loop", None)),
    ("OnLoop", ("leak_tasks", 3)),
    ("OnLoop", ("raise_in_background", "SystemExit")),
    ("OnLoop", ("raise_in_callback", "KeyboardInterrupt")),
    ("InTime", ("push_in_time", 300)),
    ("InTime", ("busy_in_c", 4)),
    ("InThread", ("hold_log_locks", 0.3)),
    ("InMiddleware", ("raise", "SystemExit")),
    ("InHandler", ("raise", "SystemExit")),
    ("InRules", ("raise", "Panic")),
    ("InThread", ("change", "environment")),
]
"""A first plan, whatever is drawn after it."""

ERRORS = st.sampled_from(
    [
        *("SystemExit", "KeyboardInterrupt", "GeneratorExit", "CancelledError", "MemoryError"),
        *("RecursionError", "StopIteration", "Shutdown", "Panic", "NastyError"),
    ]
)
CHANGES = st.sampled_from(
    [
        *("folder", "umask", "environment", "locale", "clock", "timeout", "stdout"),
        *("logging", "recursion", "switch"),
    ]
)
NUMBERS = st.integers(0, 1000)
RAISING = st.tuples(st.just("raise"), ERRORS)
FORKING = st.tuples(st.just("fork"), st.sampled_from(["return", "exit", "raise"]))
CHANGING = st.tuples(st.just("change"), CHANGES)
MILD = st.one_of(
    RAISING,
    FORKING,
    CHANGING,
    st.tuples(st.just("hold_log_locks"), st.floats(0, 0.3)),
    st.tuples(st.just("own_loop"), NUMBERS),
    st.tuples(st.just("block_signals"), st.none()),
    st.tuples(st.just("push_in_time"), st.integers(1, 300)),
    st.tuples(st.just("leak_threads"), st.integers(1, 3)),
    st.tuples(st.just("sleep_in_c"), st.floats(0, 0.5)),
    st.tuples(st.just("busy_in_c"), NUMBERS),
    st.tuples(st.just("print_much"), st.integers(1, 2_000_000)),
    st.tuples(st.just("log_much"), st.integers(1, 2_000_000)),
    st.tuples(st.just("big_payload"), st.integers(1, 2_000_000).map(lambda size: "x" * size)),
    st.tuples(st.just("kill_thread"), NUMBERS),
)
ENDING = st.one_of(
    st.tuples(st.just("close_all"), st.none()),
    st.tuples(st.just("close_one"), NUMBERS),
    st.tuples(st.just("end_process"), st.sampled_from(["exit", "abort", "kill"])),
)
ON_LOOP = st.one_of(
    RAISING,
    FORKING,
    CHANGING,
    st.tuples(st.just("leak_tasks"), st.integers(1, 5)),
    st.tuples(st.just("cancel_itself"), st.none()),
    st.tuples(st.just("stop_loop"), st.none()),
    st.tuples(st.just("raise_in_background"), ERRORS),
    st.tuples(st.just("raise_in_callback"), ERRORS),
    st.tuples(st.just("sleep_in_c"), st.floats(0, 0.5)),
)
HOSTILE = st.one_of(
    st.tuples(st.just("InThread"), MILD),
    st.tuples(st.just("InTime"), MILD),
    st.tuples(st.just("InProcess"), st.one_of(MILD, ENDING)),
    st.tuples(st.just("OnLoop"), ON_LOOP),
    st.tuples(st.just("InMiddleware"), st.one_of(RAISING, FORKING, CHANGING)),
    st.tuples(st.just("InHandler"), st.one_of(RAISING, FORKING, CHANGING)),
    st.tuples(st.just("InRules"), st.one_of(RAISING, FORKING, CHANGING)),
)
FATAL = st.tuples(st.just("InThread"), ENDING)
PLANS = st.tuples(
    st.lists(HOSTILE, min_size=3, max_size=10),
    st.one_of(st.just([]), st.just([]), st.just([]), st.lists(FATAL, min_size=1, max_size=1)),
).map(lambda parts: [*parts[0], *parts[1]])


class Orchestrated:
    """A worker that is started again whenever it ends, as an orchestrator would.

    Attributes:
        ends: exit codes of those that ended unasked.
        outputs: of those that have ended.
    """

    def __init__(self, start):
        self._start = start
        self.ends = Counter()
        self.outputs = []
        self.worker = start()

    def look(self):
        if self.worker.is_running:
            return
        self.ends[self.worker.exit_code] += 1
        self.outputs.append(self.worker.output)
        self.worker.close()
        self.worker = self._start()


class Battle:
    """The workers, and what was pushed to them."""

    def __init__(self, stack, url, redis, folder):
        self.redis = redis
        self.marks = Marks(folder)
        self.pushed = {}  # jid → class, of the innocent
        self.acts = Counter()
        self.waves = 0
        self._acted = 0
        self._client = Client(url)
        stack.callback(self._client.close)

        def start(*args):
            return stack.enter_context(
                WorkerProcess(
                    *("-r", str(JOBS), "-c", "3", "-t", "5", *args),
                    redis_url=url,
                    env={
                        "MARKS": str(folder),
                        "KIQBRIDGE_LOG_FORMAT": "plain",
                        "KIQBRIDGE_LOG_LEVEL": "warning",
                        "KIQBRIDGE_RECOVER_AFTER_S": str(RECOVER_AFTER_S),
                        "KIQBRIDGE_BEAT_S": "1",
                        "KIQBRIDGE_POOL_SIZE": "2",
                        "KIQBRIDGE_RUN_DIR": str(folder / "run"),
                    },
                )
            )

        self.supervisor = start("--processes", "2")
        self.orchestrated = Orchestrated(start)
        for worker in (self.supervisor, self.orchestrated.worker):
            worker.wait_for(lambda: len(self.alive()) == 3, 60, "three processes")

    def alive(self):
        """Identities of the processes that beat."""
        names = [name.decode() for name in self.redis.smembers("processes")]
        # What a process that was killed has said of itself is there for a minute longer.
        return [
            name
            for name in names
            if is_process_running(int(name.split(":")[-2])) and self.redis.exists(name)
        ]

    def wave(self, plan):
        self.waves += 1
        expected = self._push_innocent(4)
        for number, (kind, (what, argument)) in enumerate(plan):
            retry = 1 if kind == "InRules" else False
            self._client.push({"class": kind, "args": [what, argument], "retry": retry})
            self.acts[what] += 1
            expected |= self._push_innocent(1 + number % 2)
        self.wait_done(expected, plan)

    def _push_innocent(self, rounds):
        jids = set()
        for number in range(rounds):
            for kind in INNOCENT:
                later = kind == "Later"
                item = {"class": "Plain" if later else kind, "args": [number * 7]}
                if kind == "Retried":
                    item["args"] = []
                if later:
                    item["at"] = time.time() + 0.2
                jids.add(self._client.push(item))
                self.pushed.update(dict.fromkeys(jids - self.pushed.keys(), kind))
        return jids

    def wait_done(self, expected, plan):
        def done():
            self.orchestrated.look()
            assert self.supervisor.is_running, self.supervisor.output[-5000:]
            hurry_retries(self.redis)
            return self.marks.look().count("performed").keys() >= expected

        wait_until(done, WAVE_S, lambda: self.described(expected, plan), interval_s=0.1)

    def described(self, expected, plan):
        missing = {
            f"{self.pushed[jid]} {jid}": keys_with(self.redis, jid)
            for jid in expected - self.marks.count("performed").keys()
        }
        return (
            f"{len(missing)} innocent jobs, each with the keys that name it ({missing}) of {plan}; "
            f"queue {self.redis.llen('queue:default')}, {lists_in_flight(self.redis)}, alive {self.alive()}, "
            f"suspects {self.redis.llen('kb:suspects:default')}\n"
            f"{self.supervisor.output[-6000:]}\n---\n{self.orchestrated.worker.output[-6000:]}"
        )

    def settle(self):
        """Wait until nothing waits and nothing is in flight any more."""

        def settled():
            self.orchestrated.look()
            hurry_retries(self.redis)
            left = ("queue:default", "kb:suspects:default")
            return (
                not lists_in_flight(self.redis)
                and not any(self.redis.llen(key) for key in left)
                and not self.redis.zcard("retry")
                and not self.redis.zcard("schedule")
                and len(self.alive()) == 3
            )

        wait_until(settled, 180, lambda: self.described(set(), []), interval_s=0.2)

    def threads(self):
        """Names of the engine's threads, by process; ids in names are the same for all."""
        pids = [int(name.split(":")[-2]) for name in self.alive()]
        workers = (self.supervisor, self.orchestrated.worker)
        before = [len(worker.output) for worker in workers]
        found = {}
        asked_at = [0.0]

        def all_told():
            if time.monotonic() - asked_at[0] > 5:  # again, should its lines have been dropped
                asked_at[0] = time.monotonic()
                for worker in workers:
                    worker.signal(signal.SIGTTIN)
            for worker, since in zip(workers, before, strict=True):
                text = worker.output[since:]
                for pid in pids:
                    names = re.findall(rf"pid={pid} .*?thread \d+ (kiqbridge-[\w.-]+)", text)
                    if names:
                        found[pid] = Counter(map(_without_ids, names))
            return found.keys() == set(pids)

        wait_until(all_told, 30, lambda: f"the threads of {pids}, not only of {list(found)}")
        return found

    def repeated(self):
        """Innocent jobs that were performed or begun more than once, by reason; None = without one."""
        reasons = Counter()
        marks = self.marks
        begun = {}
        last_sign = {}
        for name in ("begun", "performed"):
            for (jid, pid), at in zip(marks.lines[name], marks.times[name], strict=True):
                last_sign[pid] = max(last_sign.get(pid, 0.0), at)
                if name == "begun":
                    begun.setdefault(jid, []).append((pid, at))
        failed = Counter(marks.lines["failed"])
        acted = {(kind, int(pid)) for kind, pid, _ in map(str.split, self._acts())}
        alive = {int(name.split(":")[-2]) for name in self.alive()}
        for jid, times in begun.items():
            for (pid, _), (_, again_at) in pairwise(times):
                if failed[jid, pid]:
                    failed[jid, pid] -= 1
                    reasons["it had failed"] += 1
                elif pid not in alive and last_sign[pid] < again_at + STOP_S:
                    reasons["its process had ended"] += 1
                elif ("kill_thread", pid) in acted:
                    reasons["a thread of its process had been killed"] += 1
                elif any((kind, pid) in acted for kind in LOOP_ENDS):
                    reasons["the event loop of its process had ended"] += 1
                else:
                    reasons[None] += 1
        return reasons

    def _acts(self):
        path = self.marks.folder / "acts"
        return path.read_text().splitlines() if path.exists() else []


STOP_S = 15.0
"""A process that stops gives its jobs back first, and may work on for so long."""

LOOP_ENDS = ("stop_loop", "raise_in_background", "raise_in_callback", "raise")
PASSING = ("bridge", "kiqbridge-children", "kiqbridge-limits", "kiqbridge-log", "kiqbridge-report")
"""Threads that are started when they are first needed."""


def _without_ids(name):
    return re.sub(r"[0-9a-f]{6}$|\d+$", "*", name)


def lasting(threads):
    return Counter(
        {
            name: count
            for name, count in threads.items()
            if not any(each in name for each in PASSING)
        }
    )


def kinds_of(threads):
    """The different sets of lasting threads that processes have: one, if they are all alike."""
    return {frozenset(lasting(each).items()) for each in threads.values()}


def test_hostile_jobs_harm_no_innocent_one_and_no_worker(redis_url, redis, tmp_path, tell):
    with ExitStack() as stack:
        battle = Battle(stack, redis_url, redis, tmp_path)
        battle.wave([])
        battle.settle()
        # A dump may be read before its last line is written; then the next one is whole.
        usual = wait_until(
            lambda: len(found := kinds_of(battle.threads())) == 1 and found, 60, "the same threads"
        )
        until = time.monotonic() + BUDGET_S

        @settings(
            max_examples=MOST_PLANS,
            phases=[Phase.generate],
            deadline=None,
            database=None,
            derandomize=BUDGET_S < 60,
            suppress_health_check=list(HealthCheck),
        )
        @given(PLANS)
        def storm(plan):
            if time.monotonic() < until:
                battle.wave(plan)

        battle.wave(ONE_OF_EACH)
        storm()
        began_end = time.monotonic()
        battle.wave([])
        battle.settle()
        performed = battle.marks.look().count("performed")
        twice = battle.repeated()
        output = "".join(
            [
                battle.supervisor.output,
                *battle.orchestrated.outputs,
                battle.orchestrated.worker.output,
            ]
        )
        dead = [json.loads(text)["class"] for text in redis.zrange("dead", 0, -1)]
        restarts = {
            "loops": output.count("event loop of capsule"),
            "threads": output.count("an error ended the loop of thread")
            + output.count("started anew"),
            "supervised": output.count("another is started in"),
            "orchestrated": dict(battle.orchestrated.ends),
        }
        tell(
            f"hostile jobs: {battle.waves} waves, {sum(battle.acts.values())} hostile jobs "
            f"({', '.join(f'{kind} {count}' for kind, count in sorted(battle.acts.items()))}); "
            f"innocent {len(battle.pushed)} ({dict(Counter(battle.pushed.values()))}), performed "
            f"{len(performed)}, lost {len(battle.pushed.keys() - performed.keys())}; performed twice "
            f"{sum(count - 1 for count in performed.values())}, begun again {dict(twice)}; restarts "
            f"{restarts}; hostile jobs dead {len(dead)}; settled {time.monotonic() - began_end:.1f} s after "
            "the last wave"
        )
        assert performed.keys() >= battle.pushed.keys()
        assert not set(dead) & {"Plain", "Async", "Pooled", "Retried"}
        assert twice[None] == 0
        wait_until(
            lambda: kinds_of(battle.threads()) == usual,
            60,
            lambda: f"the threads of before, {usual}: {kinds_of(battle.threads())}",
        )
        # What was closed may be used for the first time at the stop.
        last = battle.orchestrated.worker
        assert last.stop(60) == 0 or "a job has closed file descriptors" in last.output
        assert battle.supervisor.stop(60) == 0
        assert lists_in_flight(redis) == {}
