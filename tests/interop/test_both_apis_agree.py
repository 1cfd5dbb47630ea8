"""Ruby's API and ours answer the same on one Redis with jobs of both languages, and act on each other's."""

import json
import time

import pytest
from support.ruby import run_ruby
from support.vectors import FILES, put_state

from kiqbridge import Client
from kiqbridge.api import (
    DeadSet,
    Filter,
    ProcessSet,
    Queue,
    RetrySet,
    ScheduledSet,
    Stats,
    WorkSet,
    find_job,
    open_operator,
)

pytestmark = pytest.mark.interop

DIRECTION = "Python acts, Ruby reads"

FILL = """
class Mail; include Sidekiq::Worker; end
class Bill; include Sidekiq::Worker; sidekiq_options queue: "low", retry: 3; end
3.times { |n| Mail.perform_async(n, "caf\\u00e9") }
Bill.perform_async({ "a" => [1, nil] })
Mail.perform_in(3600, 1)
jobs = 4.times.map do |n|
  { "class" => "Mail", "args" => [n], "jid" => "ruby#{n}", "queue" => "default", "retry" => true,
    "created_at" => 1700000000.5, "error_class" => "RuntimeError", "error_message" => "m", "retry_count" => n }
end
jobs[0, 2].each { |job| Sidekiq::RetrySet.new.schedule(Time.now.to_f + 100, job) }
jobs[2, 2].each { |job| Sidekiq::DeadSet.new.kill(Sidekiq.dump_json(job), notify_failure: false) }
answer true
"""
READ = """
def rows(set) = set.map { |e| [e.jid, e.klass, e.args, e.queue, e.score, e["retry_count"], e["error_class"]] }
stats = Sidekiq::Stats.new
answer(
  stats: [stats.processed, stats.failed, stats.scheduled_size, stats.retry_size, stats.dead_size, stats.enqueued,
          stats.processes_size],
  queues: Sidekiq::Queue.all.to_h { |q| [q.name, [q.size, q.map { |j| [j.jid, j.klass, j.args] }]] },
  latency: Sidekiq::Queue.all.to_h { |q| [q.name, q.latency] },
  schedule: rows(Sidekiq::ScheduledSet.new), retry: rows(Sidekiq::RetrySet.new), dead: rows(Sidekiq::DeadSet.new),
  found: [Sidekiq::RetrySet.new.find_job("ruby1")&.jid, Sidekiq::DeadSet.new.find_job("python1")&.jid,
          Sidekiq::Queue.new("default").find_job("nothing")&.jid],
  processes: Sidekiq::ProcessSet.new(false).map { |p| [p["identity"], p["busy"], p.queues, p.stopping?] },
  work: Sidekiq::Workers.new.map { |process, tid, work| [process, tid, work["queue"]] }
)
"""


def rows(job_set):
    return [
        [
            *(entry.jid, entry.job_class, list(entry.args), entry.queue),
            *(entry.score, entry.retry_count, entry.error_class or None),
        ]
        for entry in job_set
    ]


def ours(operator):
    stats = Stats(operator)
    return {
        "stats": [
            *(stats.processed, stats.failed, stats.scheduled_size, stats.retry_size),
            *(stats.dead_size, stats.enqueued, stats.processes_size),
        ],
        "queues": {
            queue.name: [queue.size, [[job.jid, job.job_class, list(job.args)] for job in queue]]
            for queue in Queue.all(operator)
        },
        "schedule": rows(ScheduledSet(operator)),
        "retry": rows(RetrySet(operator)),
        "dead": rows(DeadSet(operator)),
        "found": [
            *(job_set(operator).find_job(jid).jid for job_set, jid in FOUND),
            Queue("default", operator).find_job("nothing"),
        ],
        "processes": [
            [process.identity, process.busy, list(process.queues), process.is_quiet]
            for process in ProcessSet(operator)
        ],
        "work": [[work.process, work.tid, work.job.queue] for work in WorkSet(operator)],
    }


FOUND = ((RetrySet, "ruby1"), (DeadSet, "python1"))


@pytest.fixture
def operator(redis, server):
    redis.flushall()
    run_ruby(FILL, server.url)
    client = Client(server.url)
    for number in range(3):
        client.push({"class": "Mail", "args": [number, 2**70], "jid": f"python{number}"})
    client.push({"class": "Bill", "args": [], "at": time.time() + 60})
    put_state(redis, FILES["readers"]["process_complete"]["state"])
    operator = open_operator(client=client, by="ann")
    assert find_job("python1", operator)[0].job.kill()
    yield operator
    client.close()


@pytest.mark.operation("The operator's API")
def test_rubys_api_and_ours_answer_the_same_before_and_after_pythons_actions(
    operator, server, redis
):
    for step in ("before", "after"):
        theirs = run_ruby(READ, server.url)
        latency = theirs.pop("latency")
        assert ours(operator) == theirs, step
        for queue in Queue.all(operator):
            assert abs(queue.latency - latency[queue.name]) < 30
        if step == "before":
            RetrySet(operator).fetch(RetrySet(operator).find_job("ruby0").key).reschedule(2e9)
            assert DeadSet(operator).retry_all(Filter(text='"ruby3"')) == 1
            assert DeadSet(operator).find_job("ruby2").requeue(args=["new"], queue="low") == "ruby2"
            assert RetrySet(operator).apply("reschedule", list(RetrySet(operator)), at=2e9 + 1) == 2
            Queue("default", operator).find_job("python2").move("low")
            assert DeadSet(operator).size == 1  # for the look of find_job


@pytest.mark.operation("The operator's API")
def test_what_one_side_has_killed_the_other_one_retries(operator, server, redis):
    run_ruby('answer Sidekiq::DeadSet.new.find_job("python1").retry.nil?', server.url)
    assert DeadSet(operator).find_job("ruby3").retry()

    first, second = redis.lrange("queue:default", 0, 1)
    assert (json.loads(first)["jid"], json.loads(second)["jid"]) == ("ruby3", "python1")
    assert json.loads(first)["retry_count"] == 2
    assert [entry.jid for entry in DeadSet(operator)] == ["ruby2"]
