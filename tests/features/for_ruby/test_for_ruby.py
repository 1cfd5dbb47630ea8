"""What contrib/ruby/kiqbridge.rb asks for and reads; it itself is in tests/interop/test_kiqbridge_rb.py."""

import json

import pytest

from kiqbridge import Schedule, Schedules
from kiqbridge.features.for_ruby.chores import ForRuby


@pytest.fixture
def schedules(client):
    schedules = Schedules(client)
    schedules.save(Schedule("hourly", "Report", every=3600))
    return schedules


def ask(redis, **request):
    redis.lpush("kb:schedules:requests", json.dumps(request))


def test_requests_are_carried_out_in_their_order(redis, client, schedules):
    ask(redis, do="pause", name="hourly", by="ann", reason="moving")
    ask(redis, do="run", name="hourly", by="ann")

    ForRuby(client).take_requests(client.pool.connection())

    pause = schedules.get("hourly").state.paused
    assert (pause.by, pause.reason) == ("ruby:ann", "moving")
    [entry] = redis.zrange("kb:ticks:hourly", 0, -1)
    assert json.loads(entry)["by"] == "ruby:ann"
    ask(redis, do="resume", name="hourly")
    ForRuby(client).take_requests(client.pool.connection())
    assert schedules.get("hourly").state.paused is None


def test_one_that_cannot_be_is_logged_and_the_next_one_is(redis, client, schedules, caplog):
    for text in ("{", "[]", '{"do":"drop","name":"hourly"}', '{"do":"run","name":"unknown"}'):
        redis.lpush("kb:schedules:requests", text)
    ask(redis, do="pause", name="hourly")

    ForRuby(client).take_requests(client.pool.connection())

    assert caplog.text.count("was not carried out") == 4
    assert schedules.get("hourly").state.paused
    assert not redis.exists("kb:schedules:requests")


def test_the_next_occurrence_of_each_is_written_once_until_one_is_over(redis, client, schedules):
    for_ruby, connection = ForRuby(client), client.pool.connection()

    for_ruby.publish_next(connection)

    now = redis.time()[0]
    assert now < int(redis.hget("kb:schedules:next", "hourly")) <= now + 3600
    redis.delete("kb:schedules:next")
    for_ruby.publish_next(connection)
    assert not redis.exists("kb:schedules:next")
