"""The beat: who watches the others, and what it brings."""

import pytest
from support.engine import EngineProcess, register, take_away
from support.waiting import wait_until

from kiqbridge.engine.inflight.beat import send_beat
from kiqbridge.store import leadership

SLOTS = ("kb:watch:1", "kb:watch:2")


@pytest.fixture
def start(redis_url):
    """`start(name)`: a registered process that beats when the test has it beat."""

    def start(name, host="host"):
        process = EngineProcess(redis_url, identity=f"{host}:{name}:abc")
        return register(process)

    return start


def beat(process, *, slot_ms=6000, groups=(), times=1, over=(b"", b"")):
    for _ in range(times):
        news = send_beat(
            process.connect(),
            process.keys,
            process.incarnation,
            process.keeper._identity,
            number=next(process.keeper._beats),
            silent_after_ms=10_000,
            slot_ms=slot_ms,
            over=over,
            groups=groups,
        )
    return news


def watchers(redis):
    """Who holds the slots, by the names that the test has given."""
    texts = redis.mget(*SLOTS)
    return [text.split()[2].split(b":")[1].decode() if text else None for text in texts]


def test_the_first_two_processes_watch_and_no_other_one(redis, start):
    processes = [start(name) for name in "abcd"]

    assert [beat(process).watches for process in processes] == [True, True, False, False]
    assert [beat(process).watches for process in processes] == [True, True, False, False]

    assert watchers(redis) == ["a", "b"]
    assert all(0 < redis.pttl(slot) <= 6000 for slot in SLOTS)


def test_a_process_holds_one_slot_at_most(redis, start):
    process = start("a")

    beat(process, times=3)

    assert watchers(redis) == ["a", None]


def test_a_slot_that_is_given_up_is_taken_by_the_next_beat(redis, start):
    a, b, c = (start(name) for name in "abc")
    for process in (a, b, c):
        beat(process)

    assert not beat(a, slot_ms=0).watches
    assert beat(c).watches

    assert watchers(redis) == ["c", "b"]


def test_a_slot_that_is_over_by_the_clock_of_another_process_is_taken_unless_it_was_renewed(
    redis, start
):
    a, b, c = (start(name) for name in "abc")
    beat(a)
    seen = beat(b).slots
    redis.pexpire(SLOTS[0], 600_000)  # as after the server's clock was set back
    redis.pexpire(SLOTS[1], 600_000)
    beat(b)

    news = beat(c, over=seen)

    assert news.watches
    assert watchers(redis) == ["c", "b"]
    assert beat(a, over=(b"", seen[1])).watches is False


def test_a_process_takes_the_slots_of_dead_ones_whose_ttl_goes_on(redis, redis_url, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(leadership.time, "monotonic", lambda: now[0])
    for slot in SLOTS:
        redis.set(slot, b"6000 7 host:dead:abc", px=600_000)
    with EngineProcess(redis_url, identity="host:third:abc") as process:
        keeper = process.keeper
        watched = []
        for _ in range(4):
            keeper._send_beat(keeper.current, slot_ms=6000)
            now[0] += 3.0
            watched.append(b"third" in b"".join(redis.mget(*SLOTS)))

    assert watched == [False, False, True, True]


def test_a_slot_of_a_dead_process_becomes_vacant_by_itself(redis, start):
    a, b, c = (start(name) for name in "abc")
    beat(a, slot_ms=50)
    beat(b)

    wait_until(lambda: beat(c).watches, what="the slot of a dead process")

    assert watchers(redis) == ["c", "b"]


def test_slots_that_are_evicted_are_taken_anew_and_whoever_lost_one_hears_it(redis, start):
    a, b, c = (start(name) for name in "abc")
    for process in (a, b):
        beat(process)
    redis.delete(SLOTS[0])

    assert beat(c).watches
    assert not beat(a).watches
    assert beat(b).watches


def test_slots_of_a_foreign_type_are_vacant(redis, start):
    redis.rpush(SLOTS[0], "somebody's list")
    redis.hset(SLOTS[1], "somebody's", "hash")

    assert [beat(start(name)).watches for name in "abc"] == [True, True, False]


def test_who_is_fenced_gets_no_slot_and_no_news(redis, start):
    process = start("a")
    take_away(process)

    assert beat(process) is None
    assert not redis.exists(*SLOTS, "kb:alive")


def test_who_is_not_registered_any_more_finds_it_out_by_its_fifth_beat(redis, start):
    process = start("a")
    redis.delete("kb:inflight")  # by somebody who left the signs of life

    assert None in [beat(process) for _ in range(5)]
    assert not redis.exists("kb:alive")


class TestWhoWatchesBest:
    """Nobody is put out of a slot before the other holder has watched for long."""

    def test_who_promised_an_earlier_recovery_takes_the_slot_of_who_did_not(self, redis, start):
        a, b, c = (start(name) for name in "abc")
        for process in (a, b):
            beat(process)
        assert not beat(c, slot_ms=400, times=5).watches

        beat(a, times=10)
        assert beat(c, slot_ms=400, times=5).watches

        assert watchers(redis) == ["a", "c"]

    def test_both_slots_go_to_the_strictest_one_after_the_other(self, redis, start):
        a, b, c, d = (start(name) for name in "abcd")
        for process in (a, b):
            beat(process, times=11)

        assert beat(c, slot_ms=5000, times=5).watches
        assert not beat(d, slot_ms=5000, times=5).watches
        beat(c, slot_ms=5000, times=10)
        assert beat(d, slot_ms=5000, times=5).watches

        assert sorted(watchers(redis)) == ["c", "d"]

    def test_another_host_takes_the_younger_slot_of_two_on_one_host(self, redis, start):
        a, b = start("a", host="one"), start("b", host="one")
        c, d = start("c", host="two"), start("d", host="two")
        beat(a)
        beat(b, times=11)
        assert beat(c, times=5).watches

        assert watchers(redis) == ["c", "b"]
        beat(c, times=11)
        assert not beat(a, times=5).watches
        assert not beat(d, times=5).watches
        assert watchers(redis) == ["c", "b"]

    def test_on_one_host_slots_stay_where_they_are(self, redis, start):
        a, b, c = (start(name) for name in "abc")
        for process in (a, b):
            beat(process, times=11)

        assert not beat(c, times=5).watches


class TestNews:
    """What else a process would have to ask for."""

    def test_of_an_empty_server(self, redis, start):
        news = beat(start("a"), groups=[["kb:suspects:default"]])

        assert news[1:-1] == (True, b"", False, b"", 0, ())
        assert news.slots == (b"", b"")
        seconds, micros = redis.time()
        assert 0 <= seconds + micros / 1_000_000 - news.server_time < 60

    def test_of_all_that_is_there(self, redis, start):
        redis.set("kb:poller", "host:9:zzz")
        redis.zadd("kb:flow:ends", {"end": 1})
        redis.zadd("kb:flow:cancelled", {"b1": 1, "b2": 2})
        redis.hset("kb:paused", mapping={"class:A": "{}", "class:B": "{}"})
        redis.rpush("kb:suspects:low", "text")
        process, default, low = start("a"), "kb:suspects:default", "kb:suspects:low"
        news = beat(process, groups=[["kb:none"], [default, low], [], [default]])

        assert news[1:-1] == (True, b"host:9:zzz", True, b"2 b2", 2, [False, True, False, False])
        assert beat(process).found == []

    def test_keys_of_foreign_types_end_no_lease(self, redis, start):
        for key in ("kb:poller", "kb:flow:ends", "kb:flow:cancelled", "kb:paused"):
            redis.sadd(key, "somebody's")

        news = beat(start("a"))

        assert news[1:-1] == (True, b"", True, b"", 0, [])
