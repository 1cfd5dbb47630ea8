"""`kiqbridge schedule` with several shards: schedules are found on each, their ledgers are read together."""

import json
import time

import pytest
from support.servers import embedded_server

from kiqbridge.client.schedules import Schedules
from kiqbridge.clocks.manifest_store import read_manifests
from kiqbridge.commands.cli import main
from kiqbridge.schedule.definition import ScheduleDefinition

TEMPLATE = """\
Resources:
  Enqueue:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: lambdas/enqueue
      Handler: app.lambda_handler
      Events:
        Nightly:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(0 3 * * ? *)
            Input: !Sub '{"class": "A", "args": [], "tick": {"schedule": "${AWS::StackName}/Nightly",
              "at": "<aws.scheduler.scheduled-time>"}}'
        Mails:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(0 4 * * ? *)
            Input: !Sub '{"class": "B", "args": [], "queue": "mail", "tick": {"schedule": "${AWS::StackName}/Mails",
              "at": "<aws.scheduler.scheduled-time>"}}'
"""


@pytest.fixture
def client(shards, monkeypatch):
    for name, value in shards.environ.items():
        monkeypatch.setenv(name, value)
    client = shards.client()
    yield client
    client.close()


@pytest.fixture
def run(client, capsys):
    def call(*words, code=0):
        assert main(["schedule", *map(str, words)]) == code, capsys.readouterr()
        return capsys.readouterr()

    return call


@pytest.fixture
def template(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "template.yaml"
    path.write_text(TEMPLATE)
    return path


def save(client, name, queue, **when):
    job = {"class": "Work", "args": [], "queue": queue}
    when = {"expression": "* * * * *", **when}
    Schedules(client).save(ScheduleDefinition(name=name, **when, jobs=(job,)))


def gem(raw, name, cron="*/5 * * * *", status="enabled"):
    """A schedule of sidekiq-cron."""
    fields = {"name": name, "klass": "EchoJob", "cron": cron, "args": "[]", "status": status}
    raw.sadd("cron_jobs", f"cron_job:{name}")
    raw.hset(f"cron_job:{name}", mapping=fields)


def test_list_has_those_of_all_shards_their_pauses_and_those_of_ruby(client, shards, run):
    save(client, "a", "mail")
    save(client, "b", "critical")
    Schedules(client).pause("b", reason="migration")
    gem(shards.raw["rest"], "ruby")

    rows = {each["name"]: each for each in json.loads(run("list", "--redis", "--json").out)}

    assert {name: row["place"] for name, row in rows.items()} == {
        "a": "Redis, shard mail",
        "b": "Redis, shard fast",
        "ruby": "Redis, shard rest",
    }
    assert [rows[name]["state"] for name in rows] == ["enabled", "paused", "enabled"]


def test_an_occurrence_with_jobs_on_several_shards_is_one(client, run):
    items = [{"class": "Work", "args": [], "queue": queue} for queue in ("mail", "critical")]
    every_minute = ScheduleDefinition(name="a", expression="* * * * *", jobs=tuple(items))
    Schedules(client).save(every_minute)
    at = int(time.time()) // 60 * 60 - 120
    client.push_tick("a", at, items, by="test:1")
    client.push_tick("a", at + 60, items[1:], by="test:2")

    found = json.loads(run("history", "a", "--json").out)

    assert found["expression"] == "* * * * *"
    assert [(each["at"], len(each["jobs"])) for each in found["instants"]] == [
        (at + 60, 1),
        (at, 2),
    ]
    assert {job["jid"] for job in found["instants"][1]["jobs"]} == set(client.find_tick("a", at))
    assert len(json.loads(run("history", "a", "--count", "1", "--json").out)["instants"]) == 1
    [row] = json.loads(run("list", "--redis", "--json").out)
    assert (row["by"], row["outcome"]) == ("test:2", "open")
    assert "no schedule is named 'x'" in run("history", "x", code=2).err


def test_a_column_names_the_shard_of_each_and_one_shard_is_chosen(client, shards, run):
    save(client, "a", "mail")
    save(client, "b", "critical")
    gem(shards.raw["rest"], "ruby")

    lines = run("list", "--redis").out.splitlines()
    assert lines[0].split()[:2] == ["SHARD", "SCHEDULE"]
    assert {tuple(line.split()[:2]) for line in lines[1:-1] if not line.startswith(" ")} == {
        ("mail", "a"),
        ("fast", "b"),
        ("rest", "ruby"),
    }
    rows = json.loads(run("list", "--redis", "--json").out)
    assert {each["name"]: each["shard"] for each in rows} == {
        "a": "mail",
        "b": "fast",
        "ruby": "rest",
    }

    chosen = run("list", "--shard", "fast").out  # without --redis: a file lies on no shard
    assert "SHARD" not in chosen
    assert [line.split()[0] for line in chosen.splitlines()] == ["SCHEDULE", "b", "*", "1"]
    both = run("list", "--shard", "fast", "--shard", "rest", "--json").out
    assert {each["name"] for each in json.loads(both)} == {"b", "ruby"}
    assert "'nope' is not one of the shards" in run("list", "--shard", "nope", code=2).err


def test_a_template_beside_redis_lies_on_no_shard(client, run, template):
    save(client, "a", "mail")

    lines = run("list", "--template", template, "--redis").out.splitlines()

    shown = {line.split()[1]: line.split()[0] for line in lines[1:-1] if not line.startswith(" ")}
    assert shown == {"a": "mail", "kiqbridge/Nightly": "-", "kiqbridge/Mails": "-"}


@pytest.mark.parametrize("verb", ["lint", "simulate"])
def test_lint_and_simulate_look_at_the_shard_that_is_named(client, run, verb):
    skipped_in_spring = {"expression": "30 2 * * *", "timezone": "Europe/Paris"}
    save(client, "a", "mail", **skipped_in_spring)
    save(client, "b", "critical", **skipped_in_spring)
    form = ("--format", "json") if verb == "simulate" else ("--json",)

    found = run(verb, "--shard", "fast", *form).out

    assert '"b"' in found
    assert '"a"' not in found


def test_the_history_of_one_shard_has_the_jobs_of_that_shard(client, run):
    save(client, "a", "mail")
    items = [{"class": "Work", "args": [], "queue": queue} for queue in ("mail", "critical")]
    client.push_tick("a", int(time.time()) // 60 * 60 - 60, items, by="test:1")

    [instant] = json.loads(run("history", "a", "--shard", "fast", "--json").out)["instants"]

    assert len(instant["jobs"]) == 1


def test_a_template_is_published_and_withdrawn_on_the_shards_of_its_schedules(
    client, shards, run, template
):
    stack = ("--stack", "shop")
    looked = json.loads(run("publish", *stack, "--dry-run", "--json").out)
    assert (looked["outcome"], looked["schedules"], looked["standing"]) == ("published", 2, None)
    assert "2 schedules published" in run("publish", *stack).out

    assert {name: raw.hkeys("kb:schedules") for name, raw in shards.raw.items()} == {
        "mail": [b"shop/Mails"],
        "fast": [],
        "rest": [b"shop/Nightly"],
    }
    shards.raw["mail"].delete("kb:manifests", "kb:schedules")  # as if it was cut in two
    assert json.loads(run("publish", *stack, "--json").out)["outcome"] == "published"
    assert "are published already" in run("publish", *stack).out
    assert "2 schedules, nothing fires differently" in run("plan", "live", template).out
    assert "shop: 0 schedules published" in run("publish", *stack, "--withdraw").out
    assert not any(raw.exists("kb:schedules") for raw in shards.raw.values())
    for one in client.each():
        assert read_manifests(one.pool, one.keys)["shop"].names == ()


def test_ruby_schedules_are_read_and_switched_on_the_shard_where_they_are(client, shards, run):
    gem(shards.raw["rest"], "one")
    gem(shards.raw["mail"], "two")
    gem(shards.raw["rest"], "two", cron="0 3 * * *")
    imported = run("import", "--from-redis", "--dynamic")

    assert "one:" in imported.out
    assert "two is another one on shard rest" in imported.err
    assert "two: nothing here is called two" in run("import", "--disable", "two", code=1).err
    job = {"class": "EchoJob", "args": [], "queue": "critical"}
    Schedules(client).save(ScheduleDefinition(name="two", expression="* * * * *", jobs=(job,)))
    assert "disabled: two" in run("import", "--disable", "two", "--yes").out
    states = [shards.raw[name].hget("cron_job:two", "status") for name in ("mail", "rest")]
    assert states == [b"disabled", b"disabled"]
    assert "enabled: two" in run("import", "--enable", "two", "--yes").out


def test_a_shard_that_is_away_is_named_and_never_taken_for_empty(
    client, shards, run, template, monkeypatch
):
    save(client, "a", "critical")
    run("publish", "--stack", "shop")
    with embedded_server() as away:
        url = away.url
    setting = {**shards.setting, "mail": {**shards.setting["mail"], "url": url}}
    monkeypatch.setenv("KIQBRIDGE_SHARDS", json.dumps(setting))

    listed = run("list", "--redis", "--json")
    assert {each["name"] for each in json.loads(listed.out)} == {"a", "shop/Nightly"}
    assert "shard mail is away" in listed.err
    assert "cannot be reached" in run("plan", "live", template, code=3).err
