"""Jobs of schedules when they begin and end, as a worker process sees them."""

import random
import time
from types import SimpleNamespace

import pytest
from support.runners import end_in, ledger_end_in, make_runner
from support.waiting import wait_until

from kiqbridge import RedisUnavailable
from kiqbridge.client.registry import Registry
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.perform.gate import Gate
from kiqbridge.engine.perform.run_marks import RunMarks
from kiqbridge.engine.settle.ending import Target
from kiqbridge.wire.json_text import dumps

NOW = int(time.time())


@pytest.fixture(autouse=True)
def now():
    """The clock of the machine may have been set since this file was imported."""
    globals()["NOW"] = int(time.time())


@pytest.fixture
def marks(process):
    marks = RunMarks(
        process.keys, connect=process.connect, identity="host:1:aaa", cancel=lambda _jid: None
    )
    yield marks
    marks.stop(5.0)


def execution(jid="j1", at=None, overlap="skip", **more):
    tick = {"schedule": "s", "at": at or NOW, "overlap": overlap, **more.pop("tick", {})}
    payload = {"class": "A", "args": [], "jid": jid, "tick": tick, **more}
    return Execution(dumps(payload), "default", payload, None)


@pytest.fixture
def gate(marks):
    return Gate(
        paused=SimpleNamespace(classes=frozenset()),
        declared=(),
        foreign_jobs="refuse",
        unknown_class="retry",
        rng=random.Random(1),
        asks=[marks.ask],
    )


@pytest.fixture
def begin(gate, process):
    """What becomes of a job that is to begin; None: it begins."""
    runner = make_runner(Registry(), gate=gate)

    def begin(execution, *, connection=None, owner=process.incarnation):
        return runner.begin(execution, connection or process.connect(), owner)

    return begin


def lines(redis):
    return (redis.hget("kb:runs", "s") or b"").decode().splitlines()


def test_a_job_without_a_policy_asks_redis_nothing(begin):
    nobody = SimpleNamespace(script=None)

    assert begin(execution(overlap="allow"), connection=nobody) is None
    assert begin(Execution(b"", "q", {"tick": 7}, None), connection=nobody) is None


def test_the_one_that_is_skipped_leaves_redis_with_its_end(process, redis, caplog, begin):
    caplog.set_level("INFO")
    assert begin(execution()) is None

    settlement = begin(execution("j2", NOW + 60))

    assert (settlement.target, settlement.counted, settlement.failed) == (
        Target.DISCARD,
        True,
        False,
    )
    end = ledger_end_in(settlement.effects)
    assert (end.jid, end.at, end.outcome, end.took_s) == ("j2", NOW + 60, "skipped", None)
    assert "not performed: job j1 of its schedule s still runs (overlap: skip)" in caplog.text
    assert lines(redis) == [f"{process.incarnation} j1 {NOW}"]


def test_the_one_that_is_too_old_is_expired_but_no_retry_of_it(begin):
    late = {"overlap": "allow", "tick": {"max_age_s": 60}}

    settlement = begin(execution(at=NOW - 100, **late))

    assert ledger_end_in(settlement.effects).outcome == "expired"
    assert begin(execution(at=NOW - 100, **late, retry_count=0)) is None


def test_whoever_waits_for_it_gets_its_end(begin):
    begin(execution())

    settlement = begin(execution("j2", NOW + 60, flow={"bid": "f"}))

    assert end_in(settlement.effects).error.endswith("JobSkipped")


@pytest.mark.parametrize("has_connection", [True, False])
def test_a_run_that_has_ended_is_no_overlap(process, redis, has_connection, begin):
    first = execution()
    begin(first)

    first.run.end(is_over=True, connection=process.connect() if has_connection else None)

    assert begin(execution("j2", NOW + 60)) is None  # at once, in this process
    wait_until(lambda: lines(redis) == [f"{process.incarnation} j2 {NOW + 60}"], 10)


def test_the_thread_tries_until_redis_is_back(marks, process, redis, monkeypatch, begin):
    first, connection = execution(), process.connect()
    begin(first)
    connection.down = True
    tries = []
    monkeypatch.setattr(marks, "_connect", lambda: connection)
    write = marks._write_ended

    def count(connection):
        tries.append(connection)
        write(connection)

    monkeypatch.setattr(marks, "_write_ended", count)

    first.run.end(is_over=True)
    wait_until(lambda: tries, 10)
    assert lines(redis)
    connection.down = False

    wait_until(lambda: not redis.exists("kb:runs"), 10)


def test_one_that_goes_on_later_is_no_overlap_and_does_not_expire(process, redis, begin):
    first = execution(tick={"max_age_s": 86_400})
    begin(first)

    first.run.end(is_over=False, connection=process.connect())

    assert lines(redis) == [f"- j1 {NOW}"]


def test_a_job_that_was_taken_away_from_a_thread_that_hangs_is_no_overlap(
    marks, process, redis, begin
):
    first = execution()
    begin(first)

    marks.taken(b'{"class":"other"}')
    marks.taken(execution("j7").text)
    assert begin(execution("j2", NOW + 60)) is not None
    marks.taken(first.text)

    assert begin(execution("j2", NOW + 60)) is None
    first.run.end(is_over=True, connection=process.connect())  # the thread comes back after all
    assert f"{process.incarnation} j2 {NOW + 60}" in lines(redis)


def test_a_key_of_another_type_stops_no_job_and_is_logged(redis, caplog, begin, gate):
    redis.set("kb:runs", "foreign")

    assert begin(execution()) is None

    assert "beginning jobs of schedules under their rules of overlap and age" in caplog.text
    assert gate.troubles


def test_while_redis_is_away_nothing_begins(process, begin):
    connection = process.connect()
    connection.down = True

    with pytest.raises(RedisUnavailable):
        begin(execution(), connection=connection)


def test_a_popped_job_is_marked_with_the_process(redis, begin):
    redis.sadd("processes", "host:1:aaa")

    begin(execution(), owner="")

    assert lines(redis) == [f"host:1:aaa j1 {NOW}"]
    assert begin(execution("j2", NOW + 60)) is not None
