"""The schedules of the gem sidekiq-cron, as it was recorded to write them."""

import json
from pathlib import Path

from kiqbridge.clocks.sidekiq_cron import SidekiqCronJob, read_sidekiq_cron, set_cron_status
from kiqbridge.wire.keys import Keys

VECTORS = Path(__file__).parent.parent / "vectors" / "cron-1.8.0.json"
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
