"""Pauses, foreign jobs, shared queues and recovery with the real command and real workers."""

import time

import pytest
from support.evidence import RUBY, Evidence
from support.ruby import RubySidekiq, run_ruby
from support.waiting import wait_until

pytestmark = pytest.mark.slow

JOBS = """
import time
from kiqbridge import job
from support.noting import note

@job
def short(name):
    note(name)
    time.sleep(0.005)

@job
def other(name):
    note(name)
"""
RUBY_JOBS = """
class OnlyInRuby
  include Sidekiq::Worker
  def perform(number)
    testify(jid, "ruby #{number}")
  end
end
"""


FLAGS = ("-c", "2")
ENV = {"KIQBRIDGE_BEAT_S": "0.1", "KIQBRIDGE_LOG_LEVEL": "warning"}


@pytest.fixture
def push(client):
    """So many jobs of a class, their number behind its name."""

    def push(name, count):
        arguments = [[f"{name}-{number}"] for number in range(count)]
        return client.push_bulk({"class": name, "args": arguments})

    return push


def stands_still(read, seconds=0.5):
    """The value once it has not changed for a while."""
    seen = {"value": read(), "since": time.monotonic()}

    def settled():
        value = read()
        if value != seen["value"]:
            seen.update(value=value, since=time.monotonic())
        return time.monotonic() - seen["since"] > seconds

    wait_until(settled, 10, lambda: f"no change for {seconds} s: {seen}")
    return seen["value"]


class TestQueues:
    @pytest.mark.interop
    @pytest.mark.parametrize("paused_by", ["us", "ruby"])
    def test_a_paused_queue_stands_still_within_a_second_and_goes_on_when_resumed(  # noqa: PLR0917 - fixtures
        self, start, push, client, seen, redis, redis_url, paused_by, tell
    ):
        count = 1000
        worker = start()
        push("short", count)
        worker.wait_for(lambda: len(seen.all()) >= 50)

        if paused_by == "us":
            client.pause_queue("default", reason="a test")
        else:
            redis.sadd("paused", "default")
        paused_at = time.time()
        ran = stands_still(lambda: len(seen.all()))

        last = max(each["at"] for each in seen.all()) - paused_at
        tell(f"queue paused by {paused_by}: the last job began {last * 1000:.0f} ms afterwards")
        assert last < 1
        assert 50 <= ran < count
        sizes = run_ruby(
            "queue = Sidekiq::Queue.new; answer [queue.size, queue.to_a.size, Sidekiq::Stats.new.enqueued]",
            redis_url,
        )
        assert sizes == [count - ran] * 3

        if paused_by == "us":
            client.resume_queue("default")
        else:
            redis.srem("paused", "default")
        resumed_at = time.time()
        worker.wait_for(lambda: len(seen.all()) == count)
        first = seen.all()[ran]["at"] - resumed_at
        tell(f"queue resumed by {paused_by}: the first job began {first * 1000:.0f} ms afterwards")
        assert first < 1
        assert len(set(seen.events())) == count
        assert worker.stop() == 0


class TestClasses:
    @pytest.mark.interop
    def test_a_paused_class_is_put_off_within_a_second_and_others_run(  # noqa: PLR0917 - fixtures
        self, start, push, client, seen, redis, redis_url, tell
    ):
        count = 600
        worker = start()
        push("short", count)
        worker.wait_for(lambda: len(seen.all()) >= 50)

        client.pause_class("short", reason="a test")
        paused_at = time.time()
        worker.wait_for(lambda: not redis.exists("queue:default"))
        ran = stands_still(lambda: len(seen.all()))
        push("other", 5)
        worker.wait_for(lambda: len(seen.all()) == ran + 5)

        last = (
            max(each["at"] for each in seen.all() if each["event"].startswith("short")) - paused_at
        )
        tell(f"class paused: the last job began {last * 1000:.0f} ms afterwards")
        assert last < 1
        scores = [score for _, score in redis.zrange("schedule", 0, -1, withscores=True)]
        assert len(scores) == count - ran
        assert min(scores) > paused_at + 49
        assert max(scores) - min(scores) > 10
        script = """
        put_off = Sidekiq::ScheduledSet.new
        sizes = [put_off.size, put_off.to_a.size, Sidekiq::Stats.new.scheduled_size]
        put_off.to_a.each(&:add_to_queue) if GIVEN
        answer sizes
        """
        assert run_ruby(script, redis_url) == [count - ran] * 3
        wait_until(lambda: int(redis.get("stat:processed")) == ran + 5)

        client.resume_class("short")
        run_ruby(script, redis_url, given=True)
        wait_until(
            lambda: len(seen.all()) == count + 5,
            what=lambda: f"all ran: {len(seen.all())} did, {redis.zcard('schedule')} are put off",
        )
        assert len(set(seen.events())) == count + 5
        assert worker.stop() == 0
        assert int(redis.get("stat:processed")) == count + 5
        assert not redis.exists("stat:failed") or int(redis.get("stat:failed")) == 0


class TestSharedQueues:
    @pytest.mark.interop
    def test_a_ruby_worker_on_our_queue_is_told_at_the_start(self, start, redis_url):
        with RubySidekiq(RUBY + RUBY_JOBS, redis_url, queues=["default", "mail"]) as ruby:
            ruby.wait_ready()
            ours = start("-q", "low", "-q", "default", KIQBRIDGE_LOG_LEVEL="info")
            ours.wait_for_output("1 Ruby process serves queue default as well")
            assert f":{ruby.pid}:" in ours.output

            alone = start("-q", "low", KIQBRIDGE_LOG_LEVEL="info")
            alone.wait_for_output("is ready")
            assert "Ruby process" not in alone.output

    @pytest.mark.interop
    def test_what_only_ruby_can_run_is_passed_on_and_runs_there(  # noqa: PLR0917 - fixtures
        self, start, push, seen, redis, redis_url, folder
    ):
        folder = folder / "evidence"
        folder.mkdir()
        evidence = Evidence(folder)
        with RubySidekiq(RUBY + RUBY_JOBS, redis_url, queues=["ruby"], env=evidence.env) as ruby:
            ruby.wait_ready()
            start(KIQBRIDGE_UNKNOWN_CLASS="route:ruby")
            jids = push("OnlyInRuby", 20)
            push("other", 20)

            assert [evidence.wait(jid).said for jid in jids] == [
                f"ruby OnlyInRuby-{number}" for number in range(20)
            ]
            wait_until(lambda: len(seen.all()) == 20)
        assert not redis.exists("retry", "dead")
        assert all(len(evidence.of(jid)) == 1 for jid in jids)

    def test_a_route_into_one_s_own_queue_is_refused_at_the_start(self, start, redis):
        worker = start(
            "-q", "default", "-q", "ruby", ready=False, KIQBRIDGE_UNKNOWN_CLASS="route:ruby"
        )

        assert worker.wait() == 1
        assert "routes to queue ruby, which this worker serves itself" in worker.output
        assert "from KIQBRIDGE_UNKNOWN_CLASS" in worker.output
        assert not redis.exists("kb:inflight")
