"""Sending reports: what is removed, what is put off, and what others may take."""

import json
import threading
import time

import pytest
from support.waiting import wait_until

from kiqbridge.errors import RedisUnavailable
from kiqbridge.features.step_functions.heartbeats import CallFailed, NobodyWaits, OutputRefused
from kiqbridge.features.step_functions.report import JobOutput, Task, success_report
from kiqbridge.features.step_functions.reporter import (
    BATCH,
    LONGEST_PAUSE_S,
    OLDEST_S,
    TaskReporter,
)
from kiqbridge.wire.keys import Keys

REPORTS = "kb:reports"


class Service:
    """Takes outcomes, or raises what `answers` has for the token."""

    def __init__(self):
        self.answers = {}
        self.calls = []

    def succeed(self, token, output):
        self.calls.append((token, output))
        if token in self.answers:
            raise self.answers[token]

    def fail(self, token, error, cause):
        self.succeed(token, (error, cause))


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def connection(process):
    return process.connect()


@pytest.fixture
def reporter(process, connection, service):
    return TaskReporter(keys=process.keys, connection=connection, service=service)


@pytest.fixture
def started(process, connection, service, monkeypatch):
    """Starts a reporter whose looks are noted: (it, the notes)."""

    def start(look_s):
        looks = []
        monkeypatch.setattr("kiqbridge.features.step_functions.reporter.LOOK_S", look_s)
        reporter = TaskReporter(
            keys=process.keys,
            connection=connection,
            service=service,
            on_look=lambda: looks.append(True),
        )
        reporter.start()
        return reporter, looks

    return start


def add(redis, *tokens, age_s=0.0):
    for token in tokens:
        task = Task(token=token, jid=f"j-{token}", job_class="Bill")
        redis.zadd(REPORTS, {success_report(task, JobOutput("1"), time.time() - age_s): 0})


def waiting(redis):
    """Token → seconds until it is due."""
    now = redis.time()
    at = now[0] + now[1] / 1e6
    members = redis.zrange(REPORTS, 0, -1, withscores=True)
    return {json.loads(text)["task_token"]: score - at for text, score in members}


def test_what_is_sent_is_removed(redis, reporter, service):
    add(redis, "a", "b")

    assert not reporter.look()

    assert service.calls == [("a", "1"), ("b", "1")]
    assert not redis.exists(REPORTS)
    assert reporter.sent == 2


def test_a_full_batch_may_not_be_all(redis, reporter):
    add(redis, *(f"t{number}" for number in range(BATCH + 1)))

    assert reporter.look()
    assert not reporter.look()
    assert reporter.sent == BATCH + 1


def test_one_for_which_nobody_waits_is_dropped_without_its_token_in_the_log(
    redis, reporter, service, caplog
):
    add(redis, "secret")
    service.answers["secret"] = NobodyWaits("TaskTimedOut")

    reporter.look()

    assert not redis.exists(REPORTS)
    assert "no task waits for job j-" in caplog.text
    assert '"secret"' not in caplog.text


def test_one_that_is_refused_is_put_off_and_the_others_are_sent(redis, reporter, service, caplog):
    add(redis, "a", "b", "c")
    service.answers["b"] = CallFailed("AccessDeniedException", is_service=False)

    reporter.look()

    assert [token for token, _ in service.calls] == ["a", "b", "c"]
    assert list(waiting(redis)) == ["b"]
    assert "j-b of class Bill could not be reported to Step Functions: AccessDenied" in caplog.text


def test_one_that_is_put_off_and_gone_stays_gone(redis, reporter, service, monkeypatch):
    add(redis, "a")

    def fail_once_it_is_gone(*_outcome):
        redis.delete(REPORTS)
        raise CallFailed("AccessDeniedException", is_service=False)

    monkeypatch.setattr(service, "succeed", fail_once_it_is_gone)

    reporter.look()

    assert not redis.exists(REPORTS)


def test_when_the_service_is_away_the_others_are_left_and_due_at_once(redis, reporter, service):
    add(redis, "a", "b", "c")
    service.answers["a"] = CallFailed("away", is_service=True)

    assert not reporter.look()

    assert [token for token, _ in service.calls] == ["a"]
    left = waiting(redis)
    assert sorted(left) == ["a", "b", "c"]
    assert left["a"] > left["b"]
    assert left["b"] <= 0


def test_a_service_that_is_away_is_left_in_peace_for_growing_pauses_until_it_answers(
    redis, reporter, service
):
    add(redis, "a")
    service.answers["a"] = CallFailed("away", is_service=True)
    pauses = []
    for _ in range(7):
        redis.zadd(REPORTS, dict.fromkeys(redis.zrange(REPORTS, 0, -1), 0))
        reporter.look()
        pauses.append(reporter._pause_s)
    del service.answers["a"]
    redis.zadd(REPORTS, dict.fromkeys(redis.zrange(REPORTS, 0, -1), 0))
    reporter.look()

    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    assert reporter._pause_s == 0


@pytest.mark.parametrize(("age_s", "pause_s"), [(0, 1), (20, 10), (10_000, LONGEST_PAUSE_S)])
def test_it_waits_for_half_of_its_age(redis, reporter, service, age_s, pause_s):
    add(redis, "a", age_s=age_s)
    service.answers["a"] = CallFailed("away", is_service=True)

    reporter.look()

    # The jitter is a fifth; what has passed since makes it less.
    assert pause_s * 1.25 >= waiting(redis)["a"] > pause_s * 0.8 - 5


def test_after_a_year_nobody_can_wait(redis, reporter, service, caplog):
    add(redis, "a", age_s=OLDEST_S + 60)
    service.answers["a"] = CallFailed("away", is_service=True)

    reporter.look()

    assert not redis.exists(REPORTS)
    assert "more than a year ago" in caplog.text


def test_an_output_that_is_refused_gives_way_to_one_that_says_so(redis, reporter, service):
    add(redis, "a")
    service.answers["a"] = OutputRefused("InvalidOutput")
    reporter.look()
    del service.answers["a"]

    reporter.look()

    assert json.loads(service.calls[-1][1]) == {
        "jid": "j-a",
        "omitted": "the return value was refused by Step Functions as no JSON",
    }
    assert not redis.exists(REPORTS)


def test_what_cannot_be_read_is_dropped_and_does_not_stop_the_others(
    redis, reporter, service, caplog
):
    redis.zadd(REPORTS, {'{"task_token":"secret"}': 0, "no json secret": 0})
    add(redis, "a")

    reporter.look()

    assert [token for token, _ in service.calls] == ["a"]
    assert not redis.exists(REPORTS)
    assert "secret" not in caplog.text


def test_a_removal_that_is_lost_leads_to_another_call_and_to_nothing_worse(
    redis, reporter, service, connection
):
    add(redis, "a")
    original = connection.call
    connection.call = lambda *command: lost() if command[0] == "ZREM" else original(*command)
    with pytest.raises(RedisUnavailable):
        reporter.look()
    connection.call = original
    assert waiting(redis)["a"] > 30  # others leave it alone until then
    redis.zadd(REPORTS, dict.fromkeys(redis.zrange(REPORTS, 0, -1), 0))
    service.answers["a"] = NobodyWaits("TaskTimedOut")

    reporter.look()

    assert not redis.exists(REPORTS)


def test_two_workers_do_not_send_the_same(redis, process, reporter, service):
    add(redis, "a", "b")
    other = TaskReporter(keys=process.keys, connection=process.connect(), service=service)
    original = service.succeed
    service.succeed = lambda token, output: (other.look(), original(token, output))

    reporter.look()

    assert [token for token, _ in service.calls] == ["a", "b"]


def test_a_report_that_is_written_wakes_the_thread_and_the_end_waits_for_the_last(
    redis, started, service
):
    reporter, looks = started(600)
    wait_until(lambda: looks)

    add(redis, "a")
    reporter.wake()
    wait_until(lambda: service.calls)
    add(redis, "b")
    reporter.stop(10)

    assert [token for token, _ in service.calls] == ["a", "b"]
    assert not reporter.alive


def test_a_thread_that_has_ended_goes_on_where_it_was(redis, reporter, service):
    reporter.start()
    reporter.stop(10)
    reporter._stopping.clear()
    add(redis, "a")

    reporter.restart()

    wait_until(lambda: service.calls)
    assert reporter.alive
    reporter.stop(10)


def test_a_key_of_a_foreign_type_is_reported_once(redis, started, caplog):
    redis.set(REPORTS, "text")
    reporter, looks = started(0.01)
    wait_until(lambda: len(looks) > 3)
    reporter.stop(10)

    messages = [each for each in caplog.messages if "reporting to Step Functions fails: " in each]
    assert len(messages) == 1
    assert "WRONGTYPE" in messages[0]


def test_an_outage_of_redis_ends_nothing(redis, connection, started, service):
    connection.down = True
    add(redis, "a")
    reporter, looks = started(0.01)
    wait_until(lambda: len(looks) > 2)
    connection.down = False

    wait_until(lambda: service.calls)
    reporter.stop(10)


def lost():
    raise RedisUnavailable("the reply was lost, by the test's will")


def test_while_the_beat_finds_no_reports_nothing_is_asked_for(
    redis, connection, service, monkeypatch
):
    monkeypatch.setattr("kiqbridge.features.step_functions.reporter.LOOK_S", 0.02)
    reporter = TaskReporter(keys=Keys(), connection=connection, service=service)
    looks = []
    look, reporter.look = reporter.look, lambda: looks.append("look") or look()
    reporter.note(False)
    reporter.start()
    assert not threading.Event().wait(0.2)  # ten times as long as until a look
    assert looks == []

    add(redis, "a")
    reporter.note(True)

    wait_until(lambda: reporter.sent == 1, what="the report")
    reporter.stop(5)
