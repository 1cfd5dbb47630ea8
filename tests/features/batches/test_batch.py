"""Batches as users make and read them; what befalls their jobs is in test_batches_model.py."""

import json
import time

import pytest
from support.jobs import own_declarations

from kiqbridge import Client, PayloadError, job
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.job_handle import JobHandle
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.errors import BatchError, JobFailed, ResultTimeout
from kiqbridge.features.batches.ops import make_op, write_ops
from kiqbridge.flow import Batch, BatchSet, call, chain, current_batch, group
from kiqbridge.wire.flow_mark import FlowEnd


@pytest.fixture(scope="module")
def jobs():
    with own_declarations():

        @job(name="BatchTestSend")
        def send(number: int, copy: bool = False) -> None: ...

        @job(name="BatchTestReport", queue="low")
        def report(text: str) -> None: ...

        yield send, report


@pytest.fixture
def send(jobs, client, monkeypatch):
    monkeypatch.setattr("kiqbridge.client.default_client._default", client)
    return jobs[0]


@pytest.fixture
def report(jobs, send):
    return jobs[1]


@pytest.fixture
def outbox(client):
    return Outbox(client, client.pool.connection())


@pytest.fixture
def end(redis, outbox):
    def leave(payload, outcome="done", output=None):
        end = FlowEnd(
            flow=payload["flow"],
            jid=payload["jid"],
            job_class=payload["class"],
            outcome=outcome,
            at=time.time(),
            output=output,
        )
        redis.zadd("kb:flow:ends", {end.to_text(): 0})
        while redis.exists("kb:flow:ends"):
            outbox.look()

    return leave


@pytest.fixture
def pushed(redis):
    def read(queue="default"):
        return [json.loads(text) for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]

    return read


class TestMaking:
    def test_what_is_pushed_within_the_block_is_written_at_its_end(self, send, pushed, redis):
        with Batch(description="invoices") as batch:
            jid = send.perform_async(1)
            send.perform_in(60, 2)
            send.set(queue="low").perform_async(3)
            send.perform_bulk([[4], [5]])
            assert not redis.keys("*")

        status = batch.status()
        assert (status.total, status.pending, status.description) == (5, 5, "invoices")
        assert [each["args"] for each in pushed()] == [[1], [4], [5]]
        assert [each["args"] for each in pushed("low")] == [[3]]
        assert redis.zcard("schedule") == 1
        assert redis.smembers("queues") == {b"default", b"low"}
        assert type(jid) is JobHandle and pushed()[0]["jid"] == jid
        assert all(each["flow"] == {"bid": batch.bid} for each in pushed())
        assert not any("bid" in each for each in pushed())  # that would be Sidekiq Pro's

    def test_a_block_that_raises_writes_nothing(self, send, redis):
        def fill():
            with Batch():
                send.perform_async(1)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fill()

        assert not redis.keys("*")
        assert send.perform_async(2)

    def test_another_clients_pushes_are_no_part_of_it(self, send, redis, redis_url):
        other = Client(redis_url)
        with Batch() as batch:
            other.push({"class": "X", "args": []})
            assert redis.llen("queue:default") == 1
        other.close()

        assert batch.status().total == 0

    def test_what_middleware_stops_does_not_count(self, send, client, monkeypatch):
        monkeypatch.setattr(client, "middleware", client.middleware.copy())
        client.middleware.add(lambda _class, _payload, _queue, _next: None)

        with Batch() as batch:
            assert send.perform_async(1) is None

        assert batch.status().total == 0
        assert chain(call(send, 1)).perform_async() is None

    def test_one_of_many_jobs_is_written_by_bounded_scripts(self, send, redis):
        with Batch() as batch:
            send.perform_bulk([[number] for number in range(2_500)])

        assert batch.status().total == redis.llen("queue:default") == 2_500
        assert not batch.status().is_open

    def test_a_repeated_script_pushes_nothing_twice(self, send, client, redis):
        with Batch() as batch:
            send.perform_async(1)
            ops = list(batch._ops())
            write_ops(client, ops, "batch")

        assert redis.llen("queue:default") == batch.status().total == 1

    def test_an_empty_batch_succeeds_at_once(self, send, report, outbox, pushed):
        with Batch(on_success=call(report, "done"), on_complete=call(report, "ended")) as batch:
            pass
        outbox.look()

        assert batch.status().success
        assert sorted(each["args"] for each in pushed("low")) == [["done"], ["ended"]]

    def test_the_same_block_twice_and_an_add_without_one_are_refused(self, send):
        batch = Batch()
        with pytest.raises(BatchError, match="within `with batch:`"):
            batch.add(send, 1)
        with batch, pytest.raises(BatchError, match="being filled"), batch:
            pass

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"bid": "../x"}, "24 hex digits"),
            ({"on_success": "Report"}, "neither a job nor a call"),
            ({"bid": "a" * 24, "on_success": None, "description": "x"}, "belong to a new batch"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments, said):
        with pytest.raises(PayloadError, match=said):
            Batch(**arguments)


class TestRunning:
    def test_a_job_adds_to_its_batch(self, send, client, pushed, end, redis):
        with Batch() as batch:
            send.perform_async(1)
        token = CONTEXT.set((pushed()[0], "default"))
        try:
            assert current_batch().bid == batch.bid
            current_batch().add(send, 2, copy=True)
        finally:
            CONTEXT.reset(token)
        assert current_batch() is None

        for payload in pushed():
            end(payload)
        assert (batch.status().total, batch.status().success) == (2, True)
        with pytest.raises(BatchError, match="has succeeded"):
            batch.add(send, 3)

    def test_a_callback_is_about_its_batch(self, send, report, pushed, end):
        with Batch(on_death=call(report, "alas")) as batch:
            send.perform_async(1)
        end(pushed()[0], "dead")

        [callback] = pushed("low")
        token = CONTEXT.set((callback, "low"))
        try:
            assert (current_batch().bid, current_batch().event) == (batch.bid, "death")
        finally:
            CONTEXT.reset(token)
        assert callback["args"] == ["alas"]
        assert batch.failed_jids() == [pushed()[0]["jid"]]
        assert batch.status().complete
        assert not batch.status().success

    def test_a_cancelled_batch_adds_nothing_and_its_children_neither(self, send, client, outbox):
        with Batch() as outer, Batch() as inner:
            send.perform_async(1)
        outer.cancel()
        outer.cancel()
        outbox.look_at_barriers()

        [barrier] = outbox.up
        assert barrier.bids == {outer.bid, inner.bid}
        with pytest.raises(BatchError, match="cancelled"):
            outer.add(send, 1)

    def test_one_that_its_maker_left_open_can_be_closed(self, send, client):
        batch = Batch("a" * 24, client=client)
        write_ops(client, [make_op(client.keys, batch.bid)], "batch")
        batch.add(send, 1)
        assert batch.status().is_open

        batch.close()
        assert not batch.status().is_open
        assert len(batch.pending_jids()) == 1

    def test_what_is_gone_is_said(self, send, client):
        gone = Batch("b" * 24)
        for act in (gone.status, gone.cancel, gone.close, lambda: gone.add(send, 1)):
            with pytest.raises(BatchError, match="no such batch"):
                act()
        assert gone.failed_jids() == []

    def test_all_are_listed_and_forgotten_some_time(self, send, client, redis):
        for _ in range(3):
            with Batch() as batch:
                send.perform_async(1)
        redis.delete(f"kb:flow:batch:{batch.bid}")

        assert len(BatchSet()) == 3
        assert [status.done for status in BatchSet(client)] == [0, 0]
        with Batch() as batch:
            pass
        assert 0 < redis.ttl(f"kb:flow:batch:{batch.bid}") <= 30 * 86_400


class TestChains:
    def test_each_is_pushed_when_the_one_before_is_done(self, send, pushed, end, redis):
        jid = chain(call(send, 1), call(send, 2), chain(call(send, 3))).perform_async()

        assert [each["args"] for each in pushed()] == [[1]]
        assert pushed()[0]["jid"] == jid
        end(pushed()[0], "dead")
        assert len(pushed()) == 1
        end(pushed()[0])
        end(pushed()[0])  # it ran twice
        assert [each["args"] for each in pushed()] == [[1], [2]]
        end(pushed()[1])
        assert [each["args"] for each in pushed()] == [[1], [2], [3]]
        status = Batch(pushed()[2]["flow"]["bid"]).status()
        assert (status.kind, status.total, status.done, status.pending) == ("chain", 3, 2, 1)
        end(pushed()[2])
        assert Batch(status.bid).status().state == "succeeded"
        assert 0 < redis.ttl(f"kb:flow:batch:{status.bid}") <= 86_400

    def test_the_value_of_one_is_the_first_argument_of_the_next(self, send, pushed, end):
        last = call(send.set(queue="low"), copy=True)
        chain(call(send, 1), call(send), last, pass_result=True).perform_async()
        end(pushed()[0], output='{"big":18446744073709551617}')

        assert pushed()[1]["args"] == [{"big": 18446744073709551617}]
        end(pushed()[1], output="7")
        assert pushed("low")[0]["args"] == [7, True]
        with pytest.raises(PayloadError, match="lacks an argument"):
            chain(call(send, 1), call(send)).perform_async()

    def test_a_value_without_text_ends_the_chain(self, send, pushed, end, caplog):
        with Batch() as batch:
            chain(call(send, 1), send, pass_result=True).perform_async()
        end(pushed()[0], output=None)

        assert len(pushed()) == 1
        assert "no JSON text" in caplog.text
        assert (batch.status().failed, batch.status().complete) == (1, True)

    def test_a_handle_says_how_far_it_is_and_what_ended_it(self, send, client, pushed, end):
        flow = chain(call(send, 1), call(send, 2)).perform_async()
        with Batch() as batch:
            within = chain(call(send, 3), call(send, 4)).perform_async()
            assert within.status() == "unknown"  # it is not written yet
            send.perform_async(5)
        assert (flow.status(), within.status(), within.bid) == ("running", "running", batch.bid)
        with pytest.raises(ResultTimeout, match="it has not ended"):
            flow.wait(0)
        end(pushed()[0], "dead")
        end(pushed()[1])

        assert (flow.status(), within.status()) == ("failed", "running")
        with pytest.raises(JobFailed) as failed:
            flow.result()
        assert failed.value.jid == flow
        with pytest.raises(ResultTimeout, match="not all of its jobs"):
            batch.wait(0)
        batch.cancel()
        assert within.wait() == "cancelled"
        assert batch.wait().state == "cancelled"

    def test_a_group_with_then_and_groups_within_groups(self, send, report, pushed, end):
        bid = group(call(send, 1), group(call(send, 2)), then=call(report, "all")).perform_async()

        end(pushed()[1])
        assert Batch(bid).status().pending == 1
        end(pushed()[0])
        assert [each["args"] for each in pushed("low")] == [["all"]]
        assert Batch(bid).status().success

    @pytest.mark.parametrize(
        ("make", "said"),
        [
            (chain, "has no jobs"),
            (lambda: chain("Mail"), "neither a job nor a call"),
            (lambda: call(7), "no declared job"),
            (lambda: group(*[None] * 1_001), "more than 1,000"),
        ],
    )
    def test_what_is_no_job_is_refused(self, make, said):
        with pytest.raises(PayloadError, match=said):
            make()

    def test_steps_that_no_job_could_carry_are_refused(self, send, report, redis):
        with pytest.raises(PayloadError, match="more than the 90,000"):
            chain(call(send, 1), call(report, "x" * 100_000)).perform_async()

        assert not redis.keys("*")

    def test_middleware_that_stops_the_next_one_ends_the_chain(
        self, send, client, pushed, end, caplog
    ):
        with Batch() as batch:
            chain(call(send, 1), call(send, 2)).perform_async()
        client.middleware.add(lambda _class, _payload, _queue, _next: None)
        end(pushed()[0])

        assert "its chain ends" in caplog.text
        assert not batch.status().success
        assert batch.status().complete

    def test_what_somebody_else_wrote_into_a_mark_is_not_begun(self, redis, outbox, end, caplog):
        end({"class": "X", "jid": "j", "flow": {"next": {"steps": 7}, "bid": "../../x"}})

        assert "cannot be read" in caplog.text
        assert not redis.keys("*")


class TestResultsOfAGroup:
    def test_the_job_behind_it_gets_them_in_the_order_of_the_group(
        self, send, report, pushed, end, redis
    ):
        members = call(send, 1), chain(call(send, 2), call(send, 3)), call(send, 4)
        bid = group(*members, then=report, pass_results=True).perform_async()
        first, second, third = pushed()
        end(third, output='{"z":"\u00e9"}')
        end(second, output='"none of its last job"')
        end(first, output="[18446744073709551617]")
        assert not pushed("low")
        end(pushed()[-1], output="null")

        assert pushed("low")[0]["args"] == [[[18446744073709551617], None, {"z": "é"}]]
        assert not [each for each in redis.hkeys(f"kb:flow:batch:{bid}") if b"result" in each]
        assert Batch(bid).status().refused == ""

    @pytest.mark.parametrize(
        "spoiled",
        [
            ([None, "1"], "job 1 of it returned is encrypted, or has no JSON text"),
            ([f'"{"x" * 200_000}"', f'"{"y" * 70_000}"'], "more than 262,144 bytes"),
        ],
    )
    def test_what_cannot_be_kept_is_refused_and_said(self, report, pushed, end, caplog, spoiled):
        outputs, said = spoiled
        with Batch() as batch:
            members = call(report, "1"), call(report, "2")
            group(*members, then=report, pass_results=True).perform_async()
        for payload, output in zip(pushed("low"), outputs, strict=True):
            end(payload, output=output)

        assert len(pushed("low")) == 2
        assert said in caplog.text
        group_ = next(each for each in BatchSet() if each.parent)
        assert said in group_.refused
        status = batch.status()
        assert (status.complete, status.success, status.failed) == (True, False, 1)

    def test_what_has_no_job_behind_it_or_no_result_is_refused(self, send, report):
        results = group(call(send, 1), pass_results=True)
        for flow, said in (
            (results, "give then="),
            (chain(results, group(call(send, 2))), "and not a group"),
            (group(results, then=report), "give then="),
            (group(group(call(send, 1)), then=report, pass_results=True), "ends with a job"),
        ):
            with pytest.raises(PayloadError, match=said):
                flow.perform_async()
        with pytest.raises(PayloadError, match="lacks an argument"):
            group(call(send, 1), then=call(send)).perform_async()
