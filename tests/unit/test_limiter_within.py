"""Entering a limit: who waits, for how long, and who leaves."""

import asyncio
import threading

import pytest

from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.errors import OverLimit, RedisUnavailable
from kiqbridge.flow.limiter import Patience
from kiqbridge.flow.limiter_within import Within, unlimited
from kiqbridge.store.limits import Answer


class Attempt:
    """Answers what the test has put down."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.left = 0
        self.threads = set()

    def take(self):
        self.threads.add(threading.get_ident())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def leave(self):
        self.left += 1

    def correct(self, points):
        self.left += points


class Limit:
    kind = "window"
    name = "erp"

    def __init__(self, attempt, wait_timeout_s=30.0):
        self.made = attempt
        self.patience = Patience(wait_timeout_s=wait_timeout_s, put_off_s=7.0, max_put_offs=3)

    def place(self):
        return None

    def attempt(self, place, amount):
        return self.made


NO = Answer(False, 0.001)
YES = Answer(True)


async def enter(within):
    async with within:
        return


class TestOnAThread:
    def test_it_asks_until_there_is_room_and_leaves_once(self):
        attempt = Attempt(NO, NO, YES)

        with Within(Limit(attempt), 1.0):
            assert attempt.left == 0

        assert attempt.answers == []
        assert attempt.left == 1

    def test_who_would_wait_in_vain_does_not_wait(self):
        attempt = Attempt(Answer(False, 3600.0), YES)
        with pytest.raises(OverLimit, match=r"erp \(window\) is at its limit") as raised:
            Within(Limit(attempt), 1.0).__enter__()
        assert attempt.answers == [YES]
        assert attempt.left == 1
        terms = {"limiter": "erp", "wait_s": 3600.0, "put_off_s": 7.0, "max_put_offs": 3}
        assert raised.value.terms() == terms
        with pytest.raises(OverLimit):
            Within(Limit(Attempt(Answer(False)), wait_timeout_s=0), 1.0).__enter__()

    def test_in_a_worker_that_stops_nobody_waits(self):
        runtime = Runtime(
            client=None,
            redis=None,
            is_stopping=lambda: True,
            timeout_s=25,
            max_iteration_runtime_s=None,
        )
        token = RUNTIME.set(runtime)
        try:
            with pytest.raises(OverLimit):
                Within(Limit(Attempt(NO, YES)), 1.0).__enter__()
        finally:
            RUNTIME.reset(token)

    def test_an_attempt_whose_reply_is_lost_is_given_up(self):
        attempt = Attempt(RedisUnavailable("gone"))

        with pytest.raises(RedisUnavailable):
            Within(Limit(attempt), 1.0).__enter__()

        assert attempt.left == 1

    def test_it_is_entered_once_and_points_are_corrected_within(self):
        attempt = Attempt(YES)
        within = Within(Limit(attempt), 1.0)
        with pytest.raises(TypeError, match="within the limit"):
            within.points_used(3)
        with within:
            within.points_used(3)
            assert attempt.left == 3
            with pytest.raises(RuntimeError, match="entered before"):
                within.__enter__()

    def test_in_a_test_without_redis_nothing_is_limited(self):
        attempt = Attempt(Answer(False, 3600.0))

        with unlimited(), Within(Limit(attempt), 1.0) as used:
            used.points_used(5)
            asyncio.run(enter(Within(Limit(attempt), 1.0)))

        assert len(attempt.answers) == 1
        with pytest.raises(OverLimit):
            Within(Limit(attempt), 1.0).__enter__()


class TestOnALoop:
    def test_a_thread_asks_while_the_loop_goes_on(self):
        attempt = Attempt(NO, YES, Answer(False, 3600.0))
        asyncio.run(enter(Within(Limit(attempt), 1.0)))
        assert threading.get_ident() not in attempt.threads
        assert attempt.left == 1
        with pytest.raises(OverLimit):
            asyncio.run(enter(Within(Limit(attempt), 1.0)))
        assert attempt.left == 2

    def test_who_is_cancelled_while_a_thread_asks_leaves_what_that_got(self):
        asked, answer = threading.Event(), threading.Event()
        attempt = Attempt()

        def take():
            asked.set()
            answer.wait(60)
            attempt.left -= 1  # one is held
            return YES

        attempt.take = take

        async def cancel():
            task = asyncio.create_task(enter(Within(Limit(attempt), 1.0)))
            await asyncio.to_thread(asked.wait, 60)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            answer.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())

        assert attempt.left == 0
