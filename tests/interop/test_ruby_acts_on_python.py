"""Ruby's API acts on our processes and on the jobs that our side wrote; our worker obeys."""

import time

import pytest
from support.ruby import run_ruby
from support.waiting import wait_until
from support.workers import find_identity

from kiqbridge import Client

pytestmark = pytest.mark.interop

DIRECTION = "Ruby's API acts, Python obeys"

JOBS = """
import os
import time
from pathlib import Path

from kiqbridge import Job
from support.evidence import testify


class Witness(Job):
    def perform(self, *args):
        testify(self.jid, args)


class FailOnce(Job):
    def perform(self, *args):
        path = Path(os.environ["EVIDENCE"], self.jid)
        first = not path.exists()
        testify(self.jid, args)
        if first:
            raise ValueError("the first time")


class Fail(Job):
    def perform(self, *args):
        testify(self.jid, args)
        raise ValueError("each time")


class Hold(Job):
    def perform(self, release):
        testify(self.jid, "began")
        while not Path(os.environ["EVIDENCE"], release).exists():
            time.sleep(0.01)
        testify(self.jid, "finished")
"""
SELF = """
process = Sidekiq::ProcessSet.new.find { |each| each["pid"] == GIVEN } or raise "not listed"
"""


@pytest.fixture(scope="module", autouse=True)
def worker(server, python_worker):
    """Ours, performing what Ruby lets out of the sets again."""
    with python_worker(JOBS, "-c", "2") as worker:
        yield worker


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.url)
    yield client
    client.close()


@pytest.fixture
def in_set(worker, client, redis):
    """Pushes a failing job; returns its jid once it is in `retry` or `dead`."""

    def push(key, item):
        jid = client.push({"args": [2**70, "\u2028", -0.0], **item})
        wait_until(lambda: has(redis, key, jid), what=lambda: f"{jid} in {key}; {worker.output}")
        return jid

    return push


def has(redis, key, jid) -> bool:
    return any(jid.encode() in member for member in redis.zrange(key, 0, -1))


@pytest.mark.operation("Process#quiet!")
def test_quiet_from_ruby_lets_the_running_job_finish_and_takes_no_new_one(
    server, python_worker, client, evidence, redis
):
    with python_worker(JOBS, "-q", "quieted") as worker:
        held = client.push({"class": "Hold", "args": ["release-quiet"], "queue": "quieted"})
        evidence.wait(held)

        run_ruby(f"{SELF} process.quiet!; answer true", server.url, given=worker.pid)
        script = f"{SELF} answer [process['quiet'], process.stopping?, process['busy']]"
        wait_until(
            lambda: run_ruby(script, server.url, given=worker.pid) == ["true", True, 1],
            what=lambda: f"Ruby seeing it quiet; {worker.output}",
        )
        client.push({"class": "Witness", "args": [], "queue": "quieted", "jid": "too-late"})
        (evidence.folder / "release-quiet").touch()

        assert evidence.wait(held, 2).said == "'finished'"
        wait_until(
            lambda: run_ruby(script, server.url, given=worker.pid) == ["true", True, 0],
            what="Ruby seeing no job running",
        )
        assert redis.llen("queue:quieted") == 1 and not evidence.of("too-late")
        assert worker.is_running


@pytest.mark.operation("Process#stop!")
def test_stop_from_ruby_ends_our_process_in_order_and_takes_it_off_the_list(
    server, python_worker, client, evidence, redis
):
    with python_worker(JOBS, "-q", "stopped") as worker:
        held = client.push({"class": "Hold", "args": ["release-stop"], "queue": "stopped"})
        evidence.wait(held)

        run_ruby(f"{SELF} process.stop!; answer true", server.url, given=worker.pid)
        script = f"{SELF} answer process.stopping?"
        wait_until(lambda: run_ruby(script, server.url, given=worker.pid), what="its stopping")
        (evidence.folder / "release-stop").touch()

        assert worker.wait() == 0
        assert evidence.wait(held, 2).said == "'finished'"
        pids = run_ruby('answer Sidekiq::ProcessSet.new.map { |each| each["pid"] }', server.url)
        assert worker.pid not in pids
        assert find_identity(redis, worker.pid) is None


@pytest.mark.operation("Process#dump_threads")
def test_dump_threads_from_ruby_logs_where_our_threads_are(server, python_worker):
    with python_worker(JOBS, "-q", "dumped") as worker:
        run_ruby(f"{SELF} process.dump_threads; answer true", server.url, given=worker.pid)

        worker.wait_for_output("kiqbridge-heartbeat")
        assert worker.is_running


@pytest.mark.operation("RetrySet: retry")
def test_retry_from_ruby_runs_our_failed_job_at_once_with_the_same_arguments(
    in_set, redis_url, evidence, redis
):
    jid = in_set("retry", {"class": "FailOnce"})

    run_ruby(f"answer Sidekiq::RetrySet.new.find_job({jid!r}).retry.class.name", redis_url)

    assert evidence.wait(jid, 2).said == evidence.of(jid)[0].said
    assert evidence.of(jid)[1].said == r"(1180591620717411303424, '\u2028', -0.0)"
    assert not has(redis, "retry", jid)


@pytest.mark.operation("RetrySet: kill")
def test_kill_from_ruby_moves_our_failed_job_to_the_dead_set(in_set, redis_url, redis):
    jid = in_set("retry", {"class": "Fail"})
    [member] = [m for m in redis.zrange("retry", 0, -1) if jid.encode() in m]

    run_ruby(f"Sidekiq::RetrySet.new.find_job({jid!r}).kill; answer true", redis_url)

    assert not has(redis, "retry", jid)
    assert redis.zscore("dead", member) == pytest.approx(time.time(), abs=60)


@pytest.mark.operation("DeadSet: retry, kill")
def test_a_job_that_ruby_kills_by_its_text_is_revived_and_performed_here(
    client, redis_url, evidence
):
    script = """
    job = Sidekiq::Queue.new("doomed").first
    Sidekiq::DeadSet.new.kill(job.value)
    job.delete
    dead = Sidekiq::DeadSet.new.find_job(job.jid)
    dead.item["queue"] == "doomed" or raise "another queue"
    answer dead.jid
    """
    jid = client.push({"class": "Witness", "args": [1.0], "queue": "doomed"})
    assert run_ruby(script, redis_url) == jid

    revive = f"""
    dead = Sidekiq::DeadSet.new.find_job({jid!r})
    dead.item["queue"] = "default"
    Sidekiq::Client.push(dead.item)
    dead.delete
    answer Sidekiq::DeadSet.new.find_job({jid!r}).nil?
    """
    assert run_ruby(revive, redis_url) is True
    assert evidence.wait(jid).said == "(1.0,)"


@pytest.mark.operation("RetrySet: delete")
def test_deleting_an_entry_of_a_set_in_ruby_removes_exactly_our_job(in_set, redis_url, redis):
    gone = in_set("retry", {"class": "Fail"})
    kept = in_set("retry", {"class": "Fail"})

    run_ruby(f"Sidekiq::RetrySet.new.find_job({gone!r}).delete; answer true", redis_url)

    assert not has(redis, "retry", gone) and has(redis, "retry", kept)


@pytest.mark.operation("Queue: delete, clear")
def test_deleting_a_queued_job_in_ruby_removes_exactly_our_job(client, redis_url, redis):
    jids = client.push_bulk(
        {"class": "Witness", "args": [[-0.0], [2**70], ["\u2028"]], "queue": "waiting"}
    )

    run_ruby(f'Sidekiq::Queue.new("waiting").find_job({jids[1]!r}).delete; answer true', redis_url)

    left = redis.lrange("queue:waiting", 0, -1)
    assert len(left) == 2 and not any(jids[1].encode() in text for text in left)


@pytest.mark.operation("ScheduledSet: run, move, delete")
def test_add_to_queue_from_ruby_runs_our_scheduled_job_now(client, redis_url, evidence, redis):
    jid = client.push({"class": "Witness", "args": [-0.0], "at": time.time() + 9000})

    run_ruby(f"Sidekiq::ScheduledSet.new.find_job({jid!r}).add_to_queue; answer true", redis_url)

    assert evidence.wait(jid).said == "(-0.0,)"
    assert not has(redis, "schedule", jid)


@pytest.mark.operation("ScheduledSet: run, move, delete")
def test_reschedule_from_ruby_makes_our_poller_run_it_at_the_new_time(client, redis_url, evidence):
    jid = client.push({"class": "Witness", "args": [2**70], "at": time.time() + 9000})
    script = f"""
    due = Time.now.to_f + 0.5
    Sidekiq::ScheduledSet.new.find_job({jid!r}).reschedule(due)
    answer due
    """

    due = run_ruby(script, redis_url)

    testimony = evidence.wait(jid)
    assert testimony.said == "(1180591620717411303424,)"
    assert due - 0.001 <= testimony.at <= due + 5


@pytest.mark.operation("Stats#reset")
def test_a_statistic_that_ruby_resets_goes_on_counting_from_zero(
    worker, client, redis_url, evidence, redis
):
    counted = evidence.wait(client.push({"class": "Witness", "args": []})).at
    process = find_identity(redis, worker.pid)
    wait_until(
        lambda: float(redis.hget(process, "beat")) > counted + 0.5, what="a beat that flushed it"
    )

    run_ruby('Sidekiq::Stats.new.reset("processed"); answer true', redis_url)
    evidence.wait(client.push({"class": "Witness", "args": []}))

    script = "answer Sidekiq::Stats.new.processed"
    wait_until(lambda: run_ruby(script, redis_url) == 1, what=lambda: redis.get("stat:processed"))
