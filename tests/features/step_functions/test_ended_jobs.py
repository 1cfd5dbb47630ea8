"""What a job that a state machine waits for owes it when it ends."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.runners import (
    NOW,
    RunnerStand,
    ends_among,
    fail,
    kept,
    payload,
)
from support.runners import (
    ended_in_ledger as ended,
)

from kiqbridge.api import Queue
from kiqbridge.client.server import Server
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.engine.settle.ending import Refusal, Target
from kiqbridge.errors import JobRefused


def report_in(effects):
    """What Step Functions is to get."""
    [end] = [end for end in ends_among(effects) if end.report]
    return json.loads(end.report)


TICK = {"schedule": "shop/Nightly", "at": 1_700_000_000}


class TestTasks:
    """A state machine waits for the job."""

    def test_success_asks_for_its_report_in_the_place_of_the_job(self, runner):
        runner.declare(lambda value: {"got": value})

        settlement = runner.run(payload(7, task_token="t"))

        assert settlement.target is Target.DISCARD
        assert (settlement.counted, settlement.failed) == (True, False)
        assert settlement.score == 0  # due at once, whatever clocks say
        assert report_in(settlement.effects) == {
            "task_token": "t",
            "jid": "j1",
            "class": "Work",
            "at": NOW,
            "output": '{"got":7}',
        }

    @pytest.mark.parametrize("has_middleware", [False, True])
    def test_so_it_is_on_an_event_loop_with_result_and_tick(self, runner, has_middleware):
        async def work(value):
            await asyncio.sleep(0)
            return [value]

        runner.declare(work)
        if has_middleware:
            runner.middleware.add(lambda _job, _payload, _queue, call_next: call_next())
        for awaited in ({"task_token": "t"}, {"flow": {"result_ttl_s": 60}}):
            text = json.dumps(payload(7, tick=TICK, **awaited)).encode()
            with ThreadPoolExecutor() as executor:
                execution = runner.runner.read(text, "default")
                settlement = asyncio.run(runner.runner.perform_async(execution, executor))
            assert settlement.target is Target.DISCARD
            [end] = ends_among(settlement.effects)
            assert (end.output or json.loads(end.report)["output"]) == "[7]"
            assert ended(settlement) == ("done", "", True)

    def test_what_middleware_answers_or_takes_out_changes_no_report(self, runner):
        def replace(_job, given, _queue, call_next):
            given["task_token"] = "other"
            return call_next() and "other"

        runner.declare(lambda: "the job's")
        runner.middleware.add(replace)
        report = report_in(runner.run(payload(task_token="t")).effects)
        assert (report["output"], report["task_token"]) == ('"the job\'s"', "t")

    @pytest.mark.parametrize("options", [{"retry": False}, {"retry": 0, "dead": False}])
    def test_what_is_discarded_is_reported_and_its_handlers_are_called(self, options):
        died = []
        server = Server()
        server.death_handler(lambda given, error: died.append((given["jid"], str(error))))
        stand = RunnerStand(server=server)
        stand.declare(fail)

        settlement = stand.run(payload(task_token="t", **options))
        settlement.notify()

        assert settlement.target is Target.DISCARD
        assert settlement.failed
        assert report_in(settlement.effects)["error"] == "ValueError"
        assert died == [("j1", "no luck")]

    @pytest.mark.parametrize("token", [None, "", 5, "t" * 2049])
    def test_what_cannot_be_a_token_is_logged_and_the_job_is_done(self, runner, token, caplog):
        runner.declare(lambda: None)

        assert runner.run(payload(task_token=token)) is None

        assert "task_token is no text of 1 to 2048 characters" in caplog.text
        assert "ttt" not in caplog.text


REFUSED = Refusal(error=JobRefused("not here"))


class TestBoth:
    """A state machine waits for the job, and it belongs to a schedule."""

    @pytest.mark.parametrize(
        ("options", "refusal", "target", "told"),
        [
            ({"retry": 0}, None, Target.DEAD, ("dead", "ValueError")),
            ({"retry": False}, None, Target.DISCARD, ("discarded", "ValueError")),
            ({"retry": 0, "dead": False}, None, Target.DISCARD, ("discarded", "ValueError")),
            ({}, REFUSED, Target.DEAD, ("dead", "kiqbridge.errors.JobRefused")),
        ],
    )
    def test_both_get_to_know_how_it_ended(self, runner, options, refusal, target, told):
        runner.declare(fail)
        runner.refusal = refusal
        settlement = runner.run(payload(tick=TICK, task_token="t", **options))
        assert (settlement.target, settlement.failed) == (target, True)
        assert report_in(settlement.effects)["error"] == told[1]
        assert ended(settlement) == (*told, refusal is None)
        if target is Target.DEAD:
            assert kept(settlement)["class"] == "Work"

    def test_a_retry_tells_neither(self, runner):
        runner.declare(fail)
        settlement = runner.run(payload(tick=TICK, task_token="t"))
        assert (settlement.target, settlement.effects) == (Target.RETRY, ())
        assert kept(settlement).items() >= {"tick": TICK, "task_token": "t"}.items()

    @pytest.mark.parametrize("refusal", [Refusal(at=NOW + 60), Refusal(queue="ruby")])
    def test_a_job_that_goes_elsewhere_tells_neither(self, runner, refusal):
        runner.refusal = refusal
        assert runner.run(payload(tick=TICK, task_token="t")).effects == ()


def test_its_end_and_that_of_its_flow_go_to_the_outbox_apart(runner):
    runner.declare(lambda value: value)

    task, flow = ends_among(runner.run(payload(7, flow={"bid": "f3"}, task_token="t")).effects)[
        ::-1
    ]

    assert (flow.flow, flow.report, flow.output) == ({"bid": "f3"}, "", None)
    assert (task.flow, json.loads(task.report)["output"]) == ({}, "7")


def test_one_that_an_operator_clears_is_reported(redis, operator):
    operator.client.push({"class": "Task", "args": [], "task_token": "t" * 20})

    assert Queue("default", operator).clear() == 1
    outbox = Outbox(operator.client, operator.pool.connection())
    while outbox.look():
        pass

    [report] = redis.zrange("kb:reports", 0, -1)
    assert b"ann (via web) cleared" in report
