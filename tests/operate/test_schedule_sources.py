"""Where the verbs of `kiqbridge schedule` find schedules."""

import argparse
import json
import os
import threading
from pathlib import Path

import pytest

from kiqbridge.commands.schedule_sources import add_source_arguments, read_sources
from kiqbridge.errors import ConfigError, RedisUnavailable
from kiqbridge.schedule.definition import ScheduleDefinition

TEMPLATE = """\
Resources:
  Enqueue:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: lambdas/enqueue
      Handler: app.lambda_handler
      Events:
        # lint: ignore KB103
        Nightly:
          Type: ScheduleV2
          Properties:
            ScheduleExpression: cron(0 3 * * ? *)
            Input: !Sub '{"class": "A", "args": [], "tick": {"schedule": "${AWS::StackName}/Nightly",
              "at": "<aws.scheduler.scheduled-time>"}}'
"""
FILE = """\
pulse:
  expression: '*/5 * * * *'
  timezone: Europe/Paris
  class: Pulse
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "template.yaml").write_text(TEMPLATE)
    (tmp_path / "file.yml").write_text(FILE)
    return tmp_path


def sources(*words):
    parser = argparse.ArgumentParser()
    add_source_arguments(parser)
    return read_sources(parser.parse_args(words))


def places(*words):
    return {each.name: each.place for each in sources(*words).schedules}


def test_the_template_of_this_folder_unless_another_source_is_named(folder):
    assert places() == {"kiqbridge/Nightly": "template.yaml:9"}
    assert places("--file", "file.yml") == {"pulse": "file.yml:1"}


def test_without_any_source_it_says_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigError, match=r"there is no template\.yaml in this folder; name"):
        sources()


def test_without_an_option_all_that_is_known_here_is_read_with_its_origin(
    folder, redis, redis_url, monkeypatch
):
    origins = {"shop/Nightly": "template", "shop/Old": "template", "Digest": "code", "d": "dynamic"}
    for name, origin in origins.items():
        definition = ScheduleDefinition(
            name=name, expression="@daily", jobs=({"class": "D"},), origin=origin
        )
        redis.hset("kb:schedules", name, json.dumps(definition.to_document()))
    monkeypatch.setenv("REDIS_URL", redis_url)

    found = sources().schedules

    assert {each.name: each.definition.origin for each in found} == origins
    assert found[0].place == "template.yaml:9"


def test_redis_that_does_not_answer_is_left_out_unless_it_was_asked_for(
    folder, monkeypatch, capsys
):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")

    assert places() == {"kiqbridge/Nightly": "template.yaml:9"}
    assert "the schedules of Redis are left out" in capsys.readouterr().err
    with pytest.raises(RedisUnavailable):
        places("--redis")


def test_what_jobs_declare_is_read_without_redis(folder):
    (folder / "declares_here.py").write_text(
        "from kiqbridge import job\n\n\n@job(every='1h')\ndef digest_of_a_file() -> None: ...\n"
    )

    assert "declares_here.py" in places("-r", str(folder / "declares_here.py"))["digest_of_a_file"]


def test_several_sources_in_the_order_template_file_redis(folder, redis, redis_url, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis_url)
    for name in ("kiqbridge/Nightly", "pulse", "dynamic"):
        definition = ScheduleDefinition(name=name, expression="@daily", jobs=({"class": "D"},))
        redis.hset("kb:schedules", name, json.dumps(definition.to_document()))

    assert places("--redis") == dict.fromkeys(["dynamic", "kiqbridge/Nightly", "pulse"], "Redis")
    assert places("--redis", "--file", "file.yml", "--template", "template.yaml") == {
        "kiqbridge/Nightly": "template.yaml:9",
        "pulse": "file.yml:1",
        "dynamic": "Redis",
    }


def test_what_is_known_of_a_schedule_of_a_template_and_of_a_file(folder):
    [found] = sources("--stack-name", "shop").schedules
    [other] = sources("--file", "file.yml").schedules

    about = (found.name, found.kind, found.function, found.classes, found.queues)
    assert about == ("shop/Nightly", "ScheduleV2", "Enqueue", "A", "default")
    assert (found.ignored, found.names_zone) == ({"KB103"}, False)
    assert (other.definition.timezone, other.names_zone) == ("Europe/Paris", True)


def test_parameters_and_answers(folder):
    text = TEMPLATE.replace("cron(0 3 * * ? *)", "!Ref When")
    (folder / "template.yaml").write_text(
        f"Parameters:\n  When: {{Type: String, Default: rate(1 day)}}\n{text}"
    )
    (folder / "samconfig.toml").write_text(
        '[default.deploy.parameters]\nparameter_overrides = ["When=rate(2 days)"]\n'
    )

    def expression(*words):
        return sources(*words).schedules[0].definition.expression

    assert expression() == "rate(1 day)"
    assert expression("--answers", "samconfig.toml") == "rate(2 days)"
    assert expression("--answers", "samconfig.toml", "--parameter", "When=rate(3 days)") == (
        "rate(3 days)"
    )


def test_a_pipe_is_read_once(folder):
    pipe = folder / "pipe.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: Path(pipe).write_text(TEMPLATE))
    writer.start()

    assert places("--template", str(pipe)) == {"kiqbridge/Nightly": f"{pipe}:9"}
    writer.join()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("pulse: 5\n", r"file\.yml:1: schedule 'pulse': a schedule must be a mapping"),
        ("- pulse\n", "the file must be a mapping"),
        ("pulse: {expression: '* * * * *'}\n", "file.yml:1: schedule 'pulse'"),
        ("pulse: {expression: '61 * * * *', class: A}\n", "minute: '61' is out of range"),
        ("pulse: [\n", "this is not YAML"),
    ],
)
def test_a_file_that_cannot_be_read(folder, text, reason):
    (folder / "file.yml").write_text(text)

    with pytest.raises(ConfigError, match=reason):
        sources("--file", "file.yml")
