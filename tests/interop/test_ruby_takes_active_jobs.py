"""Ruby takes the Active Jobs that our client writes. Rails itself is not there: a stand-in for its
wrapper notes what it was given; the bytes are compared in tests/features/active_job/test_vectors.py.
"""

import datetime as dt
import json

import pytest
import redis as redis_py
from support.ruby import run_ruby

from kiqbridge import Client
from kiqbridge.features.active_job.values import Symbol

pytestmark = pytest.mark.interop

DIRECTION = "Python enqueues, Ruby performs"

JOBS = """
module ActiveJob
  module QueueAdapters
    class SidekiqAdapter
      class JobWrapper
        include Sidekiq::Worker

        def perform(job_data)
          testify(jid, JSON.generate(job_data))
        end
      end
    end
  end
end
"""
SHOWN = """
answer(Sidekiq::Queue.new("shown").map { |job| [job.display_class, job.display_args] })
"""


@pytest.fixture(scope="module", autouse=True)
def sidekiq(ruby_worker):
    with ruby_worker(JOBS, queues=["rails"]) as sidekiq:
        yield sidekiq


@pytest.mark.operation("Active Job")
def test_the_wrapper_gets_the_serialized_job(server, evidence):
    client = Client(server.url)

    jid = client.push(
        {
            "active_job": "NightlyJob",
            "queue": "rails",
            "args": [1, dt.date(2026, 11, 20), {Symbol("copy"): Symbol("yes")}],
            "locale": "de",
        }
    )

    data = json.loads(evidence.wait(jid).said)
    assert data["job_class"] == "NightlyJob"
    assert data["locale"] == "de"
    assert data["arguments"] == [
        1,
        {"_aj_serialized": "ActiveJob::Serializers::DateSerializer", "value": "2026-11-20"},
        {
            "copy": {"_aj_serialized": "ActiveJob::Serializers::SymbolSerializer", "value": "yes"},
            "_aj_symbol_keys": ["copy"],
        },
    ]
    client.close()


@pytest.mark.operation("Active Job")
def test_rubys_api_shows_the_class_and_arguments_inside_the_wrapper(server):
    client = Client(server.url)
    client.push({"active_job": "NightlyJob", "queue": "shown", "args": [1, "two"]})
    client.push(
        {
            "active_job": "ActionMailer::MailDeliveryJob",
            "queue": "shown",
            "args": ["OrderMailer", "confirm", "deliver_now"],
            "kwargs": {"args": [42]},
        }
    )

    assert run_ruby(SHOWN, server.url) == [
        ["OrderMailer#confirm", [42]],
        ["NightlyJob", [1, "two"]],
    ]
    client.close()


@pytest.mark.operation("wire profile `auto`")
def test_a_living_ruby_process_of_version_6_keeps_the_profile_at_7(server):
    info = json.dumps({"version": "8.1.7", "labels": []})
    with redis_py.Redis.from_url(server.url) as redis:
        others = {*redis.smembers("processes")}
        redis.sadd("processes", "new:1:abc")
        redis.hset("new:1:abc", "info", info)

        beside_ruby = Client(server.url, profile="auto").wire_profile()
        redis.srem("processes", *others)  # until its next beat
        alone = Client(server.url, profile="auto").wire_profile()

        redis.srem("processes", "new:1:abc")
        redis.delete("new:1:abc")
    assert len(others) == 1
    assert (beside_ruby, alone) == ("7", "8")
