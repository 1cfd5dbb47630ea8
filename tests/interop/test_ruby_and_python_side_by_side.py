"""A Ruby process and one of ours at once on one Redis: each performs what its queues hold."""

import time

import pytest
from support.ruby import run_ruby

pytestmark = pytest.mark.interop

DIRECTION = "Both at once"

PYTHON_JOBS = """
from kiqbridge import Job
from support.evidence import testify


class Work(Job):
    def perform(self, number):
        testify(self.jid, ["python", number])
"""
RUBY_JOBS = """
Sidekiq.configure_server { |config| config.options[:poll_interval_average] = 0.1 }

class Work
  include Sidekiq::Worker

  def perform(number)
    testify(jid, ["ruby", number].inspect)
  end
end
"""


@pytest.fixture(scope="module", autouse=True)
def workers(ruby_worker, python_worker):
    with (
        ruby_worker(RUBY_JOBS, queues=["rails"]) as ruby,
        python_worker(PYTHON_JOBS, "-q", "default") as python,
    ):
        yield ruby, python


def push_from_ruby(url: str, queue: str, count: int) -> list[str]:
    script = """
    answer Sidekiq::Client.push_bulk("class" => "Work", "queue" => GIVEN["queue"],
                                     "args" => (0...GIVEN["count"]).map { |number| [number] })
    """
    return run_ruby(script, url, given={"queue": queue, "count": count})


@pytest.mark.operation("queues")
@pytest.mark.parametrize("language", ["python", "ruby"])
def test_each_process_performs_its_own_queue_whoever_pushed(language, redis_url, client, evidence):
    queue = {"python": "default", "ruby": "rails"}[language]
    quote = {"python": "'", "ruby": '"'}[language]

    jids = push_from_ruby(redis_url, queue, 50)
    jids += client.push_bulk({"class": "Work", "queue": queue, "args": [[n] for n in range(50)]})

    said = [evidence.wait(jid).said for jid in jids]
    assert said == [f"[{quote}{language}{quote}, {number}]" for number in [*range(50)] * 2]
    assert all(len(evidence.of(jid)) == 1 for jid in jids)


@pytest.mark.operation("scheduled jobs")
def test_both_pollers_move_each_due_job_once_and_to_its_own_queue(client, redis_url, evidence):
    due = time.time() + 0.5
    times = [due + 0.005 * number for number in range(100)]
    here = client.push_bulk({"class": "Work", "args": [[n] for n in range(100)], "at": times})
    there = client.push_bulk(
        {"class": "Work", "queue": "rails", "args": [[n] for n in range(100)], "at": times}
    )

    assert [evidence.wait(jid).said for jid in here] == [f"['python', {n}]" for n in range(100)]
    assert [evidence.wait(jid).said for jid in there] == [f'["ruby", {n}]' for n in range(100)]
    assert all(len(evidence.of(jid)) == 1 for jid in here + there)
