"""When heartbeats of tasks are sent, with a clock that the test moves."""

import json
import logging
from types import SimpleNamespace

import pytest
from support.failing_starts import FailingStarts, assert_begins_late

from kiqbridge.engine.perform.running_job import RunningJob
from kiqbridge.features.step_functions.heartbeats import CallFailed, NobodyWaits, TaskHeartbeats


class Service:
    """Takes heartbeats, or raises `answer`."""

    def __init__(self):
        self.answer = None
        self.tokens = []

    def heartbeat(self, token):
        self.tokens.append(token)
        if self.answer is not None:
            raise self.answer


class Stand:
    def __init__(self, every_s=30):
        self.now = 1000.0
        self.service = Service()
        self.jobs = {}
        self.heartbeats = TaskHeartbeats(
            running=lambda: self.jobs,
            service=self.service,
            every_s=every_s,
            clock=lambda: self.now,
        )

    def run(self, tid="t1", **attributes):
        payload = {"class": "Bill", "args": [], "jid": "j1", **attributes}
        self.jobs[tid] = RunningJob("default", json.dumps(payload).encode(), 1.0)

    def sent_after(self, seconds):
        """How many are sent when so many more seconds have passed, looked at each second."""
        before = len(self.service.tokens)
        for _ in range(seconds):
            self.now += 1
            self.heartbeats.beat()
        return len(self.service.tokens) - before


@pytest.fixture
def stand():
    return Stand()


def test_the_first_comes_after_a_second_and_then_one_each_interval(stand):
    stand.run(task_token="t", task_heartbeat_s=10)
    assert stand.heartbeats.beat()
    assert stand.service.tokens == []
    assert [stand.sent_after(seconds) for seconds in (1, 9, 1, 30)] == [1, 0, 1, 3]
    stand = Stand()
    stand.run(task_token="t")  # has that of the setting
    stand.heartbeats.beat()
    assert stand.sent_after(61) == 3


@pytest.mark.parametrize(("every_s", "own"), [(0, {}), (30, {"task_heartbeat_s": 0})])
def test_0_means_none(every_s, own):
    stand = Stand(every_s)
    stand.run(task_token="t", **own)
    stand.heartbeats.beat()

    assert stand.sent_after(100) == 0


def test_a_job_without_task_gets_none_and_nothing_is_watched_or_started(stand):
    stand.run()
    stand.heartbeats.look()
    assert not stand.heartbeats.runs
    assert stand.heartbeats.alive
    assert not stand.heartbeats.beat()
    assert stand.sent_after(50) == 0


def test_none_comes_after_the_end_and_the_same_job_begins_anew(stand):
    stand.run(task_token="t")
    stand.heartbeats.beat()
    stand.jobs.clear()
    assert stand.sent_after(40) == 0

    stand.run(task_token="t")
    stand.heartbeats.beat()

    assert stand.sent_after(1) == 1


def test_when_nobody_waits_any_more_there_are_no_further_ones(stand, caplog):
    stand.run(task_token="secret")
    stand.heartbeats.beat()
    stand.service.answer = NobodyWaits("TaskTimedOut")

    assert stand.sent_after(100) == 1
    assert "no task waits for job j1 of class Bill any more (TaskTimedOut)" in caplog.text
    assert "secret" not in caplog.text


def test_one_that_fails_is_tried_again_after_5_s_and_logged_once_a_minute(stand, caplog):
    caplog.set_level(logging.WARNING)
    stand.run(task_token="t")
    stand.heartbeats.beat()
    stand.service.answer = CallFailed("away", is_service=True)

    assert stand.sent_after(21) == 5
    assert len(caplog.records) == 1
    stand.service.answer = None
    assert stand.sent_after(5) == 1
    assert stand.sent_after(29) == 0


def test_each_job_has_its_own(stand):
    stand.run("t1", task_token="a", task_heartbeat_s=10)
    stand.run("t2", task_token="b", task_heartbeat_s=20)
    stand.heartbeats.beat()

    stand.sent_after(41)

    assert sorted(stand.service.tokens) == ["a"] * 5 + ["b"] * 3


def test_a_thread_that_cannot_start_is_tried_again_at_the_next_look(monkeypatch, caplog):
    tokens, now = [], [1000.0]
    text = json.dumps({"class": "Bill", "args": [], "jid": "j1", "task_token": "t"}).encode()
    jobs = {"t1": RunningJob("default", text, 1.0)}
    service = SimpleNamespace(heartbeat=tokens.append)
    beats = TaskHeartbeats(running=lambda: jobs, service=service, every_s=1, clock=lambda: now[0])

    def look():
        now[0] += 1
        return tokens

    def steps():
        yield beats, beats.look
        yield look

    assert_begins_late(FailingStarts(monkeypatch), steps(), caplog)
    beats.stop(30)
