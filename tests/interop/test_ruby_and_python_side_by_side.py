"""A Ruby process and one of ours at once on one Redis: each performs what its queues hold."""

import time

import pytest
from support.ruby import run_ruby
from support.waiting import wait_until

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


@pytest.mark.operation("ProcessSet")
def test_ruby_lists_both_processes_each_with_its_own_queues(workers, redis_url):
    ruby, python = workers
    script = 'answer Sidekiq::ProcessSet.new.to_h { |each| [each["pid"], each["queues"]] }'

    wait_until(
        lambda: (
            run_ruby(script, redis_url) == {str(ruby.pid): ["rails"], str(python.pid): ["default"]}
        ),
        what=lambda: f"both of them: {run_ruby(script, redis_url)}",
    )


@pytest.mark.operation("Stats")
def test_both_count_into_the_same_statistics(redis_url, client, evidence):
    jids = client.push_bulk({"class": "Work", "args": [[n] for n in range(5)]})
    jids += push_from_ruby(redis_url, "rails", 5)
    for jid in jids:
        evidence.wait(jid)

    def counts() -> tuple[int, int]:
        ran = sum(len(evidence.of(file.name)) for file in evidence.folder.iterdir())
        return run_ruby("answer Sidekiq::Stats.new.processed", redis_url), ran

    def all_are_counted() -> bool:
        processed, ran = counts()
        return processed >= ran

    # Ruby beats every 5 s. It sends the numbers of a beat again when the reply takes longer than 5 s (protocol §11).
    wait_until(all_are_counted, 20, lambda: f"as many counted as ran: {counts()}")
    assert run_ruby("answer Sidekiq::Stats.new.failed", redis_url) == 0
