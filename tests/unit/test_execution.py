"""Running one job: what is called with what, and what its failure asks for."""

import asyncio
import inspect
import json
import logging
import random
from types import SimpleNamespace

import pytest
from support.bad_payloads import raw_of

from kiqbridge.current import CONTEXT
from kiqbridge.errors import JobInterrupted, Shutdown
from kiqbridge.execution import JobRunner
from kiqbridge.gate import Diversion
from kiqbridge.middleware import Chain
from kiqbridge.registry import JobDefinition, Registry
from kiqbridge.retry import RetryPolicy, Verdict

NOW = 1_700_000_000.5


class Runner:
    """A runner with its registry and middleware, and the thread that runs."""

    def __init__(self, max_retries=25):
        self.registry = Registry()
        self.middleware = Chain()
        self.thread = SimpleNamespace(performing=False, interrupted=False)
        self.runner = JobRunner(
            registry=self.registry,
            middleware=self.middleware,
            policy=lambda: RetryPolicy(max_retries=max_retries, profile="7"),
            rng=random.Random(1),
            wall_now=lambda: NOW,
        )

    def declare(self, function, name="Work", **options):
        self.registry.register(
            JobDefinition(
                name=name,
                options={"retry": True, "queue": "default", **options},
                instantiate=lambda jid: SimpleNamespace(jid=jid),
                perform_of=lambda _instance: function,
                signature=inspect.signature(function),
                origin=__name__,
            )
        )

    def run(self, text, queue="default"):
        if not isinstance(text, bytes):
            text = json.dumps(text).encode()
        return self.runner.run(text, queue, self.thread)

    def close(self):
        loop = getattr(self.runner._loops, "runner", None)
        if loop is not None:
            loop.close()


@pytest.fixture
def runner():
    runner = Runner()
    yield runner
    runner.close()


def payload(*args, **attributes):
    return {"class": "Work", "args": list(args), "jid": "j1", "retry": True, **attributes}


def kept(settlement):
    return json.loads(settlement.text)


def fail(*_args):
    raise ValueError("no luck")


def interrupt():
    raise Shutdown


class TestSuccess:
    def test_the_function_gets_the_arguments_and_nothing_is_to_be_settled(self, runner):
        got = []
        runner.declare(lambda *args: got.append(args))

        assert runner.run(payload(1, "two", {"three": [3.0]})) is None
        assert got == [(1, "two", {"three": [3.0]})]

    def test_big_integers_arrive_exactly(self, runner):
        got = []
        runner.declare(got.append)

        runner.run(b'{"class":"Work","args":[1180591620717411303424],"jid":"j"}')

        assert got == [2**70]

    def test_the_thread_is_performing_only_while_user_code_runs(self, runner):
        seen = []
        runner.declare(lambda: seen.append(runner.thread.performing))
        runner.middleware.add(
            lambda _i, _p, _q, call: (seen.append(runner.thread.performing), call())
        )

        runner.run(payload())

        assert seen == [False, True]
        assert not runner.thread.performing

    def test_the_thread_is_not_performing_after_a_failure(self, runner):
        runner.declare(fail)

        runner.run(payload())

        assert not runner.thread.performing


class TestAsync:
    def test_an_async_function_is_run_to_its_end(self, runner):
        got = []

        async def work(value):
            await asyncio.sleep(0)
            got.append(value)

        runner.declare(work)

        assert runner.run(payload(1)) is None
        assert runner.run(payload(2)) is None
        assert got == [1, 2]

    def test_its_failure_is_a_failure_and_the_next_one_runs(self, runner):
        async def work(value):
            await asyncio.sleep(0)
            if value:
                raise ValueError("no luck")

        runner.declare(work)

        assert kept(runner.run(payload(1)))["error_class"] == "ValueError"
        assert runner.run(payload(0)) is None

    @pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError])
    def test_leaving_it_in_odd_ways_is_a_failure_and_the_next_one_runs(self, runner, error):
        async def work(value):
            if value:
                raise error
            await asyncio.sleep(0)

        runner.declare(work)

        assert runner.run(payload(1)).verdict is Verdict.RETRY
        assert runner.run(payload(0)) is None

    def test_its_log_lines_are_those_of_the_running_job(self, runner):
        seen = []

        async def work():
            await asyncio.sleep(0)
            seen.append(CONTEXT.get()[0]["jid"])

        runner.declare(work)
        for jid in ("first", "second"):
            runner.run(payload(jid=jid))

        assert seen == ["first", "second"]

    def test_an_interrupt_inside_it_passes(self, runner):
        async def work():
            raise Shutdown

        runner.declare(work)
        runner.thread.interrupted = True

        with pytest.raises(Shutdown):
            runner.run(payload())


class TestTextsThatAreNoJob:
    @pytest.mark.parametrize(
        "text",
        [b"{no json", b"", b"NaN", b'{"a":"\xff"}', b"[1,2]", b'"text"', b"5", b"null", b"true"],
    )
    def test_they_are_kept_in_dead_as_arguments_of_a_job_and_not_counted(
        self, runner, text, caplog
    ):
        settlement = runner.run(text, "mail")

        assert settlement.verdict is Verdict.DEAD
        assert raw_of(settlement.text) == text
        assert json.loads(settlement.text)["queue"] == "mail"
        assert settlement.score == NOW
        assert not settlement.counted
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert "a text in queue mail cannot be a job" in record.getMessage()


class TestFailure:
    def test_it_asks_for_a_retry_with_sidekiqs_fields(self, runner):
        runner.declare(fail)

        settlement = runner.run(payload(1, 2, custom={"a": 1}), "mail")

        assert settlement.verdict is Verdict.RETRY
        assert settlement.counted
        assert NOW + 15 <= settlement.score < NOW + 25
        assert kept(settlement) == {
            **payload(1, 2, custom={"a": 1}),
            "queue": "mail",
            "error_message": "no luck",
            "error_class": "ValueError",
            "failed_at": NOW,
            "retry_count": 0,
        }

    def test_an_unknown_class_is_rubys_name_error_and_is_retried(self, runner):
        runner.declare(fail, "Billing::Charge")

        settlement = runner.run(payload(**{"class": "Billing::Charg"}))

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["error_class"] == "NameError"
        assert kept(settlement)["error_message"] == (
            "uninitialized constant Billing::Charg; did you mean Billing::Charge?"
        )

    def test_an_unknown_class_without_retry_is_dropped(self, runner):
        text = payload()
        del text["retry"]

        assert runner.run(text).verdict is Verdict.DROP

    @pytest.mark.parametrize("text", [{}, {"args": [], "retry": True}, {"class": None}])
    def test_a_missing_class_fails_as_a_job(self, runner, text):
        settlement = runner.run({"retry": True, **text})

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["error_class"] == "NameError"

    @pytest.mark.parametrize("args", [None, "text", {"a": 1}, 5])
    def test_args_that_are_no_list_fail_as_a_job(self, runner, args):
        called = []
        runner.declare(lambda *given: called.append(given))

        settlement = runner.run({**payload(), "args": args})

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["error_class"] == "kiqbridge.errors.PayloadError"
        message = kept(settlement)["error_message"]
        assert message.startswith(f"args: {args!r} is not a list; whoever pushes this job must")
        assert kept(settlement)["args"] == args
        assert not called

    def test_a_wrong_number_of_arguments_fails_as_a_job(self, runner):
        runner.declare(lambda _one: None)

        settlement = runner.run(payload(1, 2))

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["error_class"] == "TypeError"

    @pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
    def test_leaving_by_an_exit_is_a_failure_of_the_job_only(self, runner, error):
        def leave():
            raise error

        runner.declare(leave)

        settlement = runner.run(payload())

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["error_class"] == type(error).__name__

    def test_a_constructor_that_raises_is_a_failure(self, runner):
        def refuse(_jid):
            raise ValueError("not built")

        runner.registry.register(
            JobDefinition(
                name="Work",
                options={"retry": True},
                instantiate=refuse,
                perform_of=lambda _instance: fail,
                signature=inspect.signature(fail),
                origin=__name__,
            )
        )

        assert kept(runner.run(payload()))["error_message"] == "not built"

    @pytest.mark.parametrize(
        ("attributes", "verdict"),
        [
            ({"retry": False}, Verdict.DROP),
            ({"retry": 0}, Verdict.DEAD),
            ({"retry": 0, "dead": False}, Verdict.DROP),
            ({"retry": 3, "retry_count": 2, "failed_at": NOW}, Verdict.DEAD),
            ({"retry": 3, "retry_count": 1, "failed_at": NOW}, Verdict.RETRY),
            ({"retry": None}, Verdict.RETRY),
        ],
    )
    def test_the_payload_decides_where_it_goes(self, runner, attributes, verdict):
        runner.declare(fail)

        settlement = runner.run(payload(**attributes))

        assert settlement.verdict is verdict
        assert settlement.counted

    def test_a_dead_job_dies_now(self, runner):
        runner.declare(fail)

        assert runner.run(payload(retry=0)).score == NOW

    def test_what_the_job_or_middleware_did_to_the_payload_does_not_reach_the_retry(self, runner):
        def spoil(values):
            values.append("spoilt by the job")
            raise ValueError("no luck")

        def meddle(_instance, seen, _queue, call_next):
            seen["spoilt"] = True
            seen["retry"] = False
            return call_next()

        runner.declare(spoil)
        runner.middleware.add(meddle)

        settlement = runner.run(payload([1]))

        assert settlement.verdict is Verdict.RETRY
        assert kept(settlement)["args"] == [[1]]
        assert "spoilt" not in kept(settlement)

    def test_values_survive_a_failure_exactly_and_in_order(self, runner):
        runner.declare(fail)
        text = (
            '{"z":1e400,"class":"Work","args":[18446744073709551616,1.0,-0.0,"\\u2028🎈",{},[]],'
            '"retry":true,"queue":"default","a":null}'
        ).encode()

        before = json.loads(text, object_pairs_hook=list)
        after = json.loads(runner.run(text).text, object_pairs_hook=list)

        assert repr(after[: len(before)]) == repr(before)


class TestMiddleware:
    def test_it_wraps_the_job_the_first_one_outermost(self, runner):
        order = []

        def around(name):
            def wrap(instance, seen, queue, call_next):
                order.append((name, instance.jid, seen["class"], queue))
                result = call_next()
                order.append(name)
                return result

            return wrap

        runner.declare(lambda: order.append("perform"))
        runner.middleware.add(around("outer"))
        runner.middleware.add(around("inner"))

        assert runner.run(payload(), "mail") is None
        assert order == [
            ("outer", "j1", "Work", "mail"),
            ("inner", "j1", "Work", "mail"),
            "perform",
            "inner",
            "outer",
        ]

    def test_one_that_does_not_call_on_skips_the_job_which_counts_as_done(self, runner, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")
        called = []
        runner.declare(lambda: called.append(1))
        runner.middleware.add(lambda *_args: None)

        assert runner.run(payload()) is None
        assert not called
        assert caplog.messages == ["start", "done"]

    def test_its_failure_is_the_jobs(self, runner):
        def refuse(*_args):
            raise PermissionError("not today")

        runner.declare(lambda: None)
        runner.middleware.add(refuse)

        assert kept(runner.run(payload()))["error_class"] == "PermissionError"

    def test_arguments_it_changed_reach_the_job(self, runner):
        got = []

        def change(_instance, seen, _queue, call_next):
            seen["args"] = [2]
            return call_next()

        runner.declare(got.append)
        runner.middleware.add(change)

        runner.run(payload(1))

        assert got == [2]


class TestShutdown:
    def test_an_interrupt_passes_and_asks_for_nothing(self, runner, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")
        runner.thread.interrupted = True

        runner.declare(interrupt)

        with pytest.raises(Shutdown):
            runner.run(payload())
        assert caplog.messages == ["start", "interrupted: given back"]
        assert CONTEXT.get() is None

    def test_a_job_that_raises_it_uninterrupted_has_failed(self, runner):
        runner.declare(interrupt)

        settlement = runner.run(payload())

        assert settlement.verdict is Verdict.RETRY
        assert json.loads(settlement.text)["error_class"] == "kiqbridge.errors.Shutdown"

    def test_a_job_that_makes_room_without_saved_progress_has_failed(self, runner):
        def work():
            raise JobInterrupted

        runner.declare(work)

        assert runner.run(payload()).verdict is Verdict.RETRY

    def test_an_error_that_the_interrupt_caused_is_the_interrupt(self, runner):
        runner.thread.interrupted = True

        def work():
            try:
                interrupt()
            except Shutdown as error:
                raise RuntimeError("rolled back") from error

        def clean_up_badly():
            try:
                interrupt()
            finally:
                fail()

        runner.declare(work)
        runner.declare(clean_up_badly, "CleanUp")

        with pytest.raises(Shutdown):
            runner.run(payload())
        with pytest.raises(Shutdown):
            runner.run(payload(**{"class": "CleanUp"}))

    def test_a_job_cannot_swallow_it_with_except_exception(self, runner):
        def work():
            try:
                interrupt()
            except Exception:  # noqa: BLE001 - what many a job does
                return

        runner.thread.interrupted = True
        runner.declare(work)

        with pytest.raises(Shutdown):
            runner.run(payload())


class TestLog:
    @pytest.fixture(autouse=True)
    def at_info(self, caplog):
        caplog.set_level(logging.INFO, "kiqbridge")

    def test_a_job_that_succeeds_says_start_and_done(self, runner, caplog):
        runner.declare(lambda: None)

        runner.run(payload())

        assert caplog.messages == ["start", "done"]
        assert caplog.records[1].elapsed == round(caplog.records[1].elapsed, 3) >= 0

    def test_a_job_that_fails_says_start_and_fail_and_why(self, runner, caplog):
        runner.declare(fail)

        runner.run(payload())

        assert caplog.messages[:2] == ["start", "fail"]
        assert caplog.messages[2].startswith("ValueError: no luck; it is tried again in ")
        assert caplog.records[2].levelno == logging.WARNING
        assert caplog.records[2].exc_info[0] is ValueError

    @pytest.mark.parametrize(
        ("retry", "words"),
        [(0, "it is dead, no tries are left"), (False, "it is dropped")],
    )
    def test_it_says_what_becomes_of_the_job(self, runner, caplog, retry, words):
        runner.declare(fail)

        runner.run(payload(retry=retry))

        assert words in caplog.messages[2]

    def test_lines_that_the_job_logs_know_the_job(self, runner):
        seen = []
        runner.declare(lambda: seen.append(CONTEXT.get()))

        runner.run(payload(), "mail")

        assert seen == [(payload(), "mail")]
        assert CONTEXT.get() is None


class TestJobsWithoutAnId:
    """Twins among them would be one member of a sorted set; so each gets an id on its way there."""

    @pytest.mark.parametrize("missing", [{}, {"jid": None}, {"jid": ""}])
    def test_one_that_fails_gets_an_id_and_keeps_all_else(self, runner, missing):
        runner.declare(fail)
        text = {"class": "Work", "args": [1.5, "x"], "custom": {"a": 1}, **missing}

        first, second = (kept(runner.run(text)) for _ in range(2))

        assert len(first["jid"]) == 24
        assert first["jid"] != second["jid"]
        assert {**first, "jid": None}.items() >= {**text, "jid": None}.items()

    def test_one_that_is_put_off_gets_an_id_and_keeps_all_else(self, runner):
        runner.runner._gate = lambda _payload: Diversion(at=5.0)

        settlement = runner.run(b'{"class":"Work","args":[1180591620717411303424]}')

        assert settlement.verdict is Verdict.SCHEDULE
        assert settlement.text.startswith(
            b'{"class":"Work","args":[1180591620717411303424],"jid":"'
        )

    def test_one_that_is_put_off_with_an_id_keeps_its_bytes(self, runner):
        runner.runner._gate = lambda _payload: Diversion(at=5.0)
        text = b'{ "jid" : "x", "class":"Work","args":[] }'

        assert runner.run(text).text == text
