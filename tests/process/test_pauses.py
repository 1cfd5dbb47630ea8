"""Pauses, foreign jobs, shared queues and recovery with the real command and real workers."""

import json
import time
from contextlib import ExitStack

import pytest
from support.evidence import RUBY, Evidence
from support.processes import ran
from support.ruby import RubySidekiq, run_ruby
from support.waiting import wait_until
from support.workers import WorkerProcess

from kiqbridge import Client

pytestmark = pytest.mark.slow

JOBS = """
import os, time
from kiqbridge import job

def note(name):
    handle = os.open(os.environ["NOTES"], os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(handle, f"{name} {time.time()!r}\\n".encode())
    os.close(handle)

@job
def short(name):
    note(name)
    time.sleep(0.005)

@job
def other(name):
    note(name)

@job
def endless(name):
    note(name)
    time.sleep(600)
"""
RUBY_JOBS = """
class OnlyInRuby
  include Sidekiq::Worker
  def perform(number)
    testify(jid, "ruby #{number}")
  end
end
"""


class Notes:
    """What jobs noted: (name, epoch seconds) in order."""

    def __init__(self, path):
        self.path = path

    def read(self):
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return [(line.split()[0], float(line.split()[1])) for line in lines]

    def count(self):
        return len(self.read())


class World:
    """A database, a client on it, and workers on the jobs above, which never outlive the test."""

    def __init__(self, folder, url, redis, stack):
        self.folder = folder
        self.url = url
        self.redis = redis
        self.client = Client(url)
        self.notes = Notes(folder / "notes")
        self._stack = stack
        stack.callback(self.client.close)
        (folder / "pausing_jobs.py").write_text(JOBS)

    def start(self, *args, ready=True, **env):
        worker = WorkerProcess(
            "-r",
            "pausing_jobs.py",
            *args,
            redis_url=self.url,
            cwd=self.folder,
            env={"NOTES": str(self.notes.path), "KIQBRIDGE_BEAT_S": "0.1", **env},
        )
        self._stack.enter_context(worker)
        if ready:
            worker.wait_ready()
        return worker

    def run(self, *args, **env):
        """The command to its end: (exit code, output)."""
        return ran(*args, cwd=self.folder, env={"REDIS_URL": self.url, **env})

    def push(self, name, count, queue="default"):
        arguments = [[f"{name}-{number}"] for number in range(count)]
        return self.client.push_bulk({"class": name, "queue": queue, "args": arguments})


@pytest.fixture
def world(tmp_path, redis_url, redis):
    with ExitStack() as stack:
        yield World(tmp_path, redis_url, redis, stack)


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
    def test_a_paused_queue_stands_still_within_a_second_and_goes_on_when_resumed(
        self, world, paused_by, tell
    ):
        count = 1000
        worker = world.start("-c", "2", KIQBRIDGE_LOG_LEVEL="warning")
        world.push("short", count)
        worker.wait_for(lambda: world.notes.count() >= 50)

        if paused_by == "us":
            world.client.pause_queue("default", reason="a test")
        else:
            world.redis.sadd("paused", "default")
        paused_at = time.time()
        ran = stands_still(world.notes.count)

        last = max(at for _, at in world.notes.read()) - paused_at
        tell(f"queue paused by {paused_by}: the last job began {last * 1000:.0f} ms afterwards")
        assert last < 1
        assert 50 <= ran < count
        sizes = run_ruby(
            "queue = Sidekiq::Queue.new; answer [queue.size, queue.to_a.size, Sidekiq::Stats.new.enqueued]",
            world.url,
        )
        assert sizes == [count - ran] * 3

        if paused_by == "us":
            world.client.resume_queue("default")
        else:
            world.redis.srem("paused", "default")
        resumed_at = time.time()
        worker.wait_for(lambda: world.notes.count() == count)
        first = world.notes.read()[ran][1] - resumed_at
        tell(f"queue resumed by {paused_by}: the first job began {first * 1000:.0f} ms afterwards")
        assert first < 1
        assert len({name for name, _ in world.notes.read()}) == count
        assert worker.stop() == 0


class TestClasses:
    @pytest.mark.interop
    def test_a_paused_class_is_put_off_within_a_second_and_others_run(self, world, tell):
        count = 600
        worker = world.start("-c", "2", KIQBRIDGE_LOG_LEVEL="warning")
        world.push("short", count)
        worker.wait_for(lambda: world.notes.count() >= 50)

        world.client.pause_class("short", reason="a test")
        paused_at = time.time()
        worker.wait_for(lambda: not world.redis.exists("queue:default"))
        ran = stands_still(world.notes.count)
        world.push("other", 5)
        worker.wait_for(lambda: world.notes.count() == ran + 5)

        last = max(at for name, at in world.notes.read() if name.startswith("short")) - paused_at
        tell(f"class paused: the last job began {last * 1000:.0f} ms afterwards")
        assert last < 1
        scores = [score for _, score in world.redis.zrange("schedule", 0, -1, withscores=True)]
        assert len(scores) == count - ran
        assert min(scores) > paused_at + 49
        assert max(scores) - min(scores) > 10
        script = """
        put_off = Sidekiq::ScheduledSet.new
        sizes = [put_off.size, put_off.to_a.size, Sidekiq::Stats.new.scheduled_size]
        put_off.to_a.each(&:add_to_queue) if GIVEN
        answer sizes
        """
        assert run_ruby(script, world.url) == [count - ran] * 3
        wait_until(lambda: int(world.redis.get("stat:processed")) == ran + 5)

        world.client.resume_class("short")
        run_ruby(script, world.url, given=True)
        wait_until(
            lambda: world.notes.count() == count + 5,
            what=lambda: (
                f"all ran: {world.notes.count()} did, {world.redis.zcard('schedule')} are put off"
            ),
        )
        assert len({name for name, _ in world.notes.read()}) == count + 5
        assert worker.stop() == 0
        assert int(world.redis.get("stat:processed")) == count + 5
        assert not world.redis.exists("stat:failed") or int(world.redis.get("stat:failed")) == 0


class TestForeignJobs:
    def test_refused_by_default(self, world):
        world.client.push({"class": "other", "args": ["x"], "bid": "b1"})
        worker = world.start("-c", "1")

        worker.wait_for(lambda: world.redis.zcard("dead") == 1)

        [kept] = map(json.loads, world.redis.zrange("dead", 0, -1))
        assert kept["error_class"] == "kiqbridge.errors.JobRefused"
        assert (kept["bid"], kept["args"]) == ("b1", ["x"])
        worker.wait_for_output("is refused to the dead set")
        assert world.notes.read() == []


class TestSharedQueues:
    @pytest.mark.interop
    def test_a_ruby_worker_on_our_queue_is_told_at_the_start(self, world):
        with RubySidekiq(RUBY + RUBY_JOBS, world.url, queues=["default", "mail"]) as ruby:
            ruby.wait_ready()
            ours = world.start("-q", "low", "-q", "default")
            ours.wait_for_output("1 Ruby process serves queue default as well")
            assert f":{ruby.pid}:" in ours.output

            alone = world.start("-q", "low")
            alone.wait_for_output("is ready")
            assert "Ruby process" not in alone.output

    @pytest.mark.interop
    def test_what_only_ruby_can_run_is_passed_on_and_runs_there(self, world):
        folder = world.folder / "evidence"
        folder.mkdir()
        evidence = Evidence(folder)
        with RubySidekiq(RUBY + RUBY_JOBS, world.url, queues=["ruby"], env=evidence.env) as ruby:
            ruby.wait_ready()
            world.start("-c", "2", KIQBRIDGE_UNKNOWN_CLASS="route:ruby")
            jids = world.push("OnlyInRuby", 20)
            world.push("other", 20)

            assert [evidence.wait(jid).said for jid in jids] == [
                f"ruby OnlyInRuby-{number}" for number in range(20)
            ]
            wait_until(lambda: world.notes.count() == 20)
        assert not world.redis.exists("retry", "dead")
        assert all(len(evidence.of(jid)) == 1 for jid in jids)

    def test_a_route_into_one_s_own_queue_is_refused_at_the_start(self, world):
        worker = world.start(
            "-q", "default", "-q", "ruby", ready=False, KIQBRIDGE_UNKNOWN_CLASS="route:ruby"
        )

        assert worker.wait() == 1
        assert "routes to queue ruby, which this worker serves itself" in worker.output
        assert "from KIQBRIDGE_UNKNOWN_CLASS" in worker.output
        assert not world.redis.exists("kb:inflight")


class TestRecover:
    def test_the_jobs_of_a_killed_worker_are_back_though_no_other_is_left(self, world):
        soon = {"KIQBRIDGE_RECOVER_AFTER_S": "3"}
        worker = world.start("-c", "2", **soon)
        world.push("endless", 2)
        worker.wait_for(lambda: world.notes.count() == 2)

        code, output = world.run("recover", "--json", **soon)
        assert code == 0, output
        [each] = json.loads(output.splitlines()[-1])["incarnations"]
        assert (each["state"], each["held"]) == ("alive", {"default": 2})
        worker.kill()

        def is_silent():
            _, output = world.run("recover", "--dry-run", "--json", **soon)
            return json.loads(output.splitlines()[-1])["incarnations"][0]["state"] == "silent"

        wait_until(is_silent, 20)

        code, output = world.run("recover", **soon)

        assert code == 0, output
        assert "watching 1 silent" in output
        assert "2 jobs went back" in output
        assert world.redis.llen("queue:default") == 2
        assert not world.redis.exists("kb:inflight")
        assert world.run("recover", **soon)[0] == 0
