"""Batches, chains and groups under everything that may befall their jobs and workers, in any order.

Hypothesis draws trees of batches with callbacks, chains and groups, and then what happens: jobs are done, die, are
deleted, are retried, run twice; ends are applied by one of several workers, of which each repeats some of its scripts
(a lost reply) or is killed between taking an end and applying it. A small model says which jobs and callbacks are due.
"""

import itertools
import json
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import redis as redis_py
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from support.proving import sized

from kiqbridge import Client
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.errors import BatchError
from kiqbridge.flow import Batch, call, chain, group
from kiqbridge.store import outbox as ends_in_redis
from kiqbridge.store.outbox import take_ends
from kiqbridge.wire.flow_mark import FlowEnd

COUNTED = Counter()
EVENTS = ("success", "complete", "death")
FAILURES = ("dead", "discarded", "cancelled", "skipped")
DEATHS = ("dead", "discarded")
APPLY = ends_in_redis._APPLY.sha


class Work:
    """Stands for a declared job: enqueues under a name, through the client of the test."""

    client = None

    @classmethod
    def perform_async(cls, *args):
        return cls.client.push({"class": "Work", "args": list(args)})


class Repeating:
    """A connection whose reply to each third script that applies an end is lost, so that it is repeated."""

    def __init__(self, connection):
        self._connection = connection
        self._scripts = itertools.count(1)

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def script(self, script, keys, args, **options):
        answer = self._connection.script(script, keys, args, **options)
        if script.sha == APPLY and next(self._scripts) % 3 == 0:
            COUNTED["lost replies"] += 1
            self._connection.script(script, keys, args, **options)
        return answer


@dataclass(eq=False)
class Tree:
    """What a batch was made of: numbers of jobs, chains of numbers or lists of numbers, children."""

    events: tuple
    jobs: list
    chains: list
    children: list
    bid: str = ""
    initial: list = field(default_factory=list)


trees = st.deferred(
    lambda: st.tuples(
        st.sets(st.sampled_from(EVENTS)),
        st.integers(0, 2),
        st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3), max_size=2),
        st.lists(trees, max_size=1),
    )
)


class Machine(RuleBasedStateMachine):
    server_url = ""

    def __init__(self):
        super().__init__()
        self.redis = redis_py.Redis.from_url(self.server_url, socket_timeout=60)
        self.redis.flushall()
        Work.client = self.client = Client(self.server_url)
        self.outboxes = [
            Outbox(self.client, Repeating(self.client.pool.connection())) for _ in range(3)
        ]
        self.numbers = itertools.count(1)
        self.roots = []
        self.seen = {}  # name -> payload
        self.pushes = Counter()
        self.ends = defaultdict(list)  # name -> outcomes
        COUNTED["examples"] += 1

    def teardown(self):
        try:
            self.settle_all()
            self.check()
            self.finish()
        finally:
            self.client.close()
            self.redis.close()

    # What happens

    @initialize(drawn=st.lists(trees, min_size=1, max_size=2))
    def make(self, drawn):
        self.roots = [self._make(each) for each in drawn]
        self.collect()

    def _make(self, drawn):
        events, jobs, chains, children = drawn
        tree = Tree(tuple(sorted(events)), [], [], [])
        callbacks = {f"on_{event}": call(Work, "callback") for event in events}
        with Batch(client=self.client, **callbacks) as batch:
            tree.bid = batch.bid
            for _ in range(jobs):
                tree.jobs.append(self._number())
                Work.perform_async(tree.jobs[-1])
            for links in chains:
                tree.chains.append([self._link(size) for size in links])
                chain(*map(self._call, tree.chains[-1])).perform_async(client=self.client)
            tree.children = [self._make(child) for child in children]
        COUNTED["batches"] += 1
        COUNTED["chains"] += len(chains)
        tree.initial = [*tree.jobs]
        return tree

    def _number(self):
        return next(self.numbers)

    def _link(self, size):
        return self._number() if size == 0 else [self._number() for _ in range(size)]

    def _call(self, link):
        return call(Work, link) if isinstance(link, int) else group(*(call(Work, n) for n in link))

    @rule(pick=st.integers(0, 99), outcome=st.sampled_from(["done", "done", "done", *FAILURES]))
    def end(self, pick, outcome):
        # A number, not one of the names: ids and times decide which names there are, and differ when Hypothesis
        # repeats an example.
        if not self.seen:
            return
        name = list(self.seen)[pick % len(self.seen)]
        self.leave(name, outcome)

    @precondition(lambda self: any(tree.jobs for tree in self.all_trees()))
    @rule(data=st.data())
    def add_while_one_runs(self, data):
        """A job that runs adds another one to its batch."""
        trees_with_jobs = [tree for tree in self.all_trees() if tree.jobs]
        tree = data.draw(st.sampled_from(trees_with_jobs))
        number = self._number()
        try:
            Batch(tree.bid, client=self.client).add(Work, number)
        except BatchError:
            assert self.succeeds(tree)
            return
        tree.jobs.append(number)
        COUNTED["added"] += 1
        self.collect()

    @rule(who=st.integers(0, 2))
    def apply(self, who):
        self.outboxes[who].look()
        self.collect()

    @rule()
    def a_worker_is_killed_between_taking_and_applying(self):
        taken = take_ends(self.client.pool.connection(), self.client.keys, most=2, for_s=0.001)
        COUNTED["killed between"] += bool(taken)

    def leave(self, name, outcome):
        payload = self.seen[name]
        self.ends[name].append(outcome)
        COUNTED["ends"] += 1
        COUNTED["again"] += len(self.ends[name]) > 1
        flow = payload.get("flow")
        if flow:
            end = FlowEnd(
                flow=flow,
                jid=payload["jid"],
                job_class="Work",
                outcome=outcome,
                at=time.time(),
            )
            self.redis.zadd("kb:flow:ends", {end.to_text(): 0})

    # What is seen

    def collect(self):
        while (text := self.redis.rpop("queue:default")) is not None:
            payload = json.loads(text)
            about = payload.get("flow_callback")
            name = (about["bid"], about["event"]) if about else payload["args"][0]
            self.pushes[name] += 1
            assert self.pushes[name] == 1, f"{name} was pushed twice"
            self.seen[name] = payload
            COUNTED["callbacks"] += about is not None

    def settle_all(self):
        while waiting := self.redis.zrange("kb:flow:ends", 0, -1):
            self.redis.zadd("kb:flow:ends", dict.fromkeys(waiting, 0), xx=True)
            for outbox in self.outboxes:
                outbox.look()
        self.collect()

    # The model

    def all_trees(self):
        found = list(self.roots)
        for tree in found:
            found += tree.children
        return found

    def is_done(self, name):
        return "done" in self.ends[name]

    def members(self, tree):
        """Names of jobs that count for a batch as of now; callbacks of a child are jobs of its parent."""
        yield from tree.jobs
        for links in tree.chains:
            for link in links:
                if isinstance(link, int):
                    yield link
                if not self.link_is_done(link):
                    break
        for child in tree.children:
            for event in child.events:
                if (child.bid, event) in self.seen:
                    yield child.bid, event

    def link_is_done(self, link):
        return all(map(self.is_done, [link] if isinstance(link, int) else link))

    def succeeds(self, tree):
        return (
            all(map(self.is_done, self.members(tree)))
            and all(self.link_is_done(link) for links in tree.chains for link in links)
            and all(map(self.succeeds, tree.children))
        )

    def is_complete(self, tree):
        """Whether each member has ended: so it is by now, whatever the order was."""
        groups = [
            link
            for links in tree.chains
            for place, link in enumerate(links)
            if isinstance(link, list) and all(map(self.link_is_done, links[:place]))
        ]
        return (
            all(self.ends[name] for name in self.members(tree))
            and all(self.ends[name] for link in groups for name in link)
            and all(map(self.is_complete, tree.children))
        )

    def has_death(self, tree, *, even_if_done):
        """Whether one died. A job that was done once dies no more; ends that wait together come in any order."""
        grouped = [
            n for links in tree.chains for link in links if isinstance(link, list) for n in link
        ]
        died = [
            name
            for name in (*self.members(tree), *grouped)
            if set(DEATHS) & set(self.ends[name])
            and (even_if_done or "done" not in self.ends[name])
        ]
        return bool(died) or any(
            self.has_death(child, even_if_done=even_if_done) for child in tree.children
        )

    def check(self):
        for tree in self.all_trees():
            pushed = {event for event in EVENTS if (tree.bid, event) in self.seen}
            status = Batch(tree.bid, client=self.client).status()
            assert status.success == self.succeeds(tree)
            died = status.death_at is not None
            assert died or not self.has_death(tree, even_if_done=False)
            assert not died or self.has_death(tree, even_if_done=True)
            if self.is_complete(tree):
                assert status.complete
            if status.complete:
                assert all(self.ends[name] for name in tree.initial)
            assert pushed == {
                event for event in tree.events if getattr(status, f"{event}_at") is not None
            }
            for links in tree.chains:
                for before, link in itertools.pairwise(links):
                    numbers = [link] if isinstance(link, int) else link
                    assert all((n in self.seen) == self.link_is_done(before) for n in numbers)
            assert all(number in self.seen for number in tree.jobs)

    def finish(self):
        """Whatever is not done is retried, and is done: then each callback but that of a death has been pushed."""
        while undone := [name for name in self.seen if not self.is_done(name)]:
            for name in undone:
                self.leave(name, "done")
            self.settle_all()
            self.check()
        for tree in self.all_trees():
            status = Batch(tree.bid, client=self.client).status()
            assert status.success
            assert status.complete
            assert (status.pending, status.failed) == (0, 0)


def test_no_callback_is_lost_or_doubled_whatever_happens(session_server, tell):
    Machine.server_url = session_server.url
    COUNTED.clear()

    class Seen(Machine):
        pass

    Seen.TestCase.settings = settings(
        max_examples=sized(full=500, sample=30),
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    Seen.TestCase("runTest").runTest()

    tell("batches: " + ", ".join(f"{count} {what}" for what, count in sorted(COUNTED.items())))
    for what in ("lost replies", "killed between", "again", "added", "callbacks"):
        assert COUNTED[what], what
