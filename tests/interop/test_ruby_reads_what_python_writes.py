"""Ruby's API (ProcessSet, Workers, Stats, Queue and the sorted sets) reads what our side writes."""

import platform
import re
import time
from typing import ClassVar

import pytest
from support.ruby import run_ruby
from support.waiting import wait_until
from support.workers import find_identity

import kiqbridge
from kiqbridge import Job
from kiqbridge.client.default_client import own_default_client

pytestmark = pytest.mark.interop

DIRECTION = "Python writes, Ruby's API reads"

MESSAGE = 'no "such" month: 13 \u2028 \U0001f600'
JOBS = f"""
import os
import time

from kiqbridge import Job
from support.evidence import testify


class Hold(Job):
    queue = "busy"

    def perform(self, *args):
        testify(self.jid, args)
        while not os.path.exists(os.path.join(os.environ["EVIDENCE"], "release")):
            time.sleep(0.01)


class Fine(Job):
    def perform(self):
        testify(self.jid, "fine")


class MonthError(Exception):
    pass


class Bad(Job):
    def perform(self, *args):
        self.look_up_month()

    def look_up_month(self):
        raise MonthError({MESSAGE!r})


class Plain(Job):
    def perform(self):
        raise ValueError("plain")
"""
HELD_ARGS = [2**70, -0.0, "\u2028", {"a": []}]


class Parked(Job):
    """On a queue that nobody serves."""

    class_name = "Interop::Parked"
    queue = "parked"
    tags: ClassVar = ["a", "b"]

    def perform(self, *args): ...


@pytest.fixture(scope="module")
def worker(server, python_worker, tmp_path_factory):
    """Our worker, seen by all these tests; one of its three threads holds a job all the time."""
    file = tmp_path_factory.mktemp("config") / "kiqbridge.yml"
    file.write_text("labels: [blue]\n")
    flags = ["-c", "3", "-q", "default,2", "-q", "busy", "-g", "shop", "-C", str(file)]
    with python_worker(JOBS, *flags) as worker:
        yield worker


@pytest.fixture(scope="module")
def client(server):
    with own_default_client():
        client = kiqbridge.configure(server.url)
        yield client
        client.close()


@pytest.fixture(scope="module")
def held(worker, server, client, evidence):
    """The held job's payload as it was pushed."""
    jid = client.push({"class": "Hold", "args": HELD_ARGS, "queue": "busy", "tenant": "acme"})
    evidence.wait(jid)
    script = "answer Sidekiq::Workers.new.size"
    wait_until(lambda: run_ruby(script, server.url) == 1, what="Ruby seeing one running job")
    yield jid
    (evidence.folder / "release").touch()


@pytest.fixture
def wait_for_flush(worker, redis):
    """Waits until what was performed so far has been counted in Redis."""

    def wait():
        identity, enough = find_identity(redis, worker.pid), time.time() + 0.3
        wait_until(lambda: float(redis.hget(identity, "beat")) > enough, what="a further beat")

    return wait


@pytest.fixture
def failed(worker, client, redis):
    """Pushes a job that fails; returns its jid once it is in the set that it must end in."""

    def push(into, item):
        jid = client.push({"queue": "default", "args": [], **item})
        wait_until(
            lambda: any(jid in member.decode() for member in redis.zrange(into, 0, -1)),
            what=lambda: f"{jid} in {into}; {worker.output}",
        )
        return jid

    return push


def read_until(script, url, fits):
    """What Ruby reads once it fits: a beat that caught a short job of another test is soon over."""
    seen = None

    def look():
        nonlocal seen
        seen = run_ruby(script, url)
        return fits(seen)

    wait_until(look, what=lambda: f"Ruby reads {seen}")
    return seen


@pytest.mark.operation("ProcessSet")
def test_process_set_tells_everything_about_our_process(worker, held, redis_url, redis):
    script = """
    processes = Sidekiq::ProcessSet.new
    answer size: processes.size, totals: [processes.total_concurrency, processes.total_rss_in_kb],
           processes: processes.map { |process|
      { identity: process.identity, tag: process.tag, labels: process.labels, queues: process["queues"],
        quiet: process["quiet"], stopping: process.stopping?, concurrency: process["concurrency"],
        busy: process["busy"], hostname: process["hostname"], pid: process["pid"],
        started_at: process["started_at"], beat: process["beat"], rss: process["rss"],
        rtt_us: process["rtt_us"], version: process["version"] }
    }
    """
    before = time.time()

    seen = read_until(script, redis_url, lambda seen: seen["processes"][0]["busy"] == 1)

    assert seen["size"] == 1
    [process] = seen["processes"]
    assert seen["totals"] == [process["concurrency"], process["rss"]]
    assert process["identity"] == find_identity(redis, worker.pid)
    assert process["hostname"] == platform.node() and process["pid"] == worker.pid
    assert process["tag"] == "shop" and process["labels"] == ["kiqbridge", "blue"]
    assert sorted(process["queues"]) == ["busy", "default"]
    assert (process["concurrency"], process["busy"]) == (3, 1)
    assert process["quiet"] == "false" and process["stopping"] is False
    assert (
        isinstance(process["started_at"], float) and before - 120 < process["started_at"] < before
    )
    assert before - 10 < process["beat"] <= time.time()
    assert 1_000 < process["rss"] < 1_000_000  # kilobytes
    assert 0 < process["rtt_us"] < 10_000_000
    assert process["version"] == f"kiqbridge-{kiqbridge.__version__}"


@pytest.mark.operation("Workers")
def test_workers_shows_the_running_job_with_its_payload(worker, held, redis_url, redis):
    script = r"""
    answer Sidekiq::Workers.new.map { |process, tid, work|
      payload = work["payload"]
      args = payload["args"]
      { process: process, tid: tid, queue: work["queue"], run_at: work["run_at"],
        kind: work["run_at"].class.name, jid: payload["jid"], class: payload["class"],
        tenant: payload["tenant"],
        right: [args[0] == 2**70, 1 / args[1] == -Float::INFINITY, args[2] == "\u2028",
                args[3] == {"a" => []}] }
    }
    """

    [work] = read_until(script, redis_url, lambda seen: len(seen) == 1)

    assert work["process"] == find_identity(redis, worker.pid)
    assert re.fullmatch(r"[0-9a-z]+", work["tid"])
    assert work["queue"] == "busy" and work["jid"] == held
    assert (work["class"], work["tenant"]) == ("Hold", "acme")
    assert work["kind"] == "Integer" and 0 <= time.time() - work["run_at"] < 120
    assert work["right"] == [True] * 4


@pytest.mark.operation("Stats")
def test_stats_and_todays_history_count_processed_and_failed(
    client, evidence, failed, redis_url, wait_for_flush
):
    script = """
    stats = Sidekiq::Stats.new
    history = Sidekiq::Stats::History.new(2)
    today = history.processed.keys.first
    answer processed: stats.processed, failed: stats.failed, today: today,
           processed_today: history.processed[today], failed_today: history.failed[today]
    """
    wait_for_flush()
    before = run_ruby(script, redis_url)

    for jid in client.push_bulk({"class": "Fine", "args": [[], [], []]}):
        evidence.wait(jid)
    failed("retry", {"class": "Plain"})

    wait_for_flush()
    after = run_ruby(script, redis_url)
    assert after["processed"] == before["processed"] + 4
    assert after["failed"] == before["failed"] + 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", after["today"])
    if after["today"] == before["today"]:  # else it is midnight
        assert after["processed_today"] == before["processed_today"] + 4
        assert after["failed_today"] == before["failed_today"] + 1


@pytest.mark.operation("Queue")
def test_queue_lists_the_jobs_that_we_pushed(client, redis_url):
    before = time.time()
    first = Parked.perform_async(2**70, "\u2028", -0.0)
    second = Parked.perform_async(None)
    script = r"""
    queue = Sidekiq::Queue.new("parked")
    jobs = queue.to_a.reverse # each goes from the newest on
    args = jobs[0].args
    answer known: Sidekiq::Queue.all.map(&:name).include?("parked"), size: queue.size,
           latency: queue.latency, paused: queue.paused?, found: queue.find_job(jobs[1].jid).args,
           right: [args[0] == 2**70, args[1] == "\u2028", 1 / args[2] == -Float::INFINITY],
           jobs: jobs.map { |job|
             { klass: job.klass, display: job.display_class, jid: job.jid, queue: job.queue,
               tags: job.tags, retry: job["retry"], latency: job.latency,
               created_at: job.created_at.to_f, enqueued_at: job.enqueued_at.to_f }
           }
    """

    seen = run_ruby(script, redis_url)

    assert (seen["known"], seen["size"], seen["paused"]) == (True, 2, False)
    assert 0 <= seen["latency"] < 60
    assert seen["right"] == [True] * 3 and seen["found"] == [None]
    assert [one["jid"] for one in seen["jobs"]] == [first, second]
    for one in seen["jobs"]:
        assert one["klass"] == one["display"] == "Interop::Parked"
        assert (one["queue"], one["tags"], one["retry"]) == ("parked", ["a", "b"], True)
        assert before <= one["created_at"] <= one["enqueued_at"] <= time.time()
        assert 0 <= one["latency"] < 60


@pytest.mark.operation("ScheduledSet")
def test_scheduled_set_shows_what_we_scheduled_and_when(client, redis_url):
    due = time.time() + 5000.25
    jid = Parked.perform_at(due, {"nested": [[], {}]}, 1.0)
    script = f"""
    job = Sidekiq::ScheduledSet.new.find_job({jid!r})
    answer score: job.score, at: job.at.to_f, klass: job.klass, queue: job.queue,
           has_at: job.item.key?("at"), enqueued_at: job.item["enqueued_at"],
           created_at: job.created_at.to_f,
           right: job.args[0] == {{"nested" => [[], {{}}]}} && job.args[1].eql?(1.0)
    """

    seen = run_ruby(script, redis_url)

    assert seen["score"] == seen["at"] == due
    assert (seen["klass"], seen["queue"], seen["right"]) == ("Interop::Parked", "parked", True)
    assert seen["has_at"] is False and seen["enqueued_at"] is None
    assert 0 <= time.time() - seen["created_at"] < 60


@pytest.mark.operation("RetrySet")
def test_retry_set_shows_the_failure_of_a_python_job(failed, redis_url):
    before = time.time()
    jid = failed(
        "retry", {"class": "Bad", "args": [2**70, "\u2028"], "backtrace": True, "x": [1.0]}
    )
    script = rf"""
    job = Sidekiq::RetrySet.new.find_job({jid!r})
    item = job.item
    answer class: job.klass, queue: job.queue, score: job.score, at: job.at.to_f,
           count: item["retry_count"], error_class: item["error_class"],
           message: item["error_message"], error: job.error?, failed_at: item["failed_at"],
           kind: item["failed_at"].class.name, retried: item.key?("retried_at"),
           backtrace: job.error_backtrace, enqueued_at: job.enqueued_at.to_f,
           right: job.args[0] == 2**70 && job.args[1] == "\u2028" && item["x"][0].eql?(1.0)
    """

    seen = run_ruby(script, redis_url)

    assert (seen["class"], seen["queue"], seen["right"]) == ("Bad", "default", True)
    assert seen["count"] == 0 and seen["retried"] is False and seen["error"] is True
    assert seen["error_class"] == "interop_jobs.MonthError"
    assert seen["message"] == MESSAGE
    assert seen["kind"] == "Float" and before <= seen["failed_at"] <= time.time()
    assert before <= seen["enqueued_at"] <= seen["failed_at"]
    assert seen["score"] == seen["at"]
    assert 15 <= seen["score"] - seen["failed_at"] <= 15 + 10 + 1  # Sidekiq's formula, first try
    innermost, caller = seen["backtrace"][:2]
    assert re.fullmatch(r".*/interop_jobs\.py:\d+:in 'look_up_month'", innermost)
    assert re.fullmatch(r".*/interop_jobs\.py:\d+:in 'perform'", caller)


@pytest.mark.operation("DeadSet")
def test_dead_set_shows_a_job_without_retries_and_its_time_of_death(failed, redis_url):
    before = time.time()
    jid = failed("dead", {"class": "Bad", "args": [-0.0], "retry": 0})
    script = f"""
    job = Sidekiq::DeadSet.new.find_job({jid!r})
    answer klass: job.klass, at: job.at.to_f, score: job.score, count: job.item["retry_count"],
           error_class: job.item["error_class"], negative: 1 / job.args[0] == -Float::INFINITY
    """

    seen = run_ruby(script, redis_url)

    assert (seen["klass"], seen["count"], seen["negative"]) == ("Bad", 0, True)
    assert seen["error_class"] == "interop_jobs.MonthError"
    assert seen["at"] == seen["score"] and before <= seen["score"] <= time.time()
