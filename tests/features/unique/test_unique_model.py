"""Unique jobs under all that can happen to them, in any order, on a real server.

Hypothesis draws what clients, workers, the poller, operators and crashes do next. A small model holds what must be:
no two live jobs have the same lock, none is lost, and once the outbox is empty and the leader has searched, no lock
is left without a live job.
"""

import json
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.engine import EngineProcess, register
from support.proving import sized

from kiqbridge.api import RetrySet, ScheduledSet, open_operator
from kiqbridge.engine.inflight.recovery import Reaper
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.settle.ending import ending
from kiqbridge.engine.settle.settling import settle
from kiqbridge.errors import NotUnique
from kiqbridge.features.gone_jobs.search import MISSES, SEARCH_S, GoneJobs
from kiqbridge.features.unique.locks import ask_lock
from kiqbridge.flow import Unique
from kiqbridge.store.begin import begin
from kiqbridge.store.due_jobs import promote
from kiqbridge.wire.keys import Keys
from kiqbridge.wire.rules import flow_name

KEYS = Keys()
NOW = 1_700_000_000.0
LATER = 4_000_000_000
EXAMPLES, STEPS = sized(full=300, sample=20), 30
CONFLICTS = ("replace", "drop", "replace", "raise")


class Model:
    """What must be of each key: who has the lock, who was replaced, who is gone without an end."""

    def __init__(self):
        self.live = {}  # jid → key, of all jobs that are somewhere
        self.owner = {}  # key → jid, as the outbox will have it once it is empty
        self.replaced = set()
        self.vanished = set()

    def ended(self, jid):
        key = self.live.pop(jid)
        self.replaced.discard(jid)
        if self.owner.get(key) == jid:
            del self.owner[key]


class UniqueJobs(RuleBasedStateMachine):
    """One server, one worker at a time, two keys."""

    def __init__(self, client, redis, until):
        super().__init__()
        redis.flushall()
        self.client, self.redis, self.until = client, redis, until
        self.connection = client.pool.connection()
        self.outbox = Outbox(client, self.connection)
        self.now = 0.0
        self.watch = GoneJobs(KEYS, monotonic=lambda: self.now)
        self.operator = open_operator(client=client, by="ann")
        self.model = Model()
        self.running = {}  # jid → (chunk, text)
        self.claims = 0
        self.process = None
        self.start_worker()

    def start_worker(self):
        self.close_worker()
        self.process = register(EngineProcess(self.client.pool.address))

    def close_worker(self):
        if self.process is not None:
            self.process.pool.close_all()

    def apply_ends(self):
        while self.outbox.look():
            pass

    def search(self):
        """As the leader does, three times; all locks are old."""
        for _ in range(MISSES):
            for name in self.redis.hkeys(KEYS.locks):
                self.redis.zadd(KEYS.locks_look, {name: 1})
            self.now += SEARCH_S
            self.watch.look(self.connection)
            while self.watch._search is not None:
                self.watch.look(self.connection)

    def owner_of(self, key):
        """As Redis has it now: an end that waits in the outbox still holds its lock."""
        value = self.redis.hget(KEYS.locks, flow_name("Once", [key]))
        return value and value.split()[1].decode()

    @rule(
        key=st.integers(0, 1),
        conflict=st.sampled_from(CONFLICTS),
        later=st.sampled_from((False, False, True)),
    )
    def push(self, key, conflict, later):
        model, owner = self.model, self.owner_of(key)
        item = {
            "class": "Once",
            "args": [key],
            "unique": Unique(until=self.until, on_conflict=conflict),
        }
        if later:
            item["at"] = LATER
        if owner is not None and conflict == "raise":
            with pytest.raises(NotUnique) as raised:
                self.client.push(item)
            assert raised.value.jid == owner
            return
        jid = self.client.push(item)
        if owner is not None and conflict == "drop":
            assert jid is None
            return
        assert jid is not None
        if owner is not None:
            event("replaced")
            if owner in model.live:
                model.replaced.add(owner)
        model.live[jid] = key
        model.owner[key] = jid

    @precondition(lambda self: self.redis.llen("queue:default"))
    @rule()
    def begin(self):
        """A worker takes the oldest job."""
        self.claims += 1
        claimer = self.process.claimer(f"t{self.claims}")
        chunk = claimer.claim(["default"], 1)
        text = chunk.take()
        payload = json.loads(text)
        jid, model = payload["jid"], self.model
        part = ask_lock(KEYS, payload).part
        [(_, [*others])] = answers = begin(self.connection, [part])
        assert answers == begin(self.connection, [part])
        answer = "".join(others)
        assert (answer == "replaced") == (jid in model.replaced)
        if answer:
            event("left out")
            self.leave(chunk, text, ending(KEYS, payload, "skipped", NOW, error=ValueError()))
            model.ended(jid)
            return
        if self.until == "start" and model.owner.get(model.live[jid]) == jid:
            del model.owner[model.live[jid]]
        self.running[jid] = chunk, text

    def leave(self, chunk, text, effects, *, target=None, kept=b""):
        connection = self.process.connect()
        assert settle(
            connection, KEYS, chunk, text, target=target, score=NOW, text=kept, effects=effects
        )

    def take_running(self, data):
        jid = data.draw(st.sampled_from(sorted(self.running)))
        return jid, *self.running.pop(jid)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def succeed(self, data):
        jid, chunk, text = self.take_running(data)
        self.leave(chunk, text, ending(KEYS, json.loads(text), "done", NOW))
        self.model.ended(jid)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), dies=st.booleans())
    def fail(self, data, dies):
        jid, chunk, text = self.take_running(data)
        payload = json.loads(text)
        effects = ending(KEYS, payload, "dead", NOW, error=ValueError()) if dies else ()
        kept = json.dumps({**payload, "retry_count": payload.get("retry_count", -1) + 1}).encode()
        self.leave(chunk, text, effects, target=KEYS.dead if dies else KEYS.retry, kept=kept)
        if dies:
            self.model.ended(jid)

    @precondition(lambda self: self.redis.exists("schedule", "retry"))
    @rule(source=st.sampled_from(["schedule", "retry"]))
    def become_due(self, source):
        texts = self.redis.zrange(source, 0, 0)
        if texts:
            promote(self.connection, KEYS, source, {"default": (texts, texts)}, now=LATER + 1)

    @precondition(lambda self: self.redis.exists("schedule", "retry"))
    @rule(kind=st.sampled_from([ScheduledSet, RetrySet]))
    def delete(self, kind):
        [*texts] = self.redis.zrange(kind.name, 0, 0)
        for text in texts:
            jid = json.loads(text)["jid"]
            kind(self.operator).find_job(jid).delete()
            self.model.ended(jid)

    @precondition(lambda self: self.running)
    @rule()
    def crash(self):
        """The worker is killed; what it had in flight goes back."""
        Reaper(self.process.connect(), KEYS).reap(self.process.incarnation, by_owner=True)
        self.running.clear()
        self.start_worker()
        event("crash")

    @precondition(lambda self: self.redis.llen("queue:default"))
    @rule()
    def vanish(self):
        """Somebody takes a job out of its queue, and nobody writes its end."""
        jid = json.loads(self.redis.rpop("queue:default"))["jid"]
        self.model.vanished.add(jid)
        self.model.ended(jid)
        event("vanished")

    @precondition(lambda self: self.redis.exists(KEYS.flow_ends))
    @rule()
    def apply(self):
        self.apply_ends()

    @invariant()
    def no_job_is_lost_and_none_is_there_twice(self):
        texts = self.redis.lrange("queue:default", 0, -1)
        texts += self.redis.zrange("schedule", 0, -1) + self.redis.zrange("retry", 0, -1)
        found = Counter(json.loads(text)["jid"] for text in texts)
        found.update(list(self.running))
        assert found == Counter(list(self.model.live))

    @invariant()
    def a_live_job_that_was_not_replaced_has_its_lock(self):
        if self.until == "done":
            model = self.model
            having = {jid: key for jid, key in model.live.items() if jid not in model.replaced}
            assert len(set(having.values())) == len(having), "two live jobs with one lock"
            assert {key: jid for jid, key in having.items()} == model.owner
            for key, jid in model.owner.items():
                assert self.owner_of(key) == jid

    def teardown(self):
        try:
            self.apply_ends()
            self.search()
            owners = {value.split()[1].decode() for value in self.redis.hvals(KEYS.locks)}
            assert owners == set(self.model.owner.values())
            assert set(self.redis.hkeys(KEYS.locks)) == set(
                self.redis.zrange(KEYS.locks_look, 0, -1)
            )
            replaced = {jid.decode() for jid in self.redis.zrange(KEYS.replaced, 0, -1)}
            assert replaced - self.model.vanished == self.model.replaced
        finally:
            self.close_worker()


def run(client, redis, until, tell):
    began, steps = time.monotonic(), Counter()

    class Counted(UniqueJobs):
        def __init__(self):
            super().__init__(client, redis, until)
            steps["examples"] += 1

        def check_invariants(self, *args, **options):
            steps["steps"] += 1
            return super().check_invariants(*args, **options)

    run_state_machine_as_test(
        Counted,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
    tell(
        f"unique until {until}: {steps['examples']} examples, {steps['steps']} steps in "
        f"{time.monotonic() - began:.1f} s: no two live jobs with one lock, no lock without a job, none lost"
    )


def test_until_done(client, redis, tell):
    run(client, redis, "done", tell)


def test_until_start(client, redis, tell):
    run(client, redis, "start", tell)
