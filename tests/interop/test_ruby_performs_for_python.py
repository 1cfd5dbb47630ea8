"""Our client enqueues, Ruby's real worker process performs: the Ruby job judges what it got."""

import time
from typing import ClassVar

import pytest
from support.values import BY_NAME, VALUES

import kiqbridge
from kiqbridge import Job, job
from kiqbridge.client.default_client import own_default_client

pytestmark = pytest.mark.interop

DIRECTION = "Python enqueues, Ruby performs"

JUDGEMENTS = "\n".join(f"{value.name!r} => ->(v) {{ {value.judge} }}," for value in VALUES)
JOBS = f"""
# Server middleware sees the payload, which the job itself does not.
class Payload
  def call(_worker, job, queue)
    Thread.current[:payload] = job
    Thread.current[:queue] = queue
    yield
  end
end

Sidekiq.configure_server do |config|
  config.server_middleware {{ |chain| chain.add Payload }}
  config.options[:poll_interval_average] = 0.2 # its first wait is up to 5 s all the same
end

module Interop
  JUDGEMENTS = {{
{JUDGEMENTS}
  }}

  # Judges one value, which has a name so that the test speaks of the same one.
  class Judge
    include Sidekiq::Worker

    def perform(name, v)
      testify(jid, JUDGEMENTS.fetch(name).call(v) ? "right" : "wrong: #{{v.class}} #{{v.inspect}}")
    end
  end

  class Witness
    include Sidekiq::Worker

    def perform(*args)
      testify(jid, "#{{Thread.current[:queue]}} #{{args.inspect}}")
    end
  end

  # Judges the payload with Ruby expressions.
  class PayloadJudge
    include Sidekiq::Worker

    def perform(*expressions)
      payload = Thread.current[:payload]
      wrong = expressions.reject {{ |expression| eval(expression, binding) }}
      testify(jid, wrong.empty? ? "right" : "wrong: #{{wrong.inspect}} of #{{payload.inspect}}")
    end
  end

  class Optional
    include Sidekiq::Worker

    def perform(first, second = "its default in Ruby")
      testify(jid, [first, second].inspect)
    end
  end
end
"""
POLLER_BOUND_S = 20
"""Ruby's poller first waits up to 5 s after its start; the rest is a busy machine."""


# Only declared here, for their names and signatures: Ruby performs them.
@job(name="Interop::Judge")
def judge(name, value): ...


@job(name="Interop::Witness")
def witness(*args): ...


@job(name="Interop::Optional", queue="mail")
def optional(first, second="its default in Python"): ...


class PayloadJudge(Job):
    class_name = "Interop::PayloadJudge"
    queue = "mail"
    retry = 3
    backtrace = 7
    tags: ClassVar = ["money"]
    sidekiq_options: ClassVar = {"tenant": {"id": 2**70, "name": "ac\u2028me"}}

    def perform(self, *expressions): ...


@pytest.fixture(scope="module", autouse=True)
def client(server, ruby_worker):
    """The default client of this process; what it pushes is performed in Ruby."""
    with ruby_worker(JOBS, queues=["default", "mail"]), own_default_client():
        client = kiqbridge.configure(server.url)
        yield client
        client.close()


@pytest.mark.operation("values")
@pytest.mark.parametrize("name", BY_NAME)
def test_a_value_that_python_enqueues_reaches_a_ruby_job_unchanged(name, evidence):
    jid = judge.perform_async(name, BY_NAME[name].python)

    assert evidence.wait(jid).said == "right"


PUSHES = {
    "perform_async": [
        (lambda: witness.perform_async(1, "two", [3.0, {}]), 'default [1, "two", [3.0, {}]]'),
        (lambda: optional.perform_async(second=-0.0, first="one"), '["one", -0.0]'),
        (lambda: optional.perform_async("one"), '["one", "its default in Ruby"]'),
    ],
    "set": [(lambda: witness.set(queue="mail").perform_async("by mail"), 'mail ["by mail"]')],
    "perform_at": [(lambda: witness.perform_at(time.time() - 9, "now"), 'default ["now"]')],
    "perform_bulk": [(lambda: witness.perform_bulk([[1, 1.0], [2, None]])[1], "default [2, nil]")],
}
"""Operation → what Python calls, and what the job of Ruby gets."""


@pytest.mark.parametrize(
    ("push", "said"),
    [
        pytest.param(*case, marks=pytest.mark.operation(operation), id=case[1])
        for operation, cases in PUSHES.items()
        for case in cases
    ],
)
def test_what_python_pushes_runs_in_ruby_with_its_arguments(evidence, push, said):
    assert evidence.wait(push()).said == said


@pytest.mark.operation("perform_async")
def test_options_of_a_python_class_are_in_the_payload_that_ruby_middleware_sees(evidence):
    jid = PayloadJudge.perform_async(
        'payload["class"] == "Interop::PayloadJudge"',
        'payload["queue"] == "mail" && Thread.current[:queue] == "mail"',
        'payload["retry"].eql?(3) && payload["backtrace"].eql?(7)',
        'payload["tags"] == ["money"]',
        r'payload["tenant"] == {"id" => 2**70, "name" => "ac\u2028me"}',
        'payload["jid"] == jid && jid.match?(/\\A\\h{24}\\z/)',
        'payload["created_at"].is_a?(Float) && (Time.now.to_f - payload["created_at"]).between?(0, 60)',
        'payload["enqueued_at"].is_a?(Float) && payload["enqueued_at"] >= payload["created_at"]',
        '!payload.key?("at")',
    )

    assert evidence.wait(jid).said == "right"


@pytest.mark.operation("push")
def test_push_of_a_literal_runs_a_class_that_python_does_not_know(client, evidence):
    item = {
        "class": "Interop::Witness",
        "args": [2**70, "\u2028"],
        "queue": "mail",
        "jid": "own-jid",
    }

    assert client.push(item) == "own-jid"
    assert evidence.wait("own-jid").said == r'mail [1180591620717411303424, "\u2028"]'


@pytest.mark.operation("push_bulk")
def test_push_bulk_in_batches_runs_each_job_once(client, evidence):
    jids = client.push_bulk(
        {"class": "Interop::Witness", "args": [[n] for n in range(300)], "batch_size": 70}
    )

    said = [evidence.wait(jid).said for jid in jids]
    assert said == [f"default [{number}]" for number in range(300)]
    assert [len(evidence.of(jid)) for jid in jids] == [1] * 300


@pytest.mark.operation("perform_in")
def test_perform_in_is_run_by_rubys_poller_when_it_is_due(evidence):
    due = time.time() + 0.5
    jid = witness.perform_in(0.5, "later", -0.0)

    testimony = evidence.wait(jid, timeout_s=POLLER_BOUND_S)
    assert testimony.said == 'default ["later", -0.0]'
    assert testimony.at >= due


@pytest.mark.operation("perform_bulk")
def test_bulk_with_a_time_for_each_job_is_run_by_rubys_poller(evidence):
    now = time.time()
    times = [now + 0.3, now + 0.6]
    jids = witness.perform_bulk([[1], [2]], at=times)

    for due, jid, expected in zip(times, jids, ["default [1]", "default [2]"], strict=True):
        testimony = evidence.wait(jid, timeout_s=POLLER_BOUND_S)
        assert testimony.said == expected
        assert testimony.at >= due
