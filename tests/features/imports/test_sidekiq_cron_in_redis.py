"""The schedules of the gem sidekiq-cron, as it was recorded to write them."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from kiqbridge.api import ScheduleSet
from kiqbridge.features.imports.sidekiq_cron import (
    SidekiqCronJob,
    read_sidekiq_cron,
    set_cron_status,
)
from kiqbridge.schedule.definition import ScheduleDefinition
from kiqbridge.wire.keys import Keys

VECTORS = Path(__file__).parents[2] / "vectors" / "cron-1.8.0.json"
OPERATIONS = {
    each["operation"]: each
    for each in json.loads(VECTORS.read_text(encoding="utf-8"))["operations"]
}
WRITES = {"sadd", "srem", "hmset", "hset", "del", "zadd", "lpush", "ltrim"}


def replay(pool, *operations):
    """What the gem sent, sent again."""
    for name in operations:
        for command in OPERATIONS[name]["commands"]:
            if command[0] in WRITES:
                pool.call(*command)


def test_without_the_gem_there_is_nothing(pool):
    assert read_sidekiq_cron(pool, Keys()) == []


def test_what_the_gem_wrote_is_read(pool):
    replay(pool, "create", "create_unknown_class", "create_active_job", "create_date")

    assert read_sidekiq_cron(pool, Keys()) == [
        SidekiqCronJob(
            name="My job",
            cron="*/5 * * * *",
            job_class="EchoJob",
            enabled=True,
            args=[1, "x"],
            queue="cronq",
            description="every five",
        ),
        SidekiqCronJob(
            name="aj",
            cron="0 3 * * *",
            job_class="Remote::AjJob",
            enabled=True,
            args=[],
            queue="pre_mail",
            active_job=True,
        ),
        SidekiqCronJob(
            name="date",
            cron="0 3 * * *",
            job_class="EchoJob",
            enabled=False,
            args=[],
            date_as_argument=True,
        ),
        SidekiqCronJob(
            name="unk",
            cron="0 3 * * * Europe/Berlin",
            job_class="Remote::Job",
            enabled=True,
            args=[{"k": 1}],
        ),
    ]


def test_the_last_enqueuing_is_an_instant(pool):
    replay(pool, "create", "enqueue_now")

    [found] = read_sidekiq_cron(pool, Keys())

    assert found.last_enqueue_time == int(OPERATIONS["enqueue_now"]["wall_clock"])


def test_a_broken_schedule_is_logged_and_hides_no_other(pool, caplog):
    replay(pool, "create")
    pool.call("SADD", "cron_jobs", "cron_job:gone", "cron_job:text", "something")
    pool.call("HSET", "cron_job:text", "cron", "* * * * *", "klass", "A", "args", "[")

    assert [each.name for each in read_sidekiq_cron(pool, Keys())] == ["My job"]
    assert [record.args[0] for record in caplog.records] == ["gone", "text"]


def test_switching_off_leaves_what_the_gem_itself_leaves(pool):
    replay(pool, "create_minimal", "disable")
    wanted = pool.call("HGETALL", "cron_job:min")
    pool.call("FLUSHDB")
    replay(pool, "create_minimal")

    assert set_cron_status(pool, Keys(), "min", "disabled") == "enabled"

    assert pool.call("HGETALL", "cron_job:min") == wanted
    assert set_cron_status(pool, Keys(), "min", "disabled") == "disabled"
    assert set_cron_status(pool, Keys(), "min", "enabled") == "disabled"


def test_what_is_no_schedule_of_the_gem_is_not_made_one(pool):
    assert set_cron_status(pool, Keys(), "none", "disabled") is None
    assert pool.call("KEYS", "*") == []


def test_a_namespace_prefixes_the_keys_alone(pool):
    pool.call("SADD", "app:cron_jobs", "cron_job:a")
    pool.call("HSET", "app:cron_job:a", "cron", "* * * * *", "klass", "A", "status", "enabled")

    [found] = read_sidekiq_cron(pool, Keys("app"))
    set_cron_status(pool, Keys("app"), "a", "disabled")

    assert found.enabled
    assert not read_sidekiq_cron(pool, Keys("app"))[0].enabled


def test_schedules_of_the_ruby_gem_are_shown_beside_ours(redis, operator, monkeypatch):
    now = int(time.time())
    hour = now // 3600 * 3600
    monkeypatch.setattr("kiqbridge.api.schedules.server_time", lambda _reply: float(now))
    schedules = ScheduleSet(operator)
    at = datetime.fromtimestamp(hour, UTC)
    for name, cron, status in (
        ("hourly", "0 * * * *", "enabled"),
        ("off", "0 * * * *", "disabled"),
    ):
        redis.sadd("cron_jobs", f"cron_job:{name}")
        fields = {"name": name, "klass": "RubyJob", "cron": cron, "status": status, "args": "[]"}
        fields["last_enqueue_time"] = f"{at:%Y-%m-%d %H:%M:%S} +0000"
        redis.hset(f"cron_job:{name}", mapping=fields)

    rows = {row.name: row for row in schedules}

    assert (rows["hourly"].origin, rows["hourly"].classes) == ("sidekiq-cron", ["RubyJob"])
    assert rows["hourly"].next_at == hour + 3600
    assert [each.at for each in rows["hourly"].occurrences] == [hour]
    assert (rows["off"].state, rows["off"].next_at) == ("disabled", None)
    assert schedules.find("hourly").origin == "sidekiq-cron"


def test_schedules_of_sidekiq_cron_stand_last(run, redis):
    ours = ScheduleDefinition(
        name="ours", expression="0 3 * * *", jobs=({"class": "A", "args": []},)
    )
    redis.hset("kb:schedules", "ours", json.dumps(ours.to_document()))
    for name, cron, status in (("ruby", "0 1 * * *", "enabled"), ("off", "0 1 * * *", "disabled")):
        redis.sadd("cron_jobs", f"cron_job:{name}")
        fields = {"name": name, "cron": cron, "klass": "RubyJob", "status": status}
        redis.hset(f"cron_job:{name}", mapping=fields)

    words = ["schedule", "list", "--from", "2026-11-22T15:00Z", "--redis"]
    lines = run(*words)[1].splitlines()
    rows = {each["name"]: each for each in json.loads(run(*words, "--json")[1])}

    assert [line.split()[0] for line in lines[1:-1:2]] == ["ours", "off", "ruby"]
    assert "  0 1 * * * UTC · RubyJob in default · sidekiq-cron (Ruby)" in lines
    assert rows["off"]["next"] is None
    assert rows["ruby"]["next"] == "2026-11-23T01:00:00Z"
