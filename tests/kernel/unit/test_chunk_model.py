"""A chunk under all who use it at once, in any order, while Redis loses requests and replies.

Hypothesis draws what the owner, the prefetch revoker, the manager, the event loop and the bookkeeper do next,
and what others do in the midst of a call to Redis. A small model of the in-flight list, the queue and `retry`
carries out the scripts, and objects to any call that would lose a job.
"""

from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from support.proving import sized

from kiqbridge.engine.inflight.chunk import Chunk
from kiqbridge.engine.inflight.claims import give_back
from kiqbridge.engine.inflight.lease import Lease
from kiqbridge.engine.settle.ending import Settlement, Target
from kiqbridge.engine.settle.settling import Settler, acknowledge
from kiqbridge.errors import RedisRefused, RedisUnavailable
from kiqbridge.store import scripts
from kiqbridge.wire.keys import Keys

KEYS = Keys()
SETTLE, GIVE_BACK, ACKNOWLEDGE = (
    scripts.load(name).sha for name in ("settle", "give_back", "acknowledge")
)


class Jobs:
    """A set of jobs by identity, since twins have the same bytes."""

    def __init__(self, jobs=()):
        self._by_id = {id(job): job for job in jobs}

    def add(self, job):
        self._by_id[id(job)] = job

    def discard(self, job):
        self._by_id.pop(id(job), None)

    def __contains__(self, job):
        return id(job) in self._by_id

    def __iter__(self):
        return iter(list(self._by_id.values()))

    def __len__(self):
        return len(self._by_id)


class ModelOfRedis:
    """The claim's in-flight list, its queue and `retry`; the only thing that a chunk's writers can change."""

    batch_bytes = 40  # a few jobs in one script

    def __init__(self, jobs):
        self.in_flight = list(jobs)
        self.queue = []
        self.retry = []
        self.acknowledged = Counter()
        self.succeeded = Counter()
        self.returned = Jobs()
        self.written = Jobs()
        self.outcome = "answered"
        self.meanwhile = lambda: None

    def script(self, script, _keys, args, **_options):
        carry_out = {
            GIVE_BACK: self._give_back,
            SETTLE: self._settle,
            ACKNOWLEDGE: self._acknowledge,
        }[script.sha]
        outcome, self.outcome = self.outcome, "answered"  # the next call of a batch gets through
        self.meanwhile()
        if outcome == "refused":
            raise RedisRefused("WRONGTYPE, by the test's will")
        if outcome == "never sent":
            raise RedisUnavailable("the request was lost, by the test's will")
        reply = carry_out(args)
        self.meanwhile()
        if outcome == "reply lost":
            raise RedisUnavailable("the reply was lost, by the test's will")
        return reply

    def close(self):
        pass

    def _remove(self, job):
        if job not in self.in_flight:
            return False
        self.in_flight.remove(job)
        return True

    def _give_back(self, args):
        moved = 0
        for job in args[3:]:
            self.returned.add(job)
            if self._remove(job):
                self.queue.append(job)
                moved += 1
        return moved

    def _settle(self, args):
        answers = []
        for job, text in zip(args[3::4], args[5::4], strict=True):
            self.written.add(job)
            is_ours = self._remove(job)
            if is_ours:
                self.retry.append(text)
            answers.append(int(is_ours))
        return answers

    def _acknowledge(self, args):
        for number, job in zip(args[3::2], args[4::2], strict=True):
            _, _, staying = number.partition(" ")
            count = self.in_flight.count(job) - int(staying) if staying else 1
            for _ in range(count):
                if not self._remove(job):
                    break
                self.acknowledged[job] += 1
                assert self.acknowledged[job] <= self.succeeded[job], "an unfinished job is lost"
        return 0

    def acknowledge_all(self):
        """What the claimer's next claim does."""
        for job in list(self.in_flight):
            self._acknowledge(["", "", "", "3", job])


WEATHER = st.tuples(
    st.sampled_from(["answered", "reply lost", "never sent", "refused"]),
    st.lists(
        st.sampled_from(
            [
                "owner_takes",
                "owner_finishes",
                "owner_fails",
                "owner_is_interrupted",
                "owner_hands_over",
                "loop_puts_back",
            ]
        ),
        max_size=4,
    ),
)
"""What becomes of a call to Redis, and what others do before it is carried out and before it is answered."""


class ChunkMachine(RuleBasedStateMachine):
    held = None
    has_left = False
    pending = ()

    @initialize(
        texts=st.lists(
            st.sampled_from([b"twin job", b"another!", b"a job of its own"]), min_size=1, max_size=6
        )
    )
    def claim(self, texts):
        self.jobs = [bytes(bytearray(text)) for text in texts]  # twins are objects of their own
        self.redis = ModelOfRedis(self.jobs)
        self.chunk = Chunk(
            lease=Lease("v2:host:1:aaa:1"),
            queue="default",
            home="queue:default",
            list_key="list",
            jobs=self.jobs,
            tid="t1",
            sequence=1,
        )
        self.settler = Settler(KEYS)
        self.held = None  # by the owner
        self.revoked_while_held = False
        self.begun = Jobs()
        self.pending = Jobs()
        self.notified = Counter()
        self.freed = 0
        self.has_left = False

    # What needs no lock, and may happen in the midst of a call to Redis.

    def owner_takes(self):
        if self.held is not None or self.has_left:
            return
        job = self.chunk.take()
        if job is None:
            return
        assert job not in self.begun, "begun twice"
        assert job not in self.redis.returned, "begun here though it may be in the queue"
        self.begun.add(job)
        self.held, self.revoked_while_held = job, False

    def owner_finishes(self):
        if self.held is None:
            return
        self.redis.succeeded[self.held] += 1
        self.chunk.finish()
        self.held = None

    def owner_fails(self):
        if self.held is None:
            return
        job = self.held
        settlement = Settlement(
            target=Target.RETRY,
            score=1.0,
            text=job + b" failed",
            counted=True,
            notify=lambda: self.notified.update([id(job)]),
        )
        assert self.chunk.end(settlement) is not self.revoked_while_held
        self.held = None

    def owner_is_interrupted(self):
        if self.held is None:
            return
        self.chunk.put_back_running()
        self.held = None

    def owner_hands_over(self):
        if self.held is None or self.revoked_while_held:
            return
        self.chunk.share(self.on_free)
        self.chunk.hold()
        self.chunk.hand_over()
        self.pending.add(self.held)
        self.held = None

    def on_free(self):
        assert not self.pending, "freed, though jobs are pending"
        self.freed += 1
        # Any thread may claim under this claimer now, and acknowledges what the list still holds.
        self.redis.acknowledge_all()

    def loop_puts_back(self):
        for job in self.pending:
            if job not in self.chunk_returning:
                self.chunk.put_back([job])
                return

    @property
    def chunk_returning(self):
        return Jobs(self.chunk.returning)

    @precondition(lambda self: self.held is None and not self.has_left)
    @rule()
    def take(self):
        self.owner_takes()

    @precondition(lambda self: self.held is not None)
    @rule(end=st.sampled_from(["owner_finishes", "owner_fails", "owner_is_interrupted"]))
    def end(self, end):
        getattr(self, end)()

    @precondition(lambda self: self.held is not None and not self.revoked_while_held)
    @rule()
    def hand_over(self):
        self.owner_hands_over()

    @precondition(lambda self: self.held is None and not self.has_left)
    @rule(end=st.sampled_from(["owner_finishes", "owner_fails", "owner_hands_over"]))
    def take_and_end(self, end):
        self.owner_takes()
        getattr(self, end)()

    @precondition(lambda self: self.pending)
    @rule()
    def put_back(self):
        self.loop_puts_back()

    # Calls to Redis.

    def call(self, weather, write, *, by_owner=False):
        """One attempt of somebody's, while others do this and that; whether it was answered."""
        self.redis.outcome, actions = weather
        left = [name for name in actions if not (by_owner and name.startswith("owner"))]

        def meanwhile():
            if left:
                getattr(self, left.pop())()

        self.redis.meanwhile = meanwhile
        try:
            with self.chunk.writing:
                write()
        except (RedisUnavailable, RedisRefused):
            return False
        finally:
            self.redis.meanwhile = lambda: None
            self.redis.outcome = "answered"
        return True

    def give_back(self):
        before = Jobs(self.chunk.returning)
        try:
            give_back(self.redis, KEYS, self.chunk)
        finally:
            now = Jobs(self.chunk.returning)
            for job in before:
                if job not in now:
                    assert job in self.redis.returned, "taken for given back, and is not"

    def write_ended(self):
        for notify in self.settler.write_ended(self.redis, self.chunk):
            notify()

    @rule(weather=WEATHER)
    def revoker_revokes(self, weather):
        def write():
            self.chunk.revoke()
            try:
                self.give_back()
            except RedisRefused:
                self.chunk.restore()
                raise

        self.call(weather, write)

    @rule(weather=WEATHER)
    def revoker_writes_ends(self, weather):
        self.call(weather, self.write_ended)

    @rule(weather=WEATHER)
    def manager_stops(self, weather):
        def write():
            self.revoke_unfinished()
            self.give_back()
            self.write_ended()
            if self.chunk.may_be_acknowledged():
                self.redis.acknowledge_all()

        self.call(weather, write)

    def revoke_unfinished(self):
        self.chunk.revoke_unfinished()
        self.revoked_while_held = self.revoked_while_held or self.held is not None
        assert self.chunk.running is None
        assert not self.chunk.has_waiting

    @precondition(lambda self: not self.has_left)
    @rule(weather=WEATHER)
    def owner_gives_back(self, weather):
        """It is quiet, there is no room, or something here went wrong."""

        def write():
            self.revoke_unfinished()
            self.give_back()

        self.call(weather, write, by_owner=True)
        self.held = None

    @precondition(lambda self: self.held is None and not self.has_left)
    @rule(weather=WEATHER)
    def owner_writes_the_rest(self, weather):
        self.call(weather, self.give_back, by_owner=True)
        self.call(weather, self.write_ended, by_owner=True)

    @property
    def on_loop(self):
        """Pending jobs that are not put back."""
        return [job for job in self.pending if job not in self.chunk_returning]

    @precondition(lambda self: self.on_loop)
    @rule(weather=WEATHER, succeeds=st.booleans())
    def loop_ends_a_job(self, weather, succeeds):
        """The bookkeeper writes what became of it, and releases it as soon as that is confirmed."""
        job = self.on_loop[0]
        self.pending.discard(job)
        if succeeds:
            self.redis.succeeded[job] += 1
        settlement = Settlement(target=Target.RETRY, score=1.0, text=job + b" failed", counted=True)

        def write():
            if succeeds:
                acknowledge(self.redis, KEYS, [(self.chunk, job)])
            else:
                self.settler.write_together(self.redis, self.chunk, [(job, settlement)])

        if not self.call(weather, write):  # again, until it is confirmed; it is held meanwhile
            write()
        self.chunk.gone(job)

    @property
    def put_back_by_loop(self):
        return [job for job in self.pending if job in self.chunk_returning]

    @precondition(lambda self: self.put_back_by_loop)
    @rule(weather=WEATHER)
    def bookkeeper_gives_back(self, weather):
        put_back = self.put_back_by_loop
        if self.call(weather, self.give_back):
            for job in put_back:
                assert job in self.redis.returned
                self.pending.discard(job)
                self.chunk.release()

    @precondition(lambda self: self.held is None and not self.has_left and self.chunk.may_be_left())
    @rule()
    def owner_leaves(self):
        self.leave()

    def leave(self):
        self.has_left = True
        if not self.chunk.is_shared:
            assert self.chunk.may_be_acknowledged()
            self.redis.acknowledge_all()
            return
        done = []
        self.chunk.hand_over_done(done.append)
        self.chunk.leave()
        for job in done:
            acknowledge(self.redis, KEYS, [(self.chunk, job)])
            self.chunk.gone(job)

    @invariant()
    def no_job_is_lost(self):
        stored = Counter(self.redis.in_flight) + Counter(self.redis.queue)
        stored += Counter(text.removesuffix(b" failed") for text in self.redis.retry)
        assert stored + self.redis.acknowledged == Counter(self.jobs)

    @invariant()
    def each_job_is_in_one_state(self):
        states = {
            "waiting": self.chunk.waiting,
            "running": [job for job in [self.chunk.running] if job is not None],
            "done": self.chunk.done,
            "ended": [job for job, _ in self.chunk.ended],
            "returning": self.chunk.returning,
        }
        seen = Counter(id(job) for jobs in states.values() for job in jobs)
        assert not [state for state in seen.values() if state > 1], states
        if self.held is None:
            assert self.chunk.running is None
        for job in self.chunk.waiting:
            assert job not in self.redis.returned, "waiting though it may be in the queue"
            assert job not in self.begun

    @invariant()
    def nobody_is_notified_twice_or_of_what_is_not_written(self):
        assert all(count == 1 for count in self.notified.values())
        assert all(any(id(job) == each for job in self.redis.written) for each in self.notified)

    @invariant()
    def what_may_be_acknowledged_is_all_in_redis_or_finished(self):
        if self.chunk.may_be_acknowledged():
            assert not Counter(self.redis.in_flight) - self.redis.succeeded

    @invariant()
    def a_claimer_is_freed_once(self):
        assert self.freed <= 1
        if self.freed:
            assert self.has_left
            assert not self.redis.in_flight

    def teardown(self):
        """All writes get through now: the owner can always leave, and each job has one end."""
        if self.held is not None:
            self.owner_finishes()
        with self.chunk.writing:
            self.chunk.revoke()
            self.give_back()
            self.write_ended()
        for job in self.pending:
            self.pending.discard(job)
            if job in self.redis.returned:
                self.chunk.release()
            else:
                self.redis.succeeded[job] += 1
                acknowledge(self.redis, KEYS, [(self.chunk, job)])
                self.chunk.gone(job)
        if not self.has_left:
            assert self.chunk.may_be_left()
            self.leave()
        assert not self.redis.in_flight
        self.no_job_is_lost()
        self.a_claimer_is_freed_once()
        assert self.freed == int(self.chunk.is_shared)


ChunkMachine.TestCase.settings = settings(
    max_examples=sized(full=1500, sample=60),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
TestAChunk = ChunkMachine.TestCase
