"""Unique jobs of schedules: their lock, and what of the schedule runs, are asked for together."""

import random
from types import SimpleNamespace

from support.runners import end_in, make_runner

from kiqbridge.client.registry import Registry
from kiqbridge.engine.perform.execution import Execution
from kiqbridge.engine.perform.gate import Gate, asks_of
from kiqbridge.engine.perform.run_marks import RunMarks
from kiqbridge.store.redis_connection import RedisConnection
from kiqbridge.wire.json_text import dumps


def execution(jid, at):
    tick = {"schedule": "s", "at": at, "overlap": "skip"}
    flow = {"lock": "A:1", "until": "done", "take": 60}
    payload = {"class": "A", "args": [], "jid": jid, "tick": tick, "flow": flow}
    return Execution(dumps(payload), "default", payload, None)


def test_they_are_asked_for_in_one_call_up_to_the_first_that_says_no(process, redis, monkeypatch):
    marks = RunMarks(process.keys, connect=process.connect, identity="host:1:aaa", cancel=print)
    gate = Gate(
        paused=SimpleNamespace(classes=frozenset()),
        declared=(),
        foreign_jobs="refuse",
        unknown_class="retry",
        rng=random.Random(1),
        asks=[*asks_of(process.keys), marks.ask],
    )
    runner, connection, asked = make_runner(Registry(), gate=gate), process.connect(), []
    ask = RedisConnection.script
    monkeypatch.setattr(RedisConnection, "script", lambda *a, **k: asked.append(a) or ask(*a, **k))

    begun = runner.begin(execution("j1", 1_700_000_000), connection, process.incarnation)
    left = runner.begin(execution("j2", 1_700_000_060), connection, process.incarnation)

    assert (begun, len(asked)) == (None, 2)
    assert end_in(left.effects).message == "job j1 has its lock A:1 (unique)"
    assert redis.hget("kb:runs", "s").decode().split()[1:] == ["j1", "1700000000"]
