"""Limiters against what they are to do, written down plainly, on a real server whose clock the test moves.

The scripts read the clock of the server in one place; here that reads a key which the test writes.
"""

from contextlib import ExitStack, contextmanager
from fractions import Fraction
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.proving import sized

from kiqbridge.features.limiters import store as limits
from kiqbridge.features.limiters.store import Lock
from kiqbridge.store import scripts
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

CLOCK = "test:clock"
START_US = 1_800_000_000_000_000
INTERVAL_S = 60
EXAMPLES = sized(full=250, sample=15)
STEPS = 30
STEPS_OF_TIME = st.sampled_from([1, 999_999, 1_000_000, 7_000_000, 59_999_999, 60_000_000])


@contextmanager
def pool_with_clock(redis_url, longer_ms=0):
    """Connections to a server whose scripts read the test's clock; keys last longer by so much."""
    with ExitStack() as stack:
        for name in ("concurrent", "renew", "window", "bucket", "level"):
            text = scripts.load(name, limits.__file__).text
            assert text.count("redis.call('TIME')") == 1
            text = text.replace("redis.call('TIME')", f"redis.call('LRANGE', '{CLOCK}', 0, -1)")
            script = scripts.from_text(text.replace("_ms)", f"_ms + {longer_ms})"))
            stack.enter_context(mock.patch.object(limits, f"_{name.upper()}", script))
        pool = RedisPool(redis_url)
        yield pool
        pool.close_all()


@pytest.fixture
def pool(redis_url):
    with pool_with_clock(redis_url) as pool:
        yield pool


@pytest.fixture
def lasting_pool(redis_url):
    """Keys end by the server's own clock, which goes on while that of the test stands."""
    with pool_with_clock(redis_url, longer_ms=3_600_000) as pool:
        yield pool


class Machine(RuleBasedStateMachine):
    """What all kinds share: the clock, and a key of its own for each example."""

    pool: RedisPool
    examples = 0
    steps = 0

    def __init__(self):
        super().__init__()
        type(self).examples += 1
        self.keys = Keys(f"x{type(self).examples}")
        self.limit = 1
        self.now = START_US
        self.advance(0)

    @initialize(limit=st.integers(1, 4))
    def choose(self, limit):
        self.limit = limit

    @rule(step=STEPS_OF_TIME)
    def advance(self, step):
        type(self).steps += 1
        self.now += step
        seconds, rest = divmod(self.now, 1_000_000)
        self.pool.run(("DEL", CLOCK), ("RPUSH", CLOCK, seconds, rest))


class WindowMachine(Machine):
    def __init__(self):
        super().__init__()
        self.granted = []

    @rule()
    def take(self):
        type(self).steps += 1
        inside = [at for at in self.granted if at > self.now - INTERVAL_S * 1_000_000]

        answer = limits.take_from_window(
            self.pool, self.keys.limit("window", "w"), self.limit, INTERVAL_S
        )

        assert answer.taken is (len(inside) < self.limit)
        if answer.taken:
            self.granted.append(self.now)
        else:
            opens = sorted(inside)[-self.limit] + INTERVAL_S * 1_000_000
            assert answer.wait_s == (opens - self.now) / 1_000_000

    @invariant()
    def no_interval_has_more_than_the_limit(self):
        for at in self.granted:
            inside = [each for each in self.granted if 0 <= each - at < INTERVAL_S * 1_000_000]
            assert len(inside) <= self.limit


class BucketMachine(Machine):
    def __init__(self):
        super().__init__()
        self.granted = {}

    @rule()
    def take(self):
        type(self).steps += 1
        number, into = divmod(self.now, INTERVAL_S * 1_000_000)
        before = self.granted.get(number, 0)

        answer = limits.take_from_bucket(
            self.pool, self.keys.limit("bucket", "b"), self.limit, INTERVAL_S
        )

        assert answer.taken is (before < self.limit)
        if answer.taken:
            self.granted[number] = before + 1
        else:
            assert answer.wait_s == (INTERVAL_S * 1_000_000 - into) / 1_000_000


class LevelMachine(Machine):
    """Leaky and points: the level in exact fractions."""

    RATE = Fraction(1, 4)
    HOLDS = 10

    def __init__(self):
        super().__init__()
        self.level, self.at = Fraction(0), self.now
        self.granted = []

    def drained(self):
        return max(Fraction(0), self.level - Fraction(self.now - self.at, 1_000_000) * self.RATE)

    @rule(amount=st.sampled_from([0.5, 1.0, 4.0, 10.0]))
    def take(self, amount):
        type(self).steps += 1
        before = self.drained()
        over = before + Fraction(amount) - self.HOLDS

        answer = limits.pour(
            self.pool, self.keys.limit("points", "p"), self.HOLDS, float(self.RATE), amount
        )

        if abs(over) > Fraction(1, 100_000):  # at the brim the script's own rounding decides
            assert answer.taken is (over <= 0)
        if answer.taken:
            self.level, self.at = before + Fraction(amount), self.now
            self.granted.append((self.now, amount))
        else:
            assert answer.wait_s == pytest.approx(float(over / self.RATE), abs=0.001)

    @rule(amount=st.sampled_from([-4.0, -1.0, 2.5]))
    def correct(self, amount):
        type(self).steps += 1
        limits.correct(
            self.pool, self.keys.limit("points", "p"), self.HOLDS, float(self.RATE), amount
        )

        self.level, self.at = max(Fraction(0), self.drained() + Fraction(amount)), self.now
        self.granted.append((self.now, amount))

    @invariant()
    def no_time_has_more_than_it_holds_and_drains(self):
        if any(amount < 0 or amount == 2.5 for _, amount in self.granted):
            return
        for first, _ in self.granted:
            inside = sum(amount for at, amount in self.granted if at >= first)
            passed_s = (self.now - first) / 1_000_000
            assert inside <= self.HOLDS + passed_s * float(self.RATE) + 0.001


class LockMachine(Machine):
    """Concurrent: workers that register and die, and processes that renew their locks or do not."""

    VALID_S = 30
    WORKERS = ("v2:a:1:x:1", "v2:b:2:y:1", "v2:a:1:x:2")

    def __init__(self):
        super().__init__()
        self.registered = set(self.WORKERS)
        self.pool.call("SADD", self.keys.inflight, *self.registered)
        self.locks = {}
        self.kept = {}
        self.count = 0

    def lock(self, token, owner):
        return Lock(
            pool=self.pool,
            key=self.keys.limit("concurrent", "c"),
            token=token,
            valid_s=self.VALID_S,
            owner=owner,
        )

    def is_live(self, token):
        lock, ends = self.locks[token], self.kept.get(token)
        if ends is None:
            return False
        return lock.owner in self.registered if lock.owner else ends > self.now

    def live(self):
        return [token for token in self.locks if self.is_live(token)]

    def take_of(self, owner):
        type(self).steps += 1
        self.count += 1
        lock = self.lock(f"t{self.count}", owner)
        live = self.live()

        answer = limits.take_lock(lock, self.keys, self.limit)

        assert answer.taken is (len(live) < self.limit)
        if len(self.kept) >= self.limit:
            self.kept = {token: self.kept[token] for token in live}
        if answer.taken:
            self.locks[lock.token], self.kept[lock.token] = (
                lock,
                self.now + self.VALID_S * 1_000_000,
            )

    @precondition(lambda self: self.registered)
    @rule(data=st.data())
    def take_in_a_worker(self, data):
        self.take_of(data.draw(st.sampled_from(sorted(self.registered))))

    @rule()
    def take_elsewhere(self):
        self.take_of("")

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def ask_again_since_the_reply_was_lost(self, data):
        type(self).steps += 1
        token = data.draw(st.sampled_from(sorted(self.kept)))

        assert limits.take_lock(self.locks[token], self.keys, self.limit).taken

        self.kept[token] = self.now + self.VALID_S * 1_000_000

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def renew(self, data):
        type(self).steps += 1
        token = data.draw(st.sampled_from(sorted(self.locks)))

        assert limits.renew_lock(self.locks[token]) is (token in self.kept)

        if token in self.kept:
            self.kept[token] = self.now + self.VALID_S * 1_000_000

    @precondition(lambda self: self.locks)
    @rule(data=st.data())
    def give_back(self, data):
        type(self).steps += 1
        token = data.draw(st.sampled_from(sorted(self.locks)))
        limits.give_back_lock(self.locks[token])
        self.kept.pop(token, None)

    @precondition(lambda self: self.registered)
    @rule(data=st.data())
    def a_worker_dies(self, data):
        type(self).steps += 1
        worker = data.draw(st.sampled_from(sorted(self.registered)))
        self.registered.discard(worker)
        self.pool.call("SREM", self.keys.inflight, worker)

    @invariant()
    def never_more_holders_than_the_limit(self):
        assert len(self.live()) <= self.limit

    @invariant()
    def the_server_keeps_what_the_model_keeps(self):
        held = self.pool.call("HKEYS", self.keys.limit("concurrent", "c"))
        assert sorted(each.decode() for each in held) == sorted(self.kept)
        assert len(held) <= self.limit


@pytest.mark.parametrize("kind", [WindowMachine, BucketMachine, LevelMachine, LockMachine])
def test_a_kind_grants_what_its_model_grants(kind, lasting_pool, tell):
    machine = type(kind.__name__, (kind,), {"pool": lasting_pool, "examples": 0, "steps": 0})

    run_state_machine_as_test(
        machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=STEPS)
    )

    assert machine.steps > EXAMPLES
    tell(f"{kind.__name__}: {machine.examples} examples, {machine.steps} steps")


def test_many_locks_are_looked_at_once_a_second(pool):
    keys, limit = Keys(""), 101

    def take(number):
        return limits.take_lock(
            Lock(pool=pool, key=keys.limit("concurrent", "c"), token=f"t{number}", valid_s=10),
            keys,
            limit,
        ).taken

    set_clock(pool, START_US)
    assert all(take(number) for number in range(limit))
    set_clock(pool, START_US + 9_500_000)
    assert not take(200)
    set_clock(pool, START_US + 10_000_000)
    assert not take(200)
    set_clock(pool, START_US + 10_500_000)

    assert take(200)
    assert pool.call("HLEN", keys.limit("concurrent", "c")) == 1


def set_clock(pool, now_us):
    seconds, rest = divmod(now_us, 1_000_000)
    pool.run(("DEL", CLOCK), ("RPUSH", CLOCK, seconds, rest))


@pytest.mark.parametrize("kind", ["window", "bucket"])
def test_a_server_whose_clock_was_far_ahead_blocks_nobody(pool, kind):
    take = {"window": limits.take_from_window, "bucket": limits.take_from_bucket}[kind]
    set_clock(pool, START_US + 86_400_000_000)
    assert take(pool, "kb:limit:x", 1, INTERVAL_S).taken
    assert not take(pool, "kb:limit:x", 1, INTERVAL_S).taken

    set_clock(pool, START_US)

    assert take(pool, "kb:limit:x", 1, INTERVAL_S).taken


def test_a_vessel_drains_on_after_the_clock_was_set_back(pool):
    set_clock(pool, START_US + 86_400_000_000)
    assert limits.pour(pool, "kb:limit:x", 2, 1, 2).taken

    set_clock(pool, START_US)
    assert limits.pour(pool, "kb:limit:x", 2, 1, 1) == (False, 1.0)
    set_clock(pool, START_US + 1_000_000)

    assert not limits.pour(pool, "kb:limit:x", 2, 1, 2).taken

    assert limits.pour(pool, "kb:limit:x", 2, 1, 1).taken


@pytest.mark.parametrize(
    ("take", "longest_s"),
    [
        (lambda pool: limits.take_from_window(pool, "kb:limit:x", 5, 60), 60),
        (lambda pool: limits.take_from_bucket(pool, "kb:limit:x", 5, 60), 60),
        (lambda pool: limits.pour(pool, "kb:limit:x", 10, 0.5, 5), 10.1),
    ],
)
def test_what_says_nothing_any_more_is_forgotten_by_the_server(redis, pool, take, longest_s):
    set_clock(pool, START_US)

    take(pool)

    assert 0 < redis.pttl("kb:limit:x") <= longest_s * 1000


def test_a_lock_is_valid_for_its_full_time_at_most_when_the_clock_of_the_server_is_set_back(pool):
    keys = Keys("")

    def take(token):
        lock = Lock(pool=pool, key=keys.limit("concurrent", "c"), token=token, valid_s=10)
        return limits.take_lock(lock, keys, 1).taken

    set_clock(pool, START_US)
    assert take("dead")
    back = START_US - 600_000_000
    set_clock(pool, back)
    assert not take("next")
    set_clock(pool, back + 9_900_000)
    assert not take("next")
    set_clock(pool, back + 10_000_000)

    assert take("next")
