"""Reads are shared: one a second for each key, one at a time, failures not kept."""

import threading

import pytest
from support.waiting import wait_until

from kiqbridge.web.cache import Cache


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_value_is_loaded_once_a_second_for_each_key():
    clock, loaded = Clock(), []
    cache = Cache(clock)

    def load():
        loaded.append(clock.now)
        return len(loaded)

    assert [cache.get("a", load), cache.get("a", load), cache.get("b", load)] == [1, 1, 2]
    clock.now += 0.999
    assert cache.get("a", load) == 1
    clock.now += 0.001
    assert cache.get("a", load) == 3


def test_many_threads_that_ask_at_once_cause_one_reading():
    clock, begun, release, loaded = Clock(), threading.Event(), threading.Event(), []
    cache = Cache(clock)

    def load():
        begun.set()
        assert release.wait(10)
        loaded.append(1)
        return "read"

    values = []
    threads = [
        threading.Thread(target=lambda: values.append(cache.get("a", load))) for _ in range(30)
    ]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    release.set()
    for thread in threads:
        thread.join(10)

    assert values == ["read"] * 30
    assert loaded == [1]


def test_a_slow_reading_holds_up_no_other_key():
    release, cache, done = threading.Event(), Cache(Clock()), []
    slow = threading.Thread(target=lambda: cache.get("slow", lambda: release.wait(10)))
    slow.start()

    quick = threading.Thread(target=lambda: done.append(cache.get("quick", lambda: 1)))
    quick.start()

    wait_until(lambda: done == [1])
    release.set()
    slow.join(10)
    quick.join(10)


def test_a_failed_reading_is_made_again_by_the_next_who_asks():
    cache = Cache(Clock())

    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)

    assert cache.get("a", lambda: 7) == 7


def test_no_more_is_kept_than_asked_for_and_what_is_asked_for_often_stays():
    cache = Cache(Clock(), max_kept=2)

    for key in "ab", "a", "c", "a", "d":
        for each in key:
            cache.get(each, lambda each=each: each)

    assert len(cache) == 2
    assert cache.get("a", lambda: "anew") == "a"
    assert cache.get("c", lambda: "anew") == "anew"


def test_after_clear_everything_is_read_anew():
    cache = Cache(Clock())
    cache.get("a", lambda: 1)

    cache.clear()

    assert cache.get("a", lambda: 2) == 2
