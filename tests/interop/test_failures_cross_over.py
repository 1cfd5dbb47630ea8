"""A job fails in one language and is retried in the other, by the other's poller and worker."""

import time
from typing import Any

import pytest
from support.engine import EngineProcess
from support.ruby import run_ruby
from support.waiting import wait_until

from kiqbridge import Client
from kiqbridge.engine.settle.settling import settle_all

pytestmark = pytest.mark.interop

DIRECTION = "A job fails in one and goes on in the other"

PYTHON_JOBS = """
from kiqbridge import Job
from support.evidence import testify


class Fragile(Job):
    def perform(self, fails_in, *args):
        testify(self.jid, ("python", args))
        if "python" in fails_in:
            raise KeyError("in Python \\u2028 \\U0001f600")
"""
RUBY_JOBS = """
Sidekiq.configure_server { |config| config.options[:poll_interval_average] = 0.2 }

class Fragile
  include Sidekiq::Worker

  def perform(fails_in, *args)
    right = args[0] == 2**70 && 1 / args[1] == -Float::INFINITY && args[2] == "\\u2028"
    testify(jid, right ? "ruby, right" : "ruby, wrong: #{args.inspect}")
    raise ArgumentError, "in Ruby \\u2028 \\u{1F600}" if fails_in.include?("ruby")
  end
end
"""
ARGS = [2**70, -0.0, "\u2028"]
IN_PYTHON = r"('python', (1180591620717411303424, -0.0, '\u2028'))"
IN_RUBY = "ruby, right"
ENTRY = """
job = Sidekiq::{set}.new.find_job({jid!r})
answer item: job.item, klass: job.klass, score: job.score, backtrace: job.error_backtrace,
       kinds: %w[created_at enqueued_at failed_at retried_at].map { |name| job.item[name].class.name },
       right: job.args[1] == 2**70 && 1 / job.args[2] == -Float::INFINITY && job.args[3] == "\\u2028"
"""
RUBY_POLLER_BOUND_S = 20


def entry(url: str, jid: str, which: str) -> dict[str, Any]:
    """What Ruby reads of a failed job."""
    return run_ruby(ENTRY.replace("{set}", which).replace("{jid!r}", repr(jid)), url)


def wait_for_failure(redis, jid: str, count: int, *, into: str = "retry") -> bytes:
    """Wait for the failure that wrote this retry_count; returns the member."""
    fragments = (jid.encode(), f'"retry_count":{count},'.encode())

    def find() -> list[bytes]:
        return [
            member
            for member in redis.zrange(into, 0, -1)
            if all(fragment in member[:-1] + b"," for fragment in fragments)
        ]

    wait_until(find, what=lambda: f"{fragments} in {into}: {redis.zrange(into, 0, -1)}")
    return find()[0]


def is_nowhere(redis, jid: str, queue: str) -> bool:
    """Whether nothing is left of a job that was performed."""
    members = redis.zrange("retry", 0, -1) + redis.zrange("dead", 0, -1)
    texts = members + redis.lrange(f"queue:{queue}", 0, -1)
    return not any(jid.encode() in text for text in texts)


def make_due(redis, member: bytes) -> None:
    assert redis.zadd("retry", {member: time.time() - 1}, xx=True, ch=True) == 1


def push(url: str, *, queue: str, fails_in: list[str], **options: Any) -> str:
    client = Client(url)
    try:
        return client.push(
            {"class": "Fragile", "args": [fails_in, *ARGS], "queue": queue, **options}
        )
    finally:
        client.close()


def push_from_ruby(url: str, *, queue: str, fails_in: list[str], **options: Any) -> str:
    script = r"""
    args = [GIVEN["fails_in"], 2**70, -0.0, "\u2028"]
    answer Sidekiq::Client.push("class" => "Fragile", "args" => args, "queue" => GIVEN["queue"],
                                **GIVEN["options"])
    """
    return run_ruby(script, url, given={"fails_in": fails_in, "queue": queue, "options": options})


@pytest.mark.operation("Ruby, then Python")
def test_a_job_that_failed_in_ruby_fails_here_again_and_dies_after_its_last_retry(
    server, ruby_worker, python_worker, evidence, redis
):
    url = server.url
    options = {"retry": 2, "backtrace": True, "tags": ["a"], "tenant": {"id": 7}}
    jid = push_from_ruby(url, queue="shared-2", fails_in=["ruby", "python"], **options)
    with ruby_worker(RUBY_JOBS, queues=["shared-2"]):
        wait_for_failure(redis, jid, 0)
    first = entry(url, jid, "RetrySet")["item"]
    assert first["error_class"] == "ArgumentError"
    assert first["error_message"] == "in Ruby \u2028 \U0001f600"

    with python_worker(PYTHON_JOBS, "-q", "shared-2"):
        make_due(redis, wait_for_failure(redis, jid, 0))
        wait_for_failure(redis, jid, 1)
        second = entry(url, jid, "RetrySet")
        make_due(redis, wait_for_failure(redis, jid, 1))
        wait_for_failure(redis, jid, 2, into="dead")
        third = entry(url, jid, "DeadSet")

    assert [line.said for line in evidence.of(jid)] == [IN_RUBY, IN_PYTHON, IN_PYTHON]
    check_second_failure(first, second, error_class="KeyError")
    assert 16 <= second["score"] - second["item"]["retried_at"] <= 16 + 20 + 1
    assert begins_in_job("python", second["backtrace"][0])
    assert third["item"]["retry_count"] == 2 and third["right"] is True
    assert third["item"]["retried_at"] > second["item"]["retried_at"]
    assert third["score"] == pytest.approx(third["item"]["retried_at"], abs=1)
    kept = ("jid", "args", "created_at", "failed_at", "tenant", "tags", "retry", "queue")
    assert [third["item"][name] for name in kept] == [first[name] for name in kept]
    assert not any(jid.encode() in member for member in redis.zrange("retry", 0, -1))


@pytest.mark.operation("Python, then Ruby")
def test_ruby_reads_revives_and_deletes_each_of_two_identical_jobs(server, redis):
    text = b'{"class":"Fragile","args":[1],"jid":"twin","queue":"shared-9","retry_count":0}'
    redis.lpush("queue:twins", text, text)
    with EngineProcess(server.url) as process:
        chunk = process.claimer().claim(["twins"], 2)
        jobs = [(text, 1.5, text, ())] * 2
        settle_all(process.connect(), process.keys, chunk, jobs, target="retry")

    found = run_ruby(
        """
        jobs = Sidekiq::RetrySet.new.to_a
        items = jobs.map(&:item)
        jobs[0].retry
        jobs[1].delete
        answer items: items, left: Sidekiq::RetrySet.new.size, queued: Sidekiq::Queue.new("shared-9").size
        """,
        server.url,
    )

    assert [item["jid"] for item in found["items"]] == ["twin", "twin"]
    assert (found["left"], found["queued"]) == (0, 1)


@pytest.mark.operation("Python, then Ruby")
def test_a_job_that_failed_here_fails_in_ruby_again_and_dies_after_its_last_retry(
    server, ruby_worker, python_worker, evidence, redis
):
    url = server.url
    options = {"retry": 2, "backtrace": 5, "tags": ["a"], "tenant": {"id": 7}}
    jid = push(url, queue="shared-4", fails_in=["ruby", "python"], **options)
    with python_worker(PYTHON_JOBS, "-q", "shared-4") as worker:
        wait_for_failure(redis, jid, 0)
        assert worker.stop() == 0
    first = entry(url, jid, "RetrySet")["item"]
    assert first["error_class"] == "KeyError"

    make_due(redis, wait_for_failure(redis, jid, 0))
    with ruby_worker(RUBY_JOBS, queues=["shared-4"]):
        evidence.wait(jid, 2, timeout_s=RUBY_POLLER_BOUND_S)
        make_due(redis, wait_for_failure(redis, jid, 1))
        evidence.wait(jid, 3, timeout_s=RUBY_POLLER_BOUND_S)
        wait_for_failure(redis, jid, 2, into="dead")
        third = entry(url, jid, "DeadSet")

    assert [line.said for line in evidence.of(jid)] == [IN_PYTHON, IN_RUBY, IN_RUBY]
    check_second_failure(first, third, error_class="ArgumentError", count=2)
    assert begins_in_job("ruby", third["backtrace"][0])


@pytest.mark.operation("retry_queue")
@pytest.mark.parametrize(("one", "other"), [("ruby", "python"), ("python", "ruby")])
def test_retry_queue_hands_a_job_that_fails_in_one_over_to_the_other_which_performs_it(  # noqa: PLR0917 - fixtures
    server, ruby_worker, python_worker, evidence, redis, one, other
):
    url = server.url
    with (
        ruby_worker(RUBY_JOBS, queues=["ruby"]),
        python_worker(PYTHON_JOBS, "-q", "python"),
    ):
        pushed = {"ruby": push_from_ruby, "python": push}[one]
        jid = pushed(url, queue=one, fails_in=[one], retry_queue=other)
        make_due(redis, wait_for_failure(redis, jid, 0))

        said = {"ruby": IN_RUBY, "python": IN_PYTHON}
        assert evidence.wait(jid, 2).said == said[other]
    assert [each.said for each in evidence.of(jid)] == [said[one], said[other]]
    assert is_nowhere(redis, jid, other)


def check_second_failure(
    first: dict[str, Any], later: dict[str, Any], *, error_class: str, count: int = 1
) -> None:
    """What the other language must have kept, and what it must have changed."""
    item = later["item"]
    kept = ("jid", "class", "args", "queue", "retry", "backtrace", "tags", "tenant")
    kept += ("created_at", "failed_at")
    assert [item[name] for name in kept] == [first[name] for name in kept]
    assert (later["klass"], later["right"]) == ("Fragile", True)
    assert item["retry_count"] == count
    assert item["error_class"] == error_class
    assert ("Python" if error_class == "KeyError" else "Ruby") in item["error_message"]
    assert "\u2028" in item["error_message"] or r"\u2028" in item["error_message"]
    assert item["retried_at"] > item["failed_at"]
    assert item["enqueued_at"] > first["enqueued_at"]
    assert later["kinds"] == ["Float"] * 4


def begins_in_job(language: str, line: str) -> bool:
    """Whether a backtrace begins where the job of that language raised."""
    return (
        "interop_jobs.py:" if language == "python" else "jobs.rb:"
    ) in line and "perform" in line
