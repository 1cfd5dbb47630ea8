"""From a job that did not simply succeed to what is written of it."""

import inspect
import json
import logging

import pytest
from support.bad_payloads import raw_of
from support.runners import (
    NOW,
    end_in,
    fail,
    kept,
    ledger_end_in,
    payload,
)
from support.runners import (
    ended_in_ledger as ended,
)

from kiqbridge.client.registry import JobDefinition
from kiqbridge.engine.settle.ending import Refusal, Target


class TestTextsThatAreNoJob:
    @pytest.mark.parametrize(
        "text",
        [b"{no json", b"", b"NaN", b'{"a":"\xff"}', b"[1,2]", b'"text"', b"5", b"null", b"true"],
    )
    def test_they_are_kept_in_dead_as_arguments_of_a_job_and_not_counted(
        self, runner, text, caplog
    ):
        settlement = runner.run(text, "mail")

        assert settlement.target is Target.DEAD
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

        assert settlement.target is Target.RETRY
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
        text = payload(**{"class": "Billing::Charg"})
        settlement = runner.run(text)
        assert settlement.target is Target.RETRY
        assert kept(settlement)["error_class"] == "NameError"
        assert kept(settlement)["error_message"].startswith(
            "uninitialized constant Billing::Charg; no job named 'Billing::Charg' is declared here; did you "
            "mean Billing::Charge?"
        )
        del text["retry"]
        assert runner.run(text).target is Target.DISCARD

    @pytest.mark.parametrize("text", [{}, {"args": [], "retry": True}, {"class": None}])
    def test_a_missing_class_fails_as_a_job(self, runner, text):
        settlement = runner.run({"retry": True, **text})

        assert settlement.target is Target.RETRY
        assert kept(settlement)["error_class"] == "NameError"

    @pytest.mark.parametrize("args", [None, "text", {"a": 1}, 5])
    def test_args_that_are_no_list_fail_as_a_job(self, runner, args):
        called = []
        runner.declare(lambda *given: called.append(given))

        settlement = runner.run({**payload(), "args": args})

        assert settlement.target is Target.RETRY
        assert kept(settlement)["error_class"] == "kiqbridge.errors.PayloadError"
        message = kept(settlement)["error_message"]
        assert message.startswith(
            f"args: {args!r} is not a list; the client that pushes this job must"
        )
        assert kept(settlement)["args"] == args
        assert not called

    @pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit()])
    def test_leaving_by_an_exit_or_a_wrong_number_of_arguments_fails_as_a_job(self, runner, error):
        def leave(_one):
            raise error

        runner.declare(leave)
        for args, told in (([1], type(error).__name__), ([1, 2], "TypeError")):
            settlement = runner.run(payload(*args))
            assert settlement.target is Target.RETRY
            assert kept(settlement)["error_class"] == told

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
        ("attributes", "target"),
        [
            ({"retry": False}, Target.DISCARD),
            ({"retry": 0}, Target.DEAD),
            ({"retry": 0, "dead": False}, Target.DISCARD),
            ({"retry": None}, Target.RETRY),
        ],
    )
    def test_the_payload_decides_where_it_goes(self, runner, attributes, target):
        runner.declare(fail)
        settlement = runner.run(payload(**attributes))
        assert settlement.target is target
        assert settlement.counted
        assert target is not Target.DEAD or settlement.score == NOW

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

        assert settlement.target is Target.RETRY
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
        runner.refusal = Refusal(at=5.0)
        text = b'{"class":"Work","args":[1180591620717411303424]'
        settlement = runner.run(text + b"}")
        assert settlement.target is Target.SCHEDULE
        assert settlement.text.startswith(text + b',"jid":"')
        with_an_id = b'{ "jid" : "x", "class":"Work","args":[] }'
        assert runner.run(with_an_id).text == with_an_id


TICK = {"schedule": "shop/Nightly", "at": 1_700_000_000}


TICK = {"schedule": "shop/Nightly", "at": 1_700_000_000}


class TestTicks:
    """The job belongs to a schedule, whose ledger gets its end."""

    def test_success_leaves_its_end(self, runner):
        runner.declare(lambda: "result")
        settlement = runner.run(payload(tick=TICK, retry_count=0))
        assert settlement.target is Target.DISCARD
        assert (settlement.counted, settlement.failed) == (True, False)
        assert end_in(settlement.effects) is None
        assert ended(settlement) == ("done", "", True)
        assert ledger_end_in(settlement.effects).retries == 1

    def test_a_job_that_middleware_skips_leaves_it(self, runner):
        runner.declare(lambda: None)
        runner.middleware.add(lambda _job, _payload, _queue, _call_next: None)

        assert ended(runner.run(payload(tick=TICK))) == ("skipped", "", False)

        def test_one_that_names_no_occurrence_is_a_job_like_others(self, runner):
            runner.declare(lambda: None)
            assert runner.run(payload(tick="nonsense")) is None
