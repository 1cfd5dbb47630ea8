"""`kiqbridge schedule import` beside sidekiq-cron: read from Redis, apply, switch off what is replaced."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml

VECTORS = Path(__file__).parents[2] / "vectors" / "cron-1.8.0.json"
OPERATIONS = {
    each["operation"]: each["commands"]
    for each in json.loads(VECTORS.read_text(encoding="utf-8"))["operations"]
}
REPLACED = "save min --every 1h --class EchoJob".split()  # noqa: SIM905 - as it is typed
CREATED = ("create", "create_minimal", "create_unknown_class", "create_active_job", "create_date")


@pytest.fixture
def run(run):
    """Runs `kiqbridge schedule`."""
    return partial(run, "schedule")


@pytest.fixture(autouse=True)
def gem(redis):
    """What sidekiq-cron was recorded to write."""
    for name in CREATED:
        for command, *rest in OPERATIONS[name]:
            if command in ("sadd", "hmset", "zadd"):
                redis.execute_command(command, *rest)


def status(redis, name):
    return redis.hget(f"cron_job:{name}", "status").decode()


def test_its_schedules_are_read_from_redis(run):
    code, out, err = run("import", "--from-redis", "--dynamic")

    assert code == 1  # one has date_as_argument
    assert "date_as_argument" in err
    assert yaml.safe_load(out) == {
        "My-job": {
            "expression": "*/5 * * * *",
            "class": "EchoJob",
            "args": [1, "x"],
            "queue": "cronq",
            "description": "every five",
        },
        "aj": {
            "expression": "0 3 * * *",
            "active_job": "Remote::AjJob",
            "args": [],
            "queue": "pre_mail",
        },
        "min": {"expression": "0 3 * * *", "class": "EchoJob", "args": [], "queue": "default"},
        "unk": {
            "expression": "0 3 * * * Europe/Berlin",
            "timezone": "Europe/Berlin",
            "class": "Remote::Job",
            "args": [{"k": 1}],
            "queue": "default",
        },
    }


def test_they_become_events_that_fire_as_before(run):
    _, out, err = run("import", "--from-redis", "--verify", "400d")

    assert "ScheduleExpressionTimezone: Europe/Berlin" in out
    assert "\n        MyJob:\n" in out
    assert "0 for no known reason" in err


def test_without_the_gem_there_is_nothing_to_read(run, redis):
    redis.flushdb()

    code, out, err = run("import", "--from-redis")

    assert (code, out) == (2, "")
    assert "no schedules in this Redis" in err


class TestApply:
    def test_they_are_saved_as_dynamic_schedules(self, run, redis):
        code, out, err = run("import", "--from-redis", "--apply")

        assert (code, out) == (1, "")
        assert "created My-job" in err
        assert sorted(redis.hkeys("kb:schedules")) == [b"My-job", b"aj", b"min", b"unk"]
        saved = json.loads(redis.hget("kb:schedules", "aj"))
        assert saved["jobs"][0]["active_job"] == "Remote::AjJob"
        assert "unchanged min" in run("import", "--from-redis", "--apply")[2]

    def test_a_dry_run_and_strict_save_nothing(self, run, redis):
        run("import", "--from-redis", "--apply", "--dry-run")
        run("import", "--from-redis", "--apply", "--strict")

        assert not redis.exists("kb:schedules")

    def test_a_crontab_is_saved_as_well(self, run, redis, tmp_path):
        path = tmp_path / "crontab"
        path.write_text(
            "# at night\n0 3 * * * bin/rails runner 'A.perform_async(1)'\n0 4 * * * x y\n"
        )

        assert run("import", path, "--apply")[0] == 0

        assert json.loads(redis.hget("kb:schedules", "A"))["description"] == "at night"
        assert json.loads(redis.hget("kb:schedules", "X"))["jobs"][0]["retry"] == 0


class TestDisable:
    def test_what_is_replaced_is_switched_off_and_on_again(self, run, redis):
        run("import", "--from-redis", "--apply")
        before = redis.hgetall("cron_job:min")

        assert run("import", "--disable", "min", "My job", "--yes") == (
            0,
            "disabled: min\ndisabled: My job\n",
            "",
        )

        assert redis.hgetall("cron_job:min") == {**before, b"status": b"disabled"}
        assert run("import", "--disable", "min", "--yes")[:2] == (0, "nothing to be disabled\n")
        assert run("import", "--enable", "min", "--yes")[1] == "enabled: min\n"
        assert redis.hgetall("cron_job:min") == before

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            ([], "nothing here is called min or STACK/Min"),
            (["save min --every 1h --class Other"], "min enqueues Other"),
            (["save min --at 2020-01-01T00:00:00Z --class EchoJob"], "min is never due again"),
            (["save min --every 1h --class EchoJob", "pause min"], "min is paused"),
            (["save min --every 1h --class EchoJob", "disable"], "min is disabled"),
        ],
    )
    def test_what_is_not_replaced_stays(self, run, redis, spoil, reason):
        for line in spoil:
            if line == "disable":
                saved = json.loads(redis.hget("kb:schedules", "min")) | {"enabled": False}
                redis.hset("kb:schedules", "min", json.dumps(saved))
            else:
                run(*line.split())

        code, out, err = run("import", "--disable", "min", "--yes")

        assert (code, out) == (1, "nothing to be disabled\n")
        assert reason in err
        assert status(redis, "min") == "enabled"

    def test_a_published_rule_of_a_template_replaces(self, run, redis):
        rule = {
            "expression": "cron(0 3 * * ? *)",
            "jobs": [{"class": "EchoJob", "args": []}],
            "origin": "template",
        }
        redis.hset("kb:schedules", "shop/Min", json.dumps(rule))

        assert run("import", "--disable", "min", "--yes")[0] == 0
        assert status(redis, "min") == "disabled"

    def test_all_takes_those_that_are_replaced(self, run, redis):
        run(*REPLACED)

        code, out, err = run("import", "--all", "--yes")

        assert (code, out) == (0, "disabled: min\n")
        assert "left as it is: unk" in err
        assert [status(redis, name) for name in ("min", "unk")] == ["disabled", "enabled"]

    def test_nobody_to_ask_and_no_yes_changes_nothing(self, run, redis):
        run(*REPLACED)

        code, _, err = run("import", "--disable", "min")

        assert code == 2
        assert "--yes" in err
        assert status(redis, "min") == "enabled"

    def test_a_dry_run_and_json(self, run, redis):
        run(*REPLACED)

        assert run("import", "--disable", "min", "--dry-run")[1] == "would be disabled: min\n"
        answer = json.loads(run("import", "--disable", "min", "x", "--json", "--yes")[1])

        assert answer["disabled"] == ["min"]
        assert "no such schedule" in answer["left"]["x"]
        assert status(redis, "min") == "disabled"

    def test_both_at_once_is_refused(self, run):
        assert run("import", "--enable", "min", "--all")[0] == 2
