"""contrib/ruby/kiqbridge.rb: our locks, spans and pauses in Ruby, and the schedules in Sidekiq's Web UI."""

import json
import threading
from pathlib import Path

import pytest
from support.ruby import RubySidekiq, run_ruby
from support.waiting import wait_until
from support.web_ui import WebUI

from kiqbridge import Client, Schedule, Schedules
from kiqbridge.client.unique import Throttle, Unique
from kiqbridge.clocks.for_ruby import ForRuby
from kiqbridge.clocks.placing import place_due

pytestmark = [pytest.mark.interop, pytest.mark.web_ui, pytest.mark.operation("kiqbridge.rb")]

DIRECTION = "Ruby and Python take the same locks"

FILE = Path(__file__).parents[2] / "contrib" / "ruby" / "kiqbridge.rb"
JOBS = f"""
require {json.dumps(str(FILE))}
Kiqbridge.install

class Bill
  include Sidekiq::Worker
  sidekiq_options kiqbridge: {{ unique: {{ until: "done" }} }}, retry: 0

  def perform(*args)
    raise "no such bill" if args == ["fail"]
  end
end

class Note
  include Sidekiq::Worker
  sidekiq_options kiqbridge: {{ throttle: {{ limit: 2, per: 3600 }} }}

  def perform(*); end
end

class Later
  include Sidekiq::Worker
  sidekiq_options kiqbridge: {{ throttle: {{ per: 3600, over: "later" }} }}

  def perform(*); end
end
"""
ARGS = [7, "é", 1.5, None, {"b": [True], "a": {"d": 1, "c": "x/y"}}]


@pytest.fixture(autouse=True)
def empty(redis):
    redis.flushall()


@pytest.fixture
def ruby(redis_url):
    return lambda script, given=None: run_ruby(JOBS + script, redis_url, given=given)


@pytest.fixture
def client(redis_url):
    client = Client(redis_url)
    yield client
    client.close()


@pytest.fixture
def sidekiq(redis_url):
    with RubySidekiq(JOBS, redis_url) as sidekiq:
        sidekiq.wait_ready()
        yield sidekiq


def python_push(client, *args, job="Bill", **options):
    rule = options or {"unique": Unique()}
    return client.push({"class": job, "args": list(args), "retry": 0, **rule})


def waiting(redis):
    return [json.loads(text) for text in redis.lrange("queue:default", 0, -1)]


def test_the_lock_of_ruby_is_that_of_python(redis, client, ruby):
    first = ruby("answer(Bill.perform_async(*GIVEN))", ARGS)

    assert python_push(client, *ARGS) is None
    assert ruby("answer(Bill.perform_async(*GIVEN))", ARGS) is None
    [of_ruby] = waiting(redis)
    assert of_ruby["jid"] == first
    assert "kiqbridge" not in of_ruby
    [name] = redis.hkeys("kb:locks")
    redis.flushall()
    python_push(client, *ARGS)
    [of_python] = waiting(redis)
    assert redis.hkeys("kb:locks") == [name]
    assert of_python["flow"] == of_ruby["flow"] == {"lock": name.decode(), "until": "done"}
    assert ruby("answer(Bill.perform_async(*GIVEN))", ARGS) is None


def test_a_lock_counts_from_the_time_of_the_job_and_is_looked_at(redis, ruby):
    ruby("answer(Bill.perform_in(1000, 1))")

    [until] = redis.hvals("kb:locks")
    now = redis.time()[0]
    assert abs(float(until.split()[0]) - (now + 1000 + 30 * 86_400)) < 30
    [(_, look)] = redis.zrange("kb:locks:look", 0, -1, withscores=True)
    assert abs(look - (now + 600)) < 30


def test_what_is_done_about_a_conflict(redis, ruby):
    script = """
    first = Bill.perform_async(1)
    Bill.sidekiq_options kiqbridge: { unique: { on_conflict: "replace" } }
    second = Bill.perform_async(1)
    Bill.sidekiq_options kiqbridge: { unique: { on_conflict: "raise", until: "start" } }
    begin
      Bill.perform_async(1)
    rescue Kiqbridge::NotUnique => error
      answer([first, second, error.message])
    end
    """
    first, second, message = ruby(script)

    assert message == f"Bill: {second} has its lock"
    assert redis.zrange("kb:replaced", 0, -1) == [first.encode()]
    assert redis.hvals("kb:locks")[0].split()[1] == second.encode()


ACTIVE_JOB = """
require "active_job"
ActiveJob::Base.queue_adapter = :sidekiq
ActiveJob::Base.logger = Logger.new(nil)

class Close < ActiveJob::Base
  include Sidekiq::Worker::Options
  sidekiq_options kiqbridge: { unique: { by: [0] } }

  def perform(*); end
end
"""


def test_the_lock_of_an_active_job_is_that_of_its_own_arguments(redis, ruby):
    ruby(
        ACTIVE_JOB
        + "Close.perform_later(1, 2); Close.perform_later(1, 3); Close.perform_later(2, 2); answer(1)"
    )

    assert [text["args"][0]["arguments"] for text in waiting(redis)] == [[2, 2], [1, 2]]
    assert all(name.startswith(b"Close:") for name in redis.hkeys("kb:locks"))


@pytest.mark.parametrize("args", [["done"], ["fail"]], ids=["succeeds", "dies"])
def test_ruby_frees_the_lock_of_a_job_that_has_ended(redis, client, sidekiq, args):
    assert python_push(client, *args)

    wait_until(lambda: not redis.exists("kb:locks"), what=lambda: sidekiq.output)
    assert not redis.exists("kb:locks:look")
    assert redis.zcard("dead") == (args == ["fail"])


def test_ruby_leaves_out_a_job_that_was_replaced(redis, client, sidekiq):
    jid = f"{1:024}"
    redis.zadd("kb:replaced", {jid: 9e9})
    client.push({"class": "Bill", "args": [1], "jid": jid, "unique": Unique()})

    sidekiq.wait_for(
        lambda: "left out: another job took its place" in sidekiq.output, 60, "a job left out"
    )


def test_spans_are_counted_together(redis, client, ruby):
    throttle = {"throttle": Throttle(limit=2, per_s=3600)}
    assert ruby("answer(Note.perform_async(1))")
    assert python_push(client, 1, job="Note", **throttle)

    assert ruby("answer(Note.perform_async(1))") is None
    assert python_push(client, 1, job="Note", **throttle) is None
    assert ruby("answer(Note.perform_async(2))")
    assert len(waiting(redis)) == 3


def test_what_is_too_much_is_put_off(redis, ruby):
    ruby("answer([Later.perform_async(1), Later.perform_async(1)])")

    assert len(waiting(redis)) == 1
    [(text, at)] = redis.zrange("schedule", 0, -1, withscores=True)
    assert at % 3600 == 0
    assert "at" not in json.loads(text)


@pytest.mark.parametrize("kind", ["class", "queue"])
def test_a_paused_job_is_put_off_untouched(redis, client, sidekiq, kind):
    if kind == "class":
        client.pause_class("Bill")
    else:
        client.pause_queue("default")
    jid = python_push(client, 1)

    wait_until(lambda: redis.zcard("schedule"), what=lambda: sidekiq.output)
    [(text, at)] = redis.zrange("schedule", 0, -1, withscores=True)
    assert json.loads(text)["jid"] == jid
    assert 30 < at - redis.time()[0] <= 61
    assert redis.hlen("kb:locks") == 1


NAME = "nightly-report"
CLASS = "Report<% raise %>&<b>"


@pytest.fixture
def schedules(client):
    schedules = Schedules(client)
    schedules.save(Schedule(NAME, CLASS, every=60))
    return schedules


@pytest.fixture
def leader(client):
    """What a worker does that leads its fleet."""
    stopping = threading.Event()

    def lead():
        for_ruby, connection = ForRuby(client), client.pool.connection()
        while not stopping.wait(0.02):
            for_ruby.take_requests(connection)
            for_ruby.publish_next(connection)

    thread = threading.Thread(target=lead)
    thread.start()
    yield
    stopping.set()
    thread.join()


def test_schedules_are_listed_paused_and_run_from_ruby(redis, client, ruby, schedules, leader):
    place_due(client, by="t")
    wait_until(lambda: redis.hexists("kb:schedules:next", NAME), what="the next occurrence")
    listed = """
    answer(Kiqbridge::Schedules.list.map do |each|
      [each.name, each.expression, each.classes, each.origin, each.paused && each.paused["reason"],
       each.next_at.to_i, each.ticks.map { |tick| [tick.at.to_i, tick.jids.size] }]
    end)
    """

    [[name, expression, classes, origin, paused, coming, ticks]] = ruby(listed)
    assert (name, expression, classes, origin, paused) == (
        NAME,
        "rate(1 minute)",
        [CLASS],
        "dynamic",
        None,
    )
    assert coming % 1 == 0 and coming > redis.time()[0] - 60
    assert ticks[0][1] == 1

    assert ruby("answer(Kiqbridge::Schedules.pause(GIVEN, reason: 'moving'))", NAME)
    wait_until(lambda: schedules.get(NAME).state.paused, what="a pause")
    assert schedules.get(NAME).state.paused.by.startswith("ruby:")
    assert ruby(listed)[0][4] == "moving"
    assert ruby("answer(Kiqbridge::Schedules.run(GIVEN))", NAME)
    wait_until(lambda: redis.zcard("schedule") + redis.llen("queue:default") > 0, what="a run")
    assert ruby("answer(Kiqbridge::Schedules.resume(GIVEN))", NAME)
    wait_until(lambda: not schedules.get(NAME).state.paused, what="the end of the pause")


def test_where_no_worker_leads_ruby_is_told_so_and_nothing_is_left(redis, ruby, schedules):
    script = """
    begin
      Kiqbridge::Schedules.pause("x", wait: 0.2)
    rescue Kiqbridge::Schedules::NotTaken => error
      answer(error.message)
    end
    """
    assert "no worker of Kiqbridge has taken it within 0.2 s" in ruby(script)
    assert not redis.exists("kb:schedules:requests")


@pytest.mark.usefixtures("leader")
def test_the_tab_shows_schedules_and_its_buttons_act(redis, redis_url, client, schedules):
    place_due(client, by="t")
    wait_until(lambda: redis.hexists("kb:schedules:next", NAME), what="the next occurrence")
    with WebUI(redis_url, f"require {json.dumps(str(FILE))}; Kiqbridge::Tab.register") as ui:
        ui.wait_ready()
        assert "kiqbridge-schedules" in ui.get("/").source
        page = ui.get("/kiqbridge-schedules")
        assert page.status == 200, page.source
        assert NAME in page.text
        assert CLASS in page.text
        assert "rate(1 minute)" in page.text
        assert "●" in page.text

        ui.press(page.form("pause", mentions=NAME), "pause")
        wait_until(lambda: schedules.get(NAME).state.paused, what="a pause")
        page = ui.get("/kiqbridge-schedules")
        assert "(paused)" in page.text
        ui.press(page.form("resume", mentions=NAME), "resume")
        wait_until(lambda: not schedules.get(NAME).state.paused, what="the end of the pause")
