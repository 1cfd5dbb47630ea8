"""Real Rails (Active Job with its adapter for Sidekiq) enqueues with `perform_later`; our worker performs.

In Rails a job is a stub: its name and queue, and no code.
"""

import json
import time

import pytest
import redis as redis_py
from support.ruby import run_ruby
from support.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.rails]

DIRECTION = "Rails enqueues, Python performs"

JOBS = """
import os
import time

from kiqbridge import IterableJob, Job, job, rails
from support.evidence import testify


def note(*said):
    testify(rails.current_job().job_id, said)


@job(name="NightlyJob")
def nightly(*args, **kwargs):
    note(args, kwargs)


@job(name="OnLoopJob")
async def on_loop(*args):
    note(args, rails.current_job().executions)


@job(name="InProcessJob", pool="process")
def in_process(*args):
    note(args, os.getpid())


@job(name="LoopInProcessJob", pool="process")
async def loop_in_process(*args):
    note(args, os.getpid())


class Close(Job):
    class_name = "Billing::CloseMonthJob"

    def perform(self, month, year=2026, *, copy=False):
        note(month, year, copy)


@job(name="OptionsJob")
def options(given):
    note(given)


class Pages(IterableJob):
    class_name = "PagesJob"

    def build_enumerator(self, first, last, *, cursor):
        return iter([(page, page) for page in range(first, last) if cursor is None or page > cursor])

    def each_iteration(self, page, first, last):
        note(page, first, last)


class Refused(Exception):
    pass


@job(name="FailingJob", on_error={Refused: "discard"}, retry_in=lambda count, error, job: 4000)
def failing(kind):
    note(rails.current_job().executions, dict(rails.current_job().exception_executions))
    raise Refused if kind == "refused" else LookupError(kind)


@job(name="SlowJob", timeout_s=0.2)
def slow():
    while True:
        time.sleep(0.01)


@job(name="ContextJob")
def context():
    job = rails.current_job()
    note(job.job_class, job.queue_name, job.priority, job.locale, job.timezone)
"""
RAILS = """
require "bigdecimal"
require "active_support/all"
require "active_job"
require "global_id"

ActiveJob::Base.queue_adapter = :sidekiq
ActiveJob::Base.logger = Logger.new(nil)
Time.zone = "Europe/Berlin"
GlobalID.app = "shop"

class Order
  include GlobalID::Identification
  attr_reader :id

  def initialize(id)
    @id = id
  end
end

%w[NightlyJob OnLoopJob InProcessJob LoopInProcessJob OptionsJob PagesJob FailingJob SlowJob ContextJob
   NobodysJob].each do |name|
  Object.const_set(name, Class.new(ActiveJob::Base) { queue_as :python })
end

module Billing
  class CloseMonthJob < ActiveJob::Base
    queue_as :python
  end
end
"""


@pytest.fixture(scope="module")
def worker(python_worker):
    with python_worker(JOBS, "-c", "3", "-q", "python", "-q", "low") as worker:
        yield worker


@pytest.fixture
def enqueue(worker, server):
    """Runs a piece of Rails; answers the id that Active Job gave the job."""
    return lambda code: run_ruby(f"{RAILS}\nanswer(({code}).job_id)", server.url)


@pytest.fixture
def redis(server):
    with redis_py.Redis.from_url(server.url) as redis:
        yield redis


def in_set(redis, name, wanted):
    return [
        (json.loads(text), score)
        for text, score in redis.zrange(name, 0, -1, withscores=True)
        if wanted.encode() in text
    ]


@pytest.mark.operation("arguments")
@pytest.mark.parametrize(
    ("ruby", "python"),
    [
        ("nil", "None"),
        ("true", "True"),
        ("2**70", "1180591620717411303424"),
        ("1.5", "1.5"),
        ('"Zoë <b>"', "'Zo\\xeb <b>'"),
        ("[1, [nil, :a]]", "[1, [None, Symbol('a')]]"),
        (":copy", "Symbol('copy')"),
        ('{ "a" => 1 }.merge({ "b" => :c })', "{'a': 1, 'b': Symbol('c')}"),
        ("Date.new(2026, 11, 20)", "datetime.date(2026, 11, 20)"),
        (
            "Time.utc(2026, 11, 20, 8, 30, 1.25r)",
            "datetime.datetime(2026, 11, 20, 8, 30, 1, 250000, tzinfo=datetime.timezone.utc)",
        ),
        (
            "Time.zone.local(2026, 7, 1, 8)",
            "datetime.datetime(2026, 7, 1, 8, 0, tzinfo=datetime.timezone(datetime.timedelta(seconds=7200)))",
        ),
        (
            "DateTime.new(2026, 1, 2, 3, 4, 5)",
            "datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)",
        ),
        ("90.minutes", "datetime.timedelta(seconds=5400)"),
        ("Order.new(7)", "GlobalID('gid://shop/Order/7')"),
        ("Billing", "'Billing'"),
        ('{ "a" => 1 }.with_indifferent_access', "{'a': 1}"),
    ],
)
def test_an_argument_of_rails_arrives_as_pythons_own(enqueue, evidence, ruby, python):
    job_id = enqueue(f"NightlyJob.perform_later({ruby}, 0)")

    assert evidence.wait(job_id).said == ascii_of(f"((({python}, 0), {{}}))")


def ascii_of(text):
    return text.removeprefix("(").removesuffix(")")


@pytest.mark.operation("arguments")
def test_a_hash_in_braces_is_a_dict_whose_symbol_keys_equal_their_texts(enqueue, evidence):
    job_id = enqueue('OptionsJob.perform_later({ copy: true, "day" => 3 })')

    assert evidence.wait(job_id).said == "({Symbol('copy'): True, 'day': 3},)"


@pytest.mark.operation("keyword arguments")
def test_keywords_of_rails_are_keywords_of_the_python_function(enqueue, evidence):
    job_id = enqueue('Billing::CloseMonthJob.perform_later("2026-01", year: 2027, copy: true)')

    assert evidence.wait(job_id).said == "('2026-01', 2027, True)"


@pytest.mark.operation("keyword arguments")
def test_keywords_are_one_dict_for_a_function_that_names_none_of_them(enqueue, evidence):
    job_id = enqueue("OptionsJob.perform_later(copy: true)")

    assert evidence.wait(job_id).said == "({Symbol('copy'): True},)"


@pytest.mark.operation("keyword arguments")
def test_keywords_have_their_places_in_an_iterable_job(enqueue, evidence, redis):
    job_id = enqueue("PagesJob.perform_later(1, last: 3)")

    wait_until(
        lambda: len(evidence.of(job_id)) == 2, what=lambda: str(in_set(redis, "retry", job_id))
    )
    assert [each.said for each in evidence.of(job_id)] == ["(1, 1, 3)", "(2, 1, 3)"]


@pytest.mark.operation("pools")
def test_an_async_function_performs_on_the_event_loop(enqueue, evidence):
    job_id = enqueue("OnLoopJob.perform_later(1, :two)")

    assert evidence.wait(job_id).said == "((1, Symbol('two')), 1)"


@pytest.mark.operation("pools")
@pytest.mark.parametrize("name", ["InProcessJob", "LoopInProcessJob"])
def test_a_function_of_the_process_pool_performs_in_a_child(enqueue, evidence, worker, name):
    job_id = enqueue(f"{name}.perform_later(1, :two)")

    said = evidence.wait(job_id).said
    assert said.startswith("((1, Symbol('two')), ") and str(worker.pid) not in said


@pytest.mark.operation("wait, queue and priority")
def test_wait_queue_and_priority_of_rails_count(enqueue, evidence):
    begun = time.time()

    job_id = enqueue('ContextJob.set(wait: 1, queue: "low", priority: 7).perform_later')

    told = evidence.wait(job_id)
    assert told.at - begun >= 1
    assert told.said == "('ContextJob', 'low', 7, 'en', 'Europe/Berlin')"


@pytest.mark.operation("failures")
def test_a_failed_job_waits_for_its_retry_as_rails_enqueued_it(enqueue, evidence, redis):
    job_id = enqueue('FailingJob.perform_later("no such month")')

    evidence.wait(job_id)
    [(payload, score)] = wait_until(lambda: in_set(redis, "retry", job_id), what="its retry")

    assert payload["wrapped"] == "FailingJob" and payload["retry_count"] == 0
    assert payload["error_class"] == "LookupError"
    assert score - time.time() > 3900  # retry_in of the Python declaration
    assert payload["args"][0]["executions"] == 0


@pytest.mark.operation("failures")
def test_on_error_and_timeout_of_the_python_declaration_count(enqueue, evidence, redis):
    refused = enqueue('FailingJob.perform_later("refused")')
    slow = enqueue("SlowJob.perform_later")

    evidence.wait(refused)
    [(payload, _)] = wait_until(lambda: in_set(redis, "retry", slow), what="its time-out")

    assert "timeout_s" in payload["error_message"]
    assert not in_set(redis, "retry", refused) and not in_set(redis, "dead", refused)


@pytest.mark.operation("failures")
def test_a_class_that_python_does_not_declare_is_retried_as_unknown_by_its_own_name(enqueue, redis):
    job_id = enqueue("NobodysJob.perform_later")

    [(payload, _)] = wait_until(lambda: in_set(redis, "retry", job_id), what="its retry")

    assert payload["error_class"] == "NameError"
    assert payload["error_message"].startswith("uninitialized constant NobodysJob")


@pytest.mark.operation("executions")
def test_executions_of_a_job_that_rails_retried_are_counted_on(enqueue, evidence):
    job_id = enqueue(
        "FailingJob.new('again').tap { |job| job.executions = 2; "
        "job.exception_executions = { '[Timeout::Error]' => 2 }; job.enqueue }"
    )

    assert evidence.wait(job_id).said == "(3, {'[Timeout::Error]': 2})"


@pytest.mark.operation("executions")
def test_retries_of_sidekiq_leave_executions_as_rails_sees_them(enqueue, evidence, redis, server):
    job_id = enqueue("FailingJob.perform_later('twice')")
    wait_until(lambda: in_set(redis, "retry", job_id), what="its retry")

    run_ruby(
        f"answer Sidekiq::RetrySet.new.select {{ |job| job.value.include?('{job_id}') }}.map(&:retry)",
        server.url,
    )

    assert evidence.wait(job_id, 2).said == "(1, {})"


@pytest.mark.operation("metrics and log")
def test_metrics_and_log_lines_name_the_class_inside(enqueue, evidence, redis, worker):
    job_id = enqueue("NightlyJob.perform_later(1)")
    evidence.wait(job_id)

    def measured():
        return [key for key in redis.keys("j|*") if redis.hexists(key, "NightlyJob|p")]

    wait_until(measured, what="its metrics")
    assert not any(b"Wrapper" in name for key in redis.keys("j|*") for name in redis.hkeys(key))
    wait_until(lambda: "NightlyJob" in worker.output, what="its lines")
    assert "Wrapper" not in worker.output
