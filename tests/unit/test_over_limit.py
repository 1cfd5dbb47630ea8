"""A job that ends with OverLimit is put off, has not failed, and keeps its retries."""

import json
import random

import pytest
from support.runners import NOW, kept, payload

from kiqbridge.client.registry import Handling
from kiqbridge.errors import OverLimit
from kiqbridge.settle.over_limit import COUNT, LONGEST_S, MOST_S, delay_s, may_be_put_off, put_off
from kiqbridge.settle.settlement import Verdict


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

        assert settlement.verdict is Verdict.SCHEDULE
        assert settlement.goes_on
        assert not settlement.counted
        assert settlement.notify is None
        assert kept(settlement) == {**job, COUNT: 1}
        assert NOW + 15 <= settlement.score <= NOW + 22.5

    def test_it_says_so_once_and_not_as_a_failure(self, runner, caplog):
        caplog.set_level("INFO")
        runner.declare(raises(over_limit(limiter="erp")))

        runner.run(payload(7))

        messages = [each.getMessage() for each in caplog.records]
        assert messages[0] == "start"
        assert "put off for" in messages[1]
        assert messages[2:] == ["over limit"]

    def test_after_the_last_time_it_is_an_error_like_others(self, runner):
        runner.declare(raises(over_limit(max_put_offs=2)))

        settlement = runner.run(payload(7, **{COUNT: 2}))

        assert settlement.verdict is Verdict.RETRY
        assert settlement.counted
        assert settlement.failed
        assert kept(settlement)["error_class"] == "kiqbridge.errors.OverLimit"
        assert kept(settlement)["retry_count"] == 0

    def test_a_job_without_an_id_or_a_queue_gets_them(self, runner):
        runner.declare(raises(over_limit()))

        settlement = runner.run({"class": "Work", "args": []}, "low")

        assert len(kept(settlement)["jid"]) == 24
        assert kept(settlement)["queue"] == "low"


class TestWhetherAJobIsPutOff:
    def test_a_rule_of_its_class_for_this_error_counts_instead(self):
        assert not may_be_put_off(
            payload(), over_limit(), Handling(on_error={OverLimit: "discard"})
        )

    @pytest.mark.parametrize("rules", [{}, {Exception: "discard"}, {OSError: "kill"}])
    def test_rules_for_failures_do_not(self, rules):
        assert may_be_put_off(payload(), over_limit(), Handling(on_error=rules))

    @pytest.mark.parametrize("count", ["", None, [], "x", -5, {}])
    def test_a_count_that_is_no_number_is_none(self, count):
        assert may_be_put_off(payload(**{COUNT: count}), over_limit(max_put_offs=1), None)


class TestTheDelay:
    def test_it_doubles_up_to_a_quarter_of_an_hour(self):
        assert [delay_s(count, 15) for count in (0, 1, 2, 5, 6, 7, 1000)] == [
            15,
            30,
            60,
            480,
            900,
            900,
            900,
        ]
        assert LONGEST_S == 900

    def test_a_limiter_may_ask_for_more(self):
        assert delay_s(3, 3600) == 3600

    def test_it_is_not_shorter_than_the_time_until_there_is_room(self):
        _, at = put_off(
            payload(), over_limit(wait_s=5000.0), queue="default", now=NOW, rng=random.Random(1)
        )

        assert NOW + 5000 <= at <= NOW + 7500

    def test_jobs_that_are_put_off_together_come_back_apart(self):
        rng = random.Random(1)

        times = [
            put_off(payload(), over_limit(), queue="q", now=NOW, rng=rng)[1] for _ in range(50)
        ]

        assert len(set(times)) == 50

    @pytest.mark.parametrize("value", ["soon", None, -1, float("nan"), float("inf"), 10**400, True])
    def test_what_a_job_has_put_into_its_own_error_gives_a_score(self, value):
        error = over_limit(wait_s=value, put_off_s=value)

        kept, at = put_off(payload(), error, queue="q", now=NOW, rng=random.Random(1))

        assert NOW < at <= NOW + 1.5 * MOST_S
        json.dumps(kept, allow_nan=False)
