"""contrib/ruby/kiqbridge.rb: our locks, spans and pauses in Ruby, and the schedules in Sidekiq's Web UI."""

import json
import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from support.placing import place_due
from support.proxy import SwallowingProxy
from support.ruby import DEBIAN_13, HERE, UTF_8, RubySidekiq, run_ruby
from support.servers import embedded_server, find_free_port
from support.strategies import JSON_VALUES
from support.waiting import wait_until
from support.web_ui import WebUI

from kiqbridge import Schedule, Schedules
from kiqbridge.api import ScheduledSet, open_operator
from kiqbridge.features.for_ruby.chores import ForRuby
from kiqbridge.flow import Throttle, Unique
from kiqbridge.wire import json_text
from kiqbridge.wire.rules import flow_name

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


SEVEN = pytest.param(DEBIAN_13, id="7.3", marks=pytest.mark.debian_13)


@pytest.fixture(params=[pytest.param(HERE, id="6.4"), SEVEN], autouse=True)
def version(request):
    """Ruby with Sidekiq of this version."""
    return request.param


@pytest.fixture(autouse=True)
def empty(redis):
    redis.flushall()


@pytest.fixture
def ruby(redis_url, version):
    return lambda script, given=None: run_ruby(JOBS + script, redis_url, given=given, ruby=version)


@pytest.fixture
def sidekiq(redis_url, version):
    with RubySidekiq(JOBS, redis_url, ruby=version) as sidekiq:
        sidekiq.wait_ready()
        yield sidekiq


def python_push(client, *args, job="Bill", **options):
    rule = options or {"unique": Unique()}
    return client.push({"class": job, "args": list(args), "retry": 0, **rule})


def waiting(redis):
    return [json.loads(text) for text in redis.lrange("queue:default", 0, -1)]


def owners(redis):
    return [value.split()[1].decode() for value in redis.hvals("kb:locks")]


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


def test_of_threads_that_push_the_same_job_at_once_one_enqueues_it(redis, ruby):
    pushed = ruby(
        """
        threads = 4.times.map { Thread.new { (1..25).map { |number| Bill.perform_async(number) } } }
        answer(threads.map(&:value).transpose.map { |jids| jids.compact.size })
        """
    )

    assert pushed == [1] * 25
    assert redis.llen("queue:default") == redis.hlen("kb:locks") == 25


def test_a_bulk_has_no_conflict_with_itself_that_waits(redis, ruby):
    """The lock of the first is not sure before the bulk has ended."""
    ruby(
        """
        push = -> { Sidekiq::Client.push_bulk("class" => Bill, "args" => [[1, "a"], [1, "b"], [2, "c"]]) }
        Bill.sidekiq_options kiqbridge: { unique: { by: [0] } }
        push.call
        Bill.sidekiq_options kiqbridge: { unique: { by: [0], on_conflict: "replace" } }
        push.call
        answer(1)
        """
    )

    pushed = [job["jid"] for job in waiting(redis)][::-1]
    assert [job["args"][1] for job in waiting(redis)][::-1] == ["a", "c", "a", "b", "c"]
    assert {each.decode() for each in redis.zrange("kb:replaced", 0, -1)} == {*pushed[:3]}
    assert {*owners(redis)} == {*pushed[3:]}


RETRIED = (
    JOBS
    + ACTIVE_JOB
    + """
class Shaky < ActiveJob::Base
  include Sidekiq::Worker::Options
  retry_on IOError, wait: 600, attempts: 3
  sidekiq_options kiqbridge: { unique: { until: "done" } }

  def perform(*)
    raise IOError if executions < 2
  end
end

class Once < Shaky
  sidekiq_options kiqbridge: { unique: { until: "start", on_conflict: "raise" } }
end

class Counted < Shaky
  sidekiq_options kiqbridge: { throttle: { per: 86_400 * 1000 } }
end
"""
)


@pytest.fixture
def scheduled(redis_url):
    operator = open_operator(redis_url, by="test")
    yield ScheduledSet(operator)
    operator.client.close()


@pytest.mark.rails
@pytest.mark.parametrize("name", ["Shaky", "Once", "Counted"])
def test_the_own_retry_of_an_active_job_is_pushed_and_has_its_lock(
    redis, redis_url, scheduled, version, name
):
    run_ruby(RETRIED + f"{name}.perform_later(1); answer(1)", redis_url, ruby=version)
    [first] = waiting(redis)

    with RubySidekiq(RETRIED, redis_url, ruby=version) as sidekiq:
        wait_until(lambda: redis.zcard("schedule"), what=lambda: sidekiq.output)
        [retry] = scheduled
        wait_until(lambda: owners(redis) != [first["jid"]], what="its end")
        assert retry.jid != first["jid"]
        assert owners(redis) == ([] if name == "Counted" else [retry.jid])
        run_ruby(
            RETRIED + f"({name}.perform_later(1) rescue 0); answer(1)", redis_url, ruby=version
        )
        assert [job.jid for job in scheduled] == [retry.jid]
        retry.add_to_queue()
        wait_until(lambda: sidekiq.output.count("INFO: done") == 2, what=lambda: sidekiq.output)
    assert not redis.exists("kb:locks")
    assert not redis.exists("retry", "schedule", "queue:default")


@pytest.mark.rails
def test_an_own_retry_is_pushed_also_while_another_job_has_the_lock(redis, redis_url, version):
    """The lock was free for a while: since its time was over, or a process was killed amid such a push."""
    run_ruby(RETRIED + "Shaky.perform_later(1); answer(1)", redis_url, ruby=version)
    [name] = redis.hkeys("kb:locks")
    redis.hset("kb:locks", name, f"{2**33} another")

    with RubySidekiq(RETRIED, redis_url, ruby=version) as sidekiq:
        wait_until(lambda: redis.zcard("schedule"), what=lambda: sidekiq.output)
    assert owners(redis) == ["another"]


@pytest.mark.rails
def test_an_own_retry_that_cannot_be_pushed_leaves_the_lock_to_its_job(redis, redis_url, version):
    """Which Sidekiq retries then."""
    refused = """
    class Refused
      include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

      def call(_class, job, *)
        job["args"][0]["executions"] > 0 ? raise("refused") : yield
      end
    end
    Sidekiq.configure_server { |config| config.client_middleware { |chain| chain.add Refused } }
    """
    run_ruby(RETRIED + "Shaky.perform_later(1); answer(1)", redis_url, ruby=version)
    [first] = waiting(redis)
    [held] = redis.hvals("kb:locks")

    with RubySidekiq(RETRIED + refused, redis_url, ruby=version) as sidekiq:
        wait_until(lambda: redis.zcard("retry"), what=lambda: sidekiq.output)
    assert json.loads(redis.zrange("retry", 0, -1)[0])["jid"] == first["jid"]
    assert redis.hvals("kb:locks") == [held]


def test_a_push_whose_arguments_are_refused_leaves_no_lock(ruby):
    script = """
    Sidekiq.strict_args!
    refused = (Bill.perform_async(:symbol) rescue $!.class.name)
    answer([refused, Sidekiq.redis { |redis| redis.call("HLEN", "kb:locks") }])
    """
    assert ruby(script) == ["ArgumentError", 0]


REFUSED = """
class Filled # the memory is full once the lock is taken
  include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

  def call(*)
    Sidekiq.redis { |redis| redis.call("CONFIG", "SET", "maxmemory", 1) } if $full
    yield
  end
end
Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add Filled } }

def refused
  $full = true
  yield
rescue StandardError => error
  error.message
ensure
  $full = false
  Sidekiq.redis { |redis| redis.call("CONFIG", "SET", "maxmemory", 0) }
end
"""


def test_a_push_that_the_server_refuses_leaves_no_lock_and_is_not_counted(redis, ruby):
    messages, pushed = ruby(
        REFUSED
        + """
        Later.sidekiq_options kiqbridge: { throttle: { per: 86_400 * 1000 } }
        answer([[Bill, Later].map { |each| refused { each.perform_async(1) } },
                [Bill, Later].map { |each| each.perform_async(1) }])
        """
    )

    assert all("OOM" in message for message in messages)
    assert [job["jid"] for job in waiting(redis)] == pushed[::-1]


def test_a_job_is_replaced_only_once_the_later_one_was_pushed(redis, ruby):
    first, message, replaced = ruby(
        REFUSED
        + """
        Bill.sidekiq_options kiqbridge: { unique: { on_conflict: "replace" } }
        first = Bill.perform_async(1)
        message = refused { Bill.perform_async(1) }
        answer([first, message, Sidekiq.redis { |redis| redis.call("ZRANGE", "kb:replaced", 0, -1) }])
        """
    )

    assert "OOM" in message
    assert replaced == []
    assert [job["jid"] for job in waiting(redis)] == [first]


def test_of_a_bulk_that_fails_the_jobs_that_were_pushed_keep_their_locks(redis, ruby):
    ruby(
        """
        Sidekiq.strict_args!
        args = (1..1500).map { |number| [number] }
        args[1200] = [:symbol]
        begin
          Sidekiq::Client.push_bulk("class" => Bill, "args" => args)
        rescue ArgumentError
          answer(1)
        end
        """
    )

    pushed = {job["jid"].encode() for job in waiting(redis)}
    assert {each.split()[1] for each in redis.hvals("kb:locks")} == pushed
    assert len(pushed) == 1000


LOST = """
class Cut
  include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

  def call(*)
    ask("cut") if $cuts
    yield
  end
end
Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add Cut } }

def ask(what)
  File.write("#{GIVEN}/#{what}", "")
  sleep 0.01 until File.exist?("#{GIVEN}/#{what}.done")
end

$cuts = true
lost = (Bill.perform_async(1) rescue $!.class.name)
$cuts = false
ask("mend")
answer([lost, Bill.perform_async(1)])
"""


def test_a_push_whose_connection_is_lost_leaves_no_lock(redis, server, version, tmp_path):
    """Nothing can be freed while the server is away; a later push waits until the lock is free."""
    nowhere = find_free_port()
    with SwallowingProxy(server.port, []) as proxy, ThreadPoolExecutor(1) as executor:

        def run():
            return run_ruby(JOBS + LOST, proxy.url, 60, given=str(tmp_path), ruby=version)

        running = executor.submit(run)
        for what, target in (("cut", nowhere), ("mend", server.port)):
            wait_until((tmp_path / what).exists, what=what)
            proxy.target = target
            proxy.cut()
            (tmp_path / f"{what}.done").touch()
        lost, pushed = running.result()

    assert "Connect" in lost
    assert [job["jid"] for job in waiting(redis)] == [pushed]


@pytest.mark.parametrize(
    "call",
    [
        'require "active_support/core_ext/string/inflections"; Bill.perform_inline(1)',
        'require "sidekiq/testing"; Sidekiq::Testing.inline! { Bill.perform_async(1) }',
        'require "sidekiq/testing"; Sidekiq::Testing.fake! { Bill.perform_async(1) }',
    ],
    ids=["perform_inline", "inline", "fake"],
)
def test_what_is_not_pushed_to_redis_takes_no_lock(redis, ruby, call):
    ruby(f"{call}; answer(1)")

    assert redis.keys() == []


ENDED = (
    JOBS
    + """
class Undead < Bill
  sidekiq_options kiqbridge: { unique: {} }, dead: false
end

class Unretried < Bill
  sidekiq_options kiqbridge: { unique: {} }, retry: false
end

class Dropped < Bill
  sidekiq_options kiqbridge: { unique: {} }, retry: 5
  sidekiq_retry_in { :discard }
end

class Exhausted < Bill
  sidekiq_retries_exhausted { |_job, _error| :discard }
end
"""
)


def ends_without_a_trace(redis, redis_url, version, name):
    run_ruby(ENDED + f"answer({name}.perform_async('fail'))", redis_url, ruby=version)
    assert redis.hlen("kb:locks") == 1
    with RubySidekiq(ENDED, redis_url, ruby=version) as sidekiq:
        wait_until(lambda: not redis.exists("kb:locks"), what=lambda: sidekiq.output)
    assert not redis.exists("dead", "retry", "queue:default", "kb:locks:look")


@pytest.mark.parametrize("name", ["Undead", "Unretried"])
def test_a_job_that_no_set_keeps_frees_its_lock(redis, redis_url, version, name):
    ends_without_a_trace(redis, redis_url, version, name)


@pytest.mark.parametrize("version", [SEVEN], indirect=True)
@pytest.mark.parametrize("name", ["Dropped", "Exhausted"])
def test_a_job_that_its_class_discards_frees_its_lock(redis, redis_url, version, name):
    """Since Sidekiq 6.5.2 and 7.2, without a death handler before 8.1."""
    ends_without_a_trace(redis, redis_url, version, name)


@pytest.mark.parametrize(
    "push",
    [
        "Sidekiq::Client.via(other) { Bill.perform_async(1) }",
        "Bill.sidekiq_options(pool: other); Bill.perform_async(1)",
    ],
    ids=["via", "pool"],
)
def test_the_lock_is_on_the_server_of_its_job(redis, ruby, push):
    with embedded_server() as other, other.client() as there:
        script = f"""
        other = Sidekiq::RedisConnection.create(url: GIVEN)
        answer(2.times.map {{ {push} }})
        """
        pushed = ruby(script, other.url)

        assert [jid is None for jid in pushed] == [False, True]
        assert redis.keys() == []
        assert there.llen("queue:default") == there.hlen("kb:locks") == 1


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
def leader(client, schedules):
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


@pytest.fixture
def web_ui(redis_url, version):
    tab = f"require {json.dumps(str(FILE))}; Kiqbridge::Tab.register"
    with WebUI(redis_url, tab, ruby=version) as ui:
        yield ui.wait_ready()


@pytest.mark.usefixtures("leader")
def test_the_tab_shows_schedules_and_its_buttons_act(redis, web_ui, client, schedules):
    place_due(client, by="t")
    wait_until(lambda: redis.hexists("kb:schedules:next", NAME), what="the next occurrence")
    assert "kiqbridge-schedules" in web_ui.get("/").source
    page = web_ui.get("/kiqbridge-schedules")
    assert page.status == 200, page.source
    assert NAME in page.text
    assert CLASS in page.text
    assert "rate(1 minute)" in page.text
    assert "●" in page.text

    web_ui.press(page.form("pause", mentions=NAME), "pause")
    wait_until(lambda: schedules.get(NAME).state.paused, what="a pause")
    page = web_ui.get("/kiqbridge-schedules")
    assert "(paused)" in page.text
    web_ui.press(page.form("resume", mentions=NAME), "resume")
    wait_until(lambda: not schedules.get(NAME).state.paused, what="the end of the pause")


def test_a_button_without_a_worker_of_python_shows_why_nothing_happened(web_ui, redis, schedules):
    page = web_ui.get("/kiqbridge-schedules")

    shown = web_ui.press(page.form("run", mentions=NAME), "run")

    assert f"run of {NAME}: no worker of Kiqbridge has taken it within 2 s" in shown.text
    assert "rate(1 minute)" in shown.text
    assert not redis.exists("kb:schedules:requests")


NAMES = f"""
require {json.dumps(str(FILE))}
$stdout.sync = true
while (line = gets)
  value = JSON.parse(line)
  name = Kiqbridge.name_of({{ "class" => "Bill", "args" => value }}, {{}})
  puts JSON.generate([name, JSON.generate(value)])
end
"""
EDGES = [
    [10.0**power * digits, -(10.0**power) / digits]
    for power in (*range(-8, 24), 150, -150)
    for digits in (1, 3, 1.5, 9.999999999999999)
]


def test_ruby_and_python_name_a_lock_alike(version):
    """That of a job which Python pushes, and of one which Ruby pushes: JSON of either, read by the other."""
    command = [*version, "ruby", "-e", NAMES]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **UTF_8}
    ) as ruby:

        @settings(max_examples=300)
        @given(value=JSON_VALUES)
        @example(value=EDGES)
        @example(value=[1e15, 1e-5, 1e20, 1e16, -0.0, 5e-324, 1e15 + 0.125, 2.0**53, 10**30])
        def agree(value):
            ruby.stdin.write(json_text.dumps([value]) + b"\n")
            ruby.stdin.flush()
            name, text = json.loads(ruby.stdout.readline())
            assert name == flow_name("Bill", [value])
            assert name == flow_name("Bill", json_text.loads(text.encode()))

        agree()
        ruby.stdin.close()
