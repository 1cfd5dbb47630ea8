"""`kiqbridge schedule plan` on the command line."""

import json

import pytest
from support.project import template_text

from kiqbridge.features.publishing.function import publish_manifest
from kiqbridge.features.publishing.manifest import build_manifest
from kiqbridge.store.redis_pool import RedisPool
from kiqbridge.wire.keys import Keys

EVENT = """\
        {name}:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: {expression}
            ScheduleExpressionTimezone: Europe/Paris
            Input: !Sub '{{"class": "A", "args": [], "queue": "{queue}", "tick":
              {{"schedule": "${{AWS::StackName}}/{name}", "at": "<aws.scheduler.scheduled-time>"}}}}'
"""
DAYS = ("Sun 2026-11-22", "Mon 2026-11-23", "Tue 2026-11-24")
HEAD = """\
Resources:
  Enqueue:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: lambdas/enqueue
      Handler: app.lambda_handler
      Events:
"""


def template(expression="cron(0 3 * * ? *)", queue="default", name="Nightly"):
    return HEAD + EVENT.format(name=name, expression=expression, queue=queue)


@pytest.fixture
def run(run, tmp_path):
    def plan(old, new, *words):
        paths = []
        for name, text in (("old", old), ("new", new)):
            path = tmp_path / f"{name}.yaml"
            path.write_text(text)
            paths.append("live" if text == "live" else str(path))
        return run("schedule", "plan", *paths, "--from", "2026-11-22", *words)

    return plan


def test_nothing_is_different(run):
    assert run(template(), template()) == (
        0,
        "30 days from 2026-11-22 00:00 UTC: 1 schedule, nothing fires differently\n",
        "",
    )


def test_a_schedule_that_moved(run):
    status, out, _ = run(template(), template("cron(0 4 * * ? *)", "low"))

    assert status == 1
    first = [f"{day} 03:00 CET = 02:00 UTC" for day in DAYS]
    second = [f"{day} 04:00 CET = 03:00 UTC" for day in DAYS]
    head = "30 days from 2026-11-22 00:00 UTC: 1 of 1 schedule different (1 moved, 1 job); "
    assert out.splitlines() == [
        f"{head}30 firings fewer, 30 more",
        "",
        "~ kiqbridge/Nightly  moved, job",
        "    cron(0 3 * * ? *) Europe/Paris -> cron(0 4 * * ? *) Europe/Paris",
        f"    30 firings fewer: {', '.join(first)} …",
        f"    30 firings more: {', '.join(second)} …",
        "    queue: default -> low",
    ]


def test_a_schedule_that_is_new_and_one_that_is_gone(run):
    status, out, _ = run(template(), template(name="Other"), "--days", "1")

    assert status == 1
    assert "+ kiqbridge/Other  added" in out
    assert "- kiqbridge/Nightly  removed" in out
    assert "    1 firing more: Sun 2026-11-22 03:00 CET = 02:00 UTC\n" in out


def test_markdown(run):
    _, out, _ = run(template(), template(queue="low"), "--format", "markdown")

    assert out.splitlines()[2:] == [
        "| schedule | change | what |",
        "|---|---|---|",
        "| `kiqbridge/Nightly` | job | cron(0 3 * * ? *) Europe/Paris<br>queue: default -> low |",
    ]


def test_json(run):
    status, out, _ = run(template(), template("cron(0 4 * * ? *)"), "--json")

    found = json.loads(out)
    assert status == 1
    assert (found["from"], found["days"], found["different"]) == ("2026-11-22T00:00:00Z", 30, True)
    [change] = found["changes"]
    assert (change["name"], change["kinds"]) == ("kiqbridge/Nightly", ["moved"])
    assert (change["fewer"], change["more"]) == (30, 30)
    assert change["first_more"][0] == "2026-11-22T03:00:00Z"
    assert change["new"]["expression"] == "cron(0 4 * * ? *)"


def test_exit_codes(run):
    assert run(template(), template(name="Other"), "--exit-zero")[0] == 0
    assert run(template(), template("cron(0 3 * * * *)"))[0] == 2
    assert run(template(), template(), "--from", "soon")[0] == 2
    assert run(template(), template(), "--days", "0")[0] == 2


def publish(redis_url, text, tmp_path, stack="shop", version=1):
    path = tmp_path / "published.yaml"
    path.write_text(text)
    manifest = build_manifest(path, version=version).to_document()
    publish_manifest(RedisPool(redis_url), Keys(), manifest, stack=stack, by="test")


def test_what_is_published_against_a_template(run, redis, redis_url, tmp_path):
    text = template_text()
    publish(redis_url, text, tmp_path)

    assert run("live", text)[:2] == (
        0,
        "30 days from 2026-11-22 00:00 UTC: 4 schedules, nothing fires differently\n",
    )
    status, out, _ = run("live", text.replace("cron(0 3 *", "cron(0 4 *"))
    assert status == 1
    assert "~ shop/NightlyReport  moved" in out


def test_which_stack(run, redis, redis_url, tmp_path):
    assert "there is none at all" in run("live", template())[2]
    for stack in ("shop", "other"):
        publish(redis_url, template(), tmp_path, stack)
    status, _, err = run("live", template())
    assert status == 2
    assert "live: no manifest of stack ? is published in Redis, there are: other, shop" in err
    assert run("live", template(), "--stack-name", "other")[0] == 0
