"""The real handler of the enqueue function enqueues, Ruby's real worker process performs."""

import json
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.enqueue_function import Context, load_app
from support.project import lay_out
from support.values import VALUES

from kiqbridge.schedule.rule_input import SCHEDULED_TIME
from kiqbridge.schedule.template import read_schedules

pytestmark = pytest.mark.interop

DIRECTION = "Lambda enqueues, Ruby performs"

JUDGEMENTS = "\n".join(f"->(v) {{ {value.judge} }}," for value in VALUES)
JOBS = f"""
Sidekiq.configure_server {{ |config| config.options[:poll_interval_average] = 0.2 }}

module Interop
  JUDGEMENTS = [
{JUDGEMENTS}
  ]

  # Judges all values at once.
  class Jury
    include Sidekiq::Worker

    def perform(*args)
      wrong = args.each_index.reject {{ |index| JUDGEMENTS.fetch(index).call(args[index]) }}
      testify(jid, "#{{args.size}} judged, wrong: #{{wrong}}")
    end
  end

  class Witness
    include Sidekiq::Worker

    def perform(*args)
      testify(jid, args.inspect)
    end
  end
end

module Billing
  class CloseDayJob
    include Sidekiq::Worker

    def perform
      testify(jid, "the day is closed")
    end
  end
end
"""


@pytest.fixture(scope="module", autouse=True)
def sidekiq(ruby_worker):
    with ruby_worker(JOBS, queues=["default", "rails"]) as sidekiq:
        yield sidekiq


@pytest.fixture
def invoke(redis_url, monkeypatch):
    """Calls the handler as Lambda does: the event went through JSON, and so does the answer."""
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("KIQBRIDGE_ALLOWED_CLASSES", "Interop::*")
    monkeypatch.setenv("KIQBRIDGE_ALLOWED_QUEUES", "default,rails")

    app = load_app()

    def call(event):
        return json.loads(json.dumps(app.lambda_handler(json.loads(json.dumps(event)), Context())))

    return call


@pytest.mark.operation("values")
def test_all_values_of_a_direct_invocation_reach_the_ruby_job_unchanged(invoke, evidence):
    answer = invoke({"class": "Interop::Jury", "args": [value.python for value in VALUES]})

    [job] = answer["enqueued"]
    assert evidence.wait(job["jid"]).said == f"{len(VALUES)} judged, wrong: []"


@pytest.mark.operation("push")
def test_several_jobs_of_one_invocation_run_each_on_its_queue(invoke, evidence):
    jobs = [
        {"class": "Interop::Witness", "args": [2**70]},
        {"class": "Interop::Witness", "args": [-0.0, "\u2028"], "queue": "rails"},
    ]

    answer = invoke({"jobs": jobs})

    said = [evidence.wait(job["jid"]).said for job in answer["enqueued"]]
    assert said == ["[1180591620717411303424]", r'[-0.0, "\u2028"]']


@pytest.mark.operation("cron rule")
def test_the_rule_whose_class_lives_in_ruby_is_performed_by_ruby_once_per_tick(
    invoke, evidence, monkeypatch
):
    rule = rule_for_ruby()
    for name in ("KIQBRIDGE_ALLOWED_CLASSES", "KIQBRIDGE_ALLOWED_QUEUES"):
        monkeypatch.setenv(name, rule.function.environment[name])
    today = datetime.now(UTC).replace(second=0, microsecond=0)
    tick, next_tick = (delivered(rule, today + timedelta(days=days)) for days in (-1, 0))

    [first] = invoke(tick)["enqueued"]
    [duplicate] = invoke(tick)["duplicates"]
    [second] = invoke(next_tick)["enqueued"]

    assert (first["class"], first["queue"]) == ("Billing::CloseDayJob", "rails")
    assert duplicate["jid"] == first["jid"] != second["jid"]
    assert evidence.wait(second["jid"]).said == "the day is closed"
    evidence.wait(first["jid"])
    assert len(evidence.of(first["jid"])) == 1


def rule_for_ruby():
    """The one rule as shipped on the queue that the Python worker does not serve."""
    with tempfile.TemporaryDirectory() as folder:
        schedules = read_schedules(lay_out(Path(folder)))
    [rule] = [rule for rule in schedules if [job["queue"] for job in rule.jobs] == ["rails"]]
    return rule


def delivered(rule, due: datetime):
    """The rule's Input as EventBridge Scheduler delivers it for that time."""
    text = rule.input.replace(SCHEDULED_TIME, due.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return json.loads(text)
