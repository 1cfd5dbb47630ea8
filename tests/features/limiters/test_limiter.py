"""Limits: which there are, who waits to enter and who leaves, and jobs that end over one."""

import asyncio
import json
import os
import threading
import time
from types import SimpleNamespace

import pytest
from support.failing_starts import FailingStarts, assert_begins_late
from support.jobs import own_declarations
from support.runners import NOW, kept, payload

from kiqbridge import ConfigError, job
from kiqbridge.client.current import RUNTIME, Runtime
from kiqbridge.client.registry import Handling
from kiqbridge.engine.settle.ending import Target
from kiqbridge.engine.settle.retry import put_off_after
from kiqbridge.errors import OverLimit, RedisUnavailable
from kiqbridge.features.limiters.known import LONGEST_S, delay_s
from kiqbridge.features.limiters.locks import Held, Keeper
from kiqbridge.features.limiters.over_limit import MOST_S, put_off
from kiqbridge.features.limiters.store import COUNT, Answer
from kiqbridge.features.limiters.within import Patience, Within, unlimited
from kiqbridge.flow import limiter
from kiqbridge.testing import fake


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

    def entry(self, amount):
        return self.made


NO = Answer(False, 0.001)
YES = Answer(True)


async def enter(within):
    async with within:
        return


class TestOnAThread:
    def test_it_asks_until_there_is_room_and_leaves_once_also_if_a_reply_is_lost(self):
        attempt = Attempt(NO, NO, YES, RedisUnavailable("gone"))
        with Within(Limit(attempt), 1.0):
            assert attempt.left == 0
        assert attempt.left == 1
        with pytest.raises(RedisUnavailable):
            Within(Limit(attempt), 1.0).__enter__()
        assert attempt.answers == []
        assert attempt.left == 2

    def test_who_would_wait_in_vain_does_not_wait(self):
        attempt = Attempt(Answer(False, 3600.0), YES)
        with pytest.raises(OverLimit, match=r"erp \(window\) is at its limit") as raised:
            Within(Limit(attempt), 1.0).__enter__()
        assert attempt.answers == [YES]
        assert attempt.left == 1
        terms = {"limiter": "erp", "kind": "window"}
        terms |= {"wait_s": 3600.0, "put_off_s": 7.0, "max_put_offs": 3}
        assert vars(raised.value) == terms
        with pytest.raises(OverLimit):
            Within(Limit(Attempt(Answer(False)), wait_timeout_s=0), 1.0).__enter__()

    def test_in_a_worker_that_stops_nobody_waits(self):
        options = {"timeout_s": 25, "max_iteration_runtime_s": None}
        runtime = Runtime(client=None, redis=None, is_stopping=lambda: True, **options)
        token = RUNTIME.set(runtime)
        try:
            with pytest.raises(OverLimit):
                Within(Limit(Attempt(NO, YES)), 1.0).__enter__()
        finally:
            RUNTIME.reset(token)

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


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: limiter.concurrent("", 5), "name is not a text of 1 to 200"),
        (lambda: limiter.concurrent("a\nb", 5), "printable"),
        (lambda: limiter.concurrent("x" * 201, 5), "200"),
        (lambda: limiter.concurrent("erp", 0), "limit 0 is not a whole number of at least 1"),
        (lambda: limiter.concurrent("erp", 1.5), "limit 1.5 is not a whole number"),
        (lambda: limiter.concurrent("erp", True), "limit True"),
        (
            lambda: limiter.concurrent("erp", 5, lock_timeout_s=0),
            "lock_timeout_s 0 is not a number",
        ),
        (lambda: limiter.concurrent("erp", 5, wait_timeout_s=-1), "wait_timeout_s -1"),
        (lambda: limiter.concurrent("erp", 5, put_off_s=0), "put_off_s 0 is not a number above 0"),
        (lambda: limiter.concurrent("erp", 5, max_put_offs=-1), "max_put_offs -1"),
        (lambda: limiter.window("s", 5, per="fortnight"), "none of second, minute, hour, day"),
        (lambda: limiter.window("s", 5, per=0), "per 0 is not a number of at least 0.001"),
        (lambda: limiter.bucket("s", 5, per=float("inf")), "per inf"),
        (lambda: limiter.leaky("s", 0, per="second"), "size 0 is not a number above 0"),
        (lambda: limiter.points("s", 40, refill_per_s=0), "refill_per_s 0 is not a number above 0"),
        (lambda: limiter.points("s", "40", refill_per_s=1), "points '40' is not a number"),
        (
            lambda: limiter.points("s", 40, refill_per_s=1).within_limit(estimate=41),
            "estimate 41 is more than its 40 points",
        ),
    ],
)
def test_a_number_that_cannot_be_used_is_named(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("per", "seconds"), [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86400), (2.5, 2.5)]
)
def test_intervals_have_names_or_are_seconds(per, seconds):
    assert limiter.window("s", 5, per=per).interval_s == seconds
    assert limiter.leaky("s", 5, per=per).rate == 5 / seconds


def test_a_limiter_says_which_one_it_is():
    assert repr(limiter.points("shopify", 40, refill_per_s=2)) == "<limiter points shopify>"


def over_limit(**attributes):
    error = OverLimit("full")
    vars(error).update(attributes)
    return error


def raises(error):
    def work(*_args):
        raise error

    return work


class TestInARunner:
    def test_it_goes_to_schedule_uncounted_with_its_failures_as_they_were(self, runner):
        runner.declare(raises(over_limit()))
        job = payload(7, retry_count=3, error_class="OSError", queue="low")

        settlement = runner.run(job, "low")

        assert settlement.target is Target.SCHEDULE
        assert settlement.goes_on
        assert not settlement.counted
        assert settlement.notify is None
        assert kept(settlement) == {**job, COUNT: 1}
        assert NOW + 15 <= settlement.score <= NOW + 22.5

    def test_it_says_so_once_and_not_as_a_failure_also_without_an_id_or_a_queue(
        self, runner, caplog
    ):
        caplog.set_level("INFO")
        runner.declare(raises(over_limit(limiter="erp")))
        settlement = runner.run({"class": "Work", "args": []}, "low")
        first, second, *rest = caplog.messages
        assert (first, rest) == ("start", ["over limit"])
        assert "put off for" in second
        assert len(kept(settlement)["jid"]) == 24
        assert kept(settlement)["queue"] == "low"

    def test_after_the_last_time_it_is_an_error_like_others(self, runner):
        runner.declare(raises(over_limit(max_put_offs=2)))

        settlement = runner.run(payload(7, **{COUNT: 2}))

        assert settlement.target is Target.RETRY
        assert settlement.counted
        assert settlement.failed
        assert kept(settlement)["error_class"] == "kiqbridge.errors.OverLimit"
        assert kept(settlement)["retry_count"] == 0


class TestWhetherAJobIsPutOff:
    @pytest.mark.parametrize(
        ("rules", "may"),
        [
            ({OverLimit: "discard"}, False),
            ({}, True),
            ({Exception: "discard"}, True),
            ({OSError: "kill"}, True),
        ],
    )
    def test_a_rule_of_its_class_for_this_error_counts_instead(self, rules, may):
        text = json.dumps(payload()).encode()
        later = put_off_after(
            text, over_limit(), SimpleNamespace(handling=Handling(on_error=rules))
        )
        assert (later is not None) is may

    @pytest.mark.parametrize("count", ["", None, [], "x", -5, {}])
    def test_a_count_that_is_no_number_is_none(self, count):
        assert put_off(payload(**{COUNT: count}), over_limit(max_put_offs=1)).attributes == {
            COUNT: 1
        }


class TestTheDelay:
    def test_it_doubles_up_to_a_quarter_of_an_hour_unless_a_limiter_asks_for_more(self):
        delays = [delay_s(count, 15) for count in (0, 1, 2, 5, 6, 7, 1000)]
        assert delays == [15, 30, 60, 480, 900, 900, 900]
        assert LONGEST_S == 900
        assert delay_s(3, 3600) == 3600

    def test_it_is_not_shorter_than_the_time_until_there_is_room_and_each_job_has_its_own(
        self, runner
    ):
        runner.declare(raises(over_limit(wait_s=5000.0)))
        times = [runner.run(payload()).score for _ in range(50)]
        assert len(set(times)) == 50
        assert all(NOW + 5000 <= at <= NOW + 7500 for at in times)

    @pytest.mark.parametrize("value", ["soon", None, -1, float("nan"), float("inf"), 10**400, True])
    def test_what_a_job_has_put_into_its_own_error_gives_a_score(self, runner, value):
        runner.declare(raises(over_limit(wait_s=value, put_off_s=value)))

        settlement = runner.run(payload())

        assert NOW < settlement.score <= NOW + 1.5 * MOST_S
        json.dumps(kept(settlement), allow_nan=False)


def test_a_lock_is_renewed_as_soon_as_the_thread_for_it_can_start(monkeypatch, caplog):
    def steps():
        keeper, held = Keeper(), Held(None, os.getpid(), time.monotonic() + 1000)
        yield keeper._thread, lambda: keeper.put(held)
        yield lambda: held in keeper._renewed

    assert_begins_late(FailingStarts(monkeypatch), steps(), caplog)


def test_with_fake_a_job_over_a_limit_is_put_off_and_has_not_failed():
    with own_declarations(), fake() as jobs:

        @job(limiter=limiter.window("bank", 1, per="minute"))
        def charge():
            pass

        jobs.clock.freeze(at=2_000_000_000)
        charge.perform_async()
        charge.perform_async()
        jobs.drain()
        assert [each.outcome for each in jobs.performed] == ["done", "put off"]
        assert (len(jobs.scheduled), jobs.retries) == (1, [])

        jobs.clock.move(minutes=10)
        jobs.drain()
        assert jobs.performed[-1].outcome == "done"


def test_an_option_of_another_library_is_answered_with_the_limiter():
    with pytest.raises(ConfigError, match=r"did you mean limiter=limiter\.concurrent\(NAME, N\)"):
        job(concurrency=1)(print)
