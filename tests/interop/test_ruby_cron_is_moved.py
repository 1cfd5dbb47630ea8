"""The gem sidekiq-cron keeps schedules in the Redis that we use: moved here, and switched off there."""

import json

import pytest
from support.ruby import run_ruby

from kiqbridge.commands import cli
from kiqbridge.features.imports.sidekiq_cron import read_sidekiq_cron
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

pytestmark = [pytest.mark.interop, pytest.mark.cron]

DIRECTION = "Schedules of sidekiq-cron"

CREATE = """
require "sidekiq-cron"
class EchoJob; include Sidekiq::Worker; end
Sidekiq::Cron::Job.create(name: "My job", cron: "*/5 * * * *", class: "EchoJob", args: [1, "x"], queue: "low")
Sidekiq::Cron::Job.create(name: "paris", cron: "0 3 * * * Europe/Paris", class: "Remote::Job", args: {"k" => 1})
Sidekiq::Cron::Job.create(name: "off", cron: "0 4 * * *", class: "Remote::Job", status: "disabled")
answer Sidekiq::Cron::Job.all.map(&:name).sort
"""

STATE = """
require "sidekiq-cron"
class EchoJob; include Sidekiq::Worker; end
answer Sidekiq::Cron::Job.all.map { |job|
  enqueued = job.test_and_enque_for_time!(Time.at(Time.now.to_i / 300 * 300 + 305))
  [job.name, [job.status, !enqueued.nil?]]
}.to_h
"""


@pytest.fixture
def run(server, monkeypatch, capsys):
    monkeypatch.setenv("REDIS_URL", server.url)

    def run(*args):
        return cli.main(["schedule", "import", *args]), *capsys.readouterr()

    return run


@pytest.fixture(autouse=True)
def created(server):
    server.flush()
    assert run_ruby(CREATE, server.url) == ["My job", "off", "paris"]


@pytest.mark.operation("Schedules in Redis")
def test_what_the_gem_saved_is_read(server):
    pool = RedisPool(server.url)
    found = {each.name: each for each in read_sidekiq_cron(pool, Keys())}
    pool.close()

    assert (found["My job"].args, found["My job"].queue) == ([1, "x"], "low")
    assert found["paris"].args == [{"k": 1}]
    assert [found[name].status for name in ("My job", "off")] == ["enabled", "disabled"]


@pytest.mark.operation("Schedules that are switched off")
def test_the_gem_enqueues_nothing_that_was_switched_off_and_does_again_when_it_is_on(server, run):
    assert run_ruby(STATE, server.url)["My job"] == ["enabled", True]

    assert run("--from-redis", "--apply")[0] == 0
    assert run("--disable", "My job", "--yes")[0] == 0

    state = run_ruby(STATE, server.url)
    assert state["My job"] == ["disabled", False]
    assert state["paris"][0] == "enabled"
    assert run("--enable", "My job", "--yes")[0] == 0
    assert run_ruby(STATE, server.url)["My job"][0] == "enabled"


@pytest.mark.operation("Schedules that are switched off")
def test_a_schedule_that_is_saved_again_by_the_gem_stays_off(server, run):
    run("--from-redis", "--apply")
    run("--disable", "My job", "--yes")

    run_ruby(CREATE, server.url)

    assert run_ruby(STATE, server.url)["My job"] == ["disabled", False]


@pytest.mark.operation("Schedules in Redis")
def test_what_was_moved_says_the_same(run):
    _, out, _ = run("--from-redis", "--json", "--verify", "400d")
    found = {each["name"]: each for each in json.loads(out)["schedules"]}

    assert found["MyJob"]["job"] == {"class": "EchoJob", "args": [1, "x"], "queue": "low"}
    assert found["Paris"]["timezone"] == "Europe/Paris"
    assert found["Off"]["enabled"] is False
    assert all(
        each["reason"] for one in found.values() for each in one["verification"]["differences"]
    )
