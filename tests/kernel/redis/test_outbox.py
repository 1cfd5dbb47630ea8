"""Ends of jobs under flow control: written where their jobs are settled, applied once."""

import dataclasses
import json
import threading

import pytest
from support.waiting import wait_until

from kiqbridge.api import RetrySet, open_operator
from kiqbridge.engine.outbox.outbox import Outbox
from kiqbridge.store.effects import Effect
from kiqbridge.store.outbox import apply_ends, take_ends
from kiqbridge.wire.flow_mark import FlowEnd

END = FlowEnd(flow={"mark": "f"}, jid="b1", job_class="Bill", outcome="done", at=5.0)


def push_effect(client, queue, text, at=None):
    """The push of a prepared job, as the steps of a chain write it."""
    keys = client.keys
    where = [keys.queues, keys.queue(queue), keys.schedule]
    return Effect("push", where, [queue, "" if at is None else repr(at), text])


def report(end, _client):
    """A maker, of an effect that adds to a sorted set."""
    return [Effect("add", ["kb:noted"], [0, end.report])] if end.report else []


@pytest.fixture
def outbox(client):
    def push_next(end, client):
        return [push_effect(client, "low", b'{"after":"%s"}' % end.jid.encode())]

    return Outbox(client, client.pool.connection(), makers=(report, push_next))


def leave(redis, end):
    redis.zadd("kb:flow:ends", {end.to_text(): 0})


def test_an_end_is_applied_and_removed_in_one_step(outbox, redis):
    leave(redis, END)

    assert not outbox.look()

    assert redis.lrange("queue:low", 0, -1) == [b'{"after":"b1"}']
    assert redis.smembers("queues") == {b"low"}
    assert not redis.exists("kb:flow:ends")
    assert outbox.applied == 1


def test_the_second_of_two_workers_does_nothing(client, redis):
    leave(redis, END)
    effects = [push_effect(client, "low", b"{}")]

    answers = [
        apply_ends(client.pool.connection(), client.keys, [(END.to_text(), effects)]) for _ in "12"
    ]

    assert answers == [[[1]], [None]]
    assert redis.llen("queue:low") == 1


def test_what_one_worker_takes_others_leave_alone_for_a_while(client, redis):
    leave(redis, END)
    connection = client.pool.connection()

    assert take_ends(connection, client.keys, most=10, for_s=60) == [END.to_text()]
    assert take_ends(connection, client.keys, most=10, for_s=60) == []
    redis.zadd("kb:flow:ends", {END.to_text(): 0})
    assert take_ends(connection, client.keys, most=10, for_s=60) == [END.to_text()]


def test_who_waits_for_what_an_effect_writes_is_woken(client, redis):
    woken = []
    outbox = Outbox(client, client.pool.connection(), makers=(report,))
    outbox.on_write["kb:noted"] = lambda: woken.append(True)
    leave(redis, FlowEnd(flow={"a": 1}, jid="b", job_class="B", outcome="done", at=1, report="{}"))

    outbox.look()

    assert redis.zrange("kb:noted", 0, -1) == [b"{}"]
    assert woken == [True]


def test_a_push_for_later_goes_to_the_scheduled_set(client, redis):
    leave(redis, END)

    effects = [push_effect(client, "low", b"{}", at=99.5)]
    apply_ends(client.pool.connection(), client.keys, [(END.to_text(), effects)])

    assert redis.zrange("schedule", 0, -1, withscores=True) == [(b"{}", 99.5)]


def test_what_is_no_end_is_dropped_and_holds_up_nothing(outbox, redis, caplog):
    redis.zadd("kb:flow:ends", {'{"flow":{},"report":"a secret token"': 0})
    leave(redis, END)

    outbox.look()

    assert redis.llen("queue:low") == 1
    assert not redis.exists("kb:flow:ends")
    assert "cannot be read" in caplog.text

    assert "secret" not in caplog.text


def test_ends_that_wait_together_are_applied_in_one_script(client, process, redis):
    def passes(end, client):
        return [Effect("add", ["kb:noted"], [0, end.jid])]

    connection = process.connect()
    outbox = Outbox(client, connection, makers=(passes,))
    for number in range(20):
        leave(redis, dataclasses.replace(END, jid=f"b{number:02}"))

    outbox.look()

    assert redis.zrange("kb:noted", 0, -1) == [b"b%02d" % number for number in range(20)]
    assert outbox.applied == 20
    assert connection.scripts == 2  # they are taken, and applied


def test_an_effect_that_raises_is_tried_again_and_others_are_applied(client, redis, caplog):
    def fails(end, client):
        if end.jid == "b1":
            raise ValueError("middleware")
        return [Effect("add", ["kb:noted"], [0, "r"])]

    outbox = Outbox(client, client.pool.connection(), makers=(fails,))
    leave(redis, END)
    leave(redis, FlowEnd(flow={"a": 1}, jid="b2", job_class="B", outcome="done", at=1))

    outbox.look()

    assert redis.zrange("kb:flow:ends", 0, -1) == [END.to_text()]
    assert redis.zcard("kb:noted") == 1
    assert "tried again" in caplog.text


def test_with_a_key_of_another_type_the_end_stays_and_holds_up_no_other(outbox, redis, caplog):
    redis.set("kb:noted", "foreign")
    reported = dataclasses.replace(END, jid="b2", report="{}")
    leave(redis, reported)
    leave(redis, END)

    outbox.look()

    assert redis.get("kb:noted") == b"foreign"
    assert redis.zrange("kb:flow:ends", 0, -1) == [reported.to_text()]
    assert redis.lrange("queue:low", 0, -1) == [b'{"after":"b1"}']
    assert "WRONGTYPE" in caplog.text and "is tried again" in caplog.text

    redis.delete("kb:noted")
    leave(redis, reported)  # as if its time had come
    outbox.look()

    assert redis.zrange("kb:noted", 0, -1) == [b"{}"]
    assert redis.llen("queue:low") == 2
    assert not redis.exists("kb:flow:ends")


def test_what_an_operator_deletes_or_kills_has_an_end(client, redis):
    payload = {"class": "Bill", "args": [], "jid": "b1", "queue": "low", "flow": {"bid": "f"}}
    redis.zadd("retry", {json.dumps(payload): 5, json.dumps({**payload, "jid": "b2"}): 6})
    retries = RetrySet(open_operator(client=client, by="ann"))

    retries.find_job("b1").delete()
    retries.find_job("b2").kill()

    ends = [FlowEnd.from_text(text) for text in redis.zrange("kb:flow:ends", 0, -1)]
    assert sorted((end.jid, end.outcome) for end in ends) == [("b1", "discarded"), ("b2", "dead")]
    assert redis.zcard("dead") == 1
    assert not redis.exists("kb:noted")


def test_an_end_of_a_feature_that_is_not_here_waits_for_a_worker_that_has_it(
    outbox, redis, caplog, monkeypatch
):
    monkeypatch.setattr("kiqbridge.seams.missing", lambda: {"flow.mark": "marks"})
    leave(redis, END)
    leave(redis, dataclasses.replace(END, flow={}, jid="b2", report="{}"))

    outbox.look()

    assert redis.zrange("kb:flow:ends", 0, -1) == [END.to_text()]
    assert redis.zcard("kb:noted") == 1
    [said] = outbox.troubles
    assert "it has flow.mark, and this worker lacks the feature marks; start a worker" in said
    assert said in caplog.text


@pytest.fixture
def counting(client):
    """An outbox that looks often, and how often it has looked."""
    outbox, looks = Outbox(client, client.pool.connection(), makers=(), look_s=0.02), []
    look, outbox.look = outbox.look, lambda: looks.append("look") or look()
    yield outbox, looks
    outbox.stop()


def test_while_the_beat_finds_no_ends_nothing_is_asked_for(counting, redis):
    outbox, looks = counting
    outbox.note(ends=False, cancelled=b"")
    redis.config_resetstat()
    outbox.start()
    assert not threading.Event().wait(0.2)  # ten times as long as until a look
    assert looks == []
    assert "cmdstat_zrange" not in redis.info("commandstats")

    leave(redis, END)
    outbox.note(ends=True, cancelled=b"")

    wait_until(lambda: outbox.applied == 1, what="the end")


def test_an_end_of_its_own_is_applied_whatever_the_beat_found(counting, redis):
    outbox, _ = counting
    outbox.note(ends=False, cancelled=b"")
    outbox.start()
    leave(redis, END)

    outbox.wake()

    wait_until(lambda: outbox.applied == 1, what="the end")


def test_without_a_beat_it_looks_by_itself(counting, redis):
    outbox, looks = counting

    outbox.start()

    wait_until(lambda: len(looks) >= 3, what="three looks")
