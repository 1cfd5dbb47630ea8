"""The function publishes the schedules of its template: after its first push, or when it is asked."""

import contextlib
import json
from datetime import UTC, datetime

import pytest
from support.enqueue_function import Context

from kiqbridge import Client, RedisUnavailable
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.errors import ConfigError, EventError, KiqbridgeError
from kiqbridge.features.publishing import function as publishing
from kiqbridge.features.publishing.function import AGAIN_S, Publisher

RULE = {
    "expression": "cron(0 3 * * ? *)",
    "jobs": [{"class": "Report", "args": []}],
    "origin": "template",
}
JOB = {"class": "HealthPulse", "args": []}
PUBLISH = {"kiqbridge": "publish"}


def manifest(version, **schedules):
    schedules = schedules or {"Nightly": RULE}
    return {"version": version, "hash": f"{version} {list(schedules)}", "schedules": schedules}


@pytest.fixture
def layer(tmp_path, monkeypatch):
    """The manifest in the layer; without a call there is none."""
    path = tmp_path / "manifest.json"
    monkeypatch.setattr(publishing, "MANIFEST", path)

    def write(document):
        path.write_text(document if isinstance(document, str) else json.dumps(document))

    return write


@pytest.fixture
def stack(environment):
    environment.setenv("KIQBRIDGE_STACK", "shop")


@pytest.fixture
def lines(capsys):
    """The log lines about schedules so far."""

    def lines():
        read = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return [each for each in read if each.get("message") == "schedules"]

    return lines


def names(redis):
    return sorted(redis.hkeys("kb:schedules"))


@pytest.mark.usefixtures("stack")
class TestColdStart:
    def test_after_the_first_push_of_an_environment_its_schedules_are_published(
        self, layer, load, redis, lines
    ):
        layer(manifest(100))

        answer = load().lambda_handler(JOB, Context())

        assert len(answer["enqueued"]) == 1
        assert names(redis) == [b"shop/Nightly"]
        [line] = lines()
        assert (line["level"], line["outcome"], line["version"]) == ("INFO", "published", 100)
        entry = json.loads(redis.hget("kb:manifests", "shop"))
        assert entry["by"] == f"lambda:{Context().aws_request_id}"

    def test_a_tick_is_pushed_after_its_environment_has_published(self, layer, load, redis, lines):
        """A deployment has changed the job of a schedule, and its tick is the first event of the new function."""
        layer(manifest(100))
        load().lambda_handler(JOB, Context())
        lines()
        changed = {"class": "NightlyReport", "args": []}
        layer(manifest(200, Nightly=RULE | {"jobs": [changed]}))
        at = f"{datetime.now(UTC):%FT%H:%M:00Z}"

        load().lambda_handler(changed | {"tick": {"schedule": "shop/Nightly", "at": at}}, Context())

        assert redis.zcard("kb:ticks:shop/Nightly") == 1
        [line] = lines()
        assert (line["outcome"], line["version"]) == ("published", 200)

    def test_it_costs_one_command_where_they_are_published_and_none_later(
        self, layer, load, redis, lines
    ):
        layer(manifest(100))
        load().lambda_handler(JOB, Context())
        lines()
        app = load()
        redis.config_resetstat()

        for _ in range(3):
            app.lambda_handler(JOB, Context())

        assert redis.info("commandstats")["cmdstat_hget"]["calls"] == 1
        assert lines() == []

    def test_an_event_that_pushes_nothing_publishes_nothing(self, layer, load, redis):
        layer(manifest(100))
        app = load()

        app.lambda_handler({"source": "warmup"}, Context())
        with pytest.raises(EventError):
            app.lambda_handler({"no": "job"}, Context())

        assert not redis.exists("kb:manifests")

    @pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": "x"}', "\udcff"])
    def test_a_manifest_that_cannot_be_read_is_logged_once_and_the_event_is_enqueued(
        self, layer, load, lines, content
    ):
        layer(content.encode("utf-8", "surrogateescape").decode("latin-1"))
        app = load()

        answers = [app.lambda_handler(JOB, Context()) for _ in range(3)]

        assert all(len(answer["enqueued"]) == 1 for answer in answers)
        [line] = lines()
        assert (line["level"], line["outcome"]) == ("WARNING", "failed")

    def test_a_layer_without_a_manifest_publishes_nothing(self, layer, load, redis, lines):
        assert load().lambda_handler(JOB, Context())["enqueued"]
        assert not redis.exists("kb:manifests")
        assert lines() == []

    def test_a_key_of_another_type_fails_no_event(self, layer, load, redis, lines):
        layer(manifest(100))
        redis.set("kb:manifests", "mine")

        assert load().lambda_handler(JOB, Context())["enqueued"]
        [line] = lines()
        assert "WRONGTYPE" in line["reason"]


def test_without_the_name_of_a_stack_nothing_is_published(layer, load, redis):
    layer(manifest(100))

    assert load().lambda_handler(JOB, Context())["enqueued"]
    assert not redis.exists("kb:manifests")
    assert Enqueuer(None, None).publisher is None


class TestAfterAFailure:
    def test_it_is_tried_again_after_a_minute_and_logged_once(self, redis_url, redis, layer):
        now = [1000.0]
        layer(manifest(1))
        client = Client(redis_url)
        publisher = Publisher(client, "shop", monotonic=lambda: now[0])
        redis.set("kb:manifests", "mine")

        assert publisher.once("a")["outcome"] == "failed"
        redis.delete("kb:manifests")
        assert publisher.once("a") is None
        assert not redis.exists("kb:manifests")
        now[0] += AGAIN_S
        assert publisher.once("a")["outcome"] == "published"
        assert publisher.once("a") is None
        client.close()

    def test_a_server_that_is_silent_keeps_the_event_no_longer_than_it_may(
        self, redis_url, redis, layer, monkeypatch
    ):
        monkeypatch.setattr(publishing, "LONGEST_S", 0.2)
        layer(manifest(1))
        client = Client(redis_url)
        publisher = Publisher(client, "shop")
        assert client.pool.call("PING") == b"PONG"
        redis.client_pause(60_000, all=False)  # of writes, so that it can be ended

        assert publisher.once("a")["outcome"] == "failed"

        redis.client_unpause()
        client.close()


@pytest.mark.usefixtures("stack")
class TestOnDemand:
    def test_a_direct_invocation_publishes_and_answers_what_was(self, layer, invoke, redis):
        layer(manifest(100))

        assert invoke(PUBLISH) == {
            "outcome": "published",
            "stack": "shop",
            "version": 100,
            "standing": None,
            "schedules": 1,
            "removed": 0,
        }
        assert names(redis) == [b"shop/Nightly"]
        assert invoke(PUBLISH)["outcome"] == "unchanged"

    def test_an_older_one_only_as_a_rollback(self, layer, invoke, redis, lines):
        layer(manifest(200, New=RULE))
        invoke(PUBLISH)
        layer(manifest(100, Old=RULE))

        assert invoke(PUBLISH)["outcome"] == "older"
        assert invoke(PUBLISH | {"rollback": False})["outcome"] == "older"
        assert names(redis) == [b"shop/New"]
        assert invoke(PUBLISH | {"rollback": True})["outcome"] == "rolled back"
        assert names(redis) == [b"shop/Old"]
        assert [(each["level"], each["outcome"]) for each in lines()] == [
            ("INFO", "published"),
            ("WARNING", "older"),
            ("WARNING", "older"),
            ("WARNING", "rolled back"),
        ]

    @pytest.mark.parametrize(
        "event",
        [
            {"kiqbridge": "flush"},
            {"kiqbridge": None},
            {"kiqbridge": "publish", "rollback": "yes"},
            {"kiqbridge": "publish", "stack": "other"},
            {"kiqbridge": "publish", **JOB, "queue": "secret"},
            {"Records": [{"eventSource": "aws:sqs", "body": '{"kiqbridge":"publish"}'}]},
        ],
        ids=str,
    )
    def test_it_can_do_nothing_else(self, layer, invoke, redis, event):
        layer(manifest(100))

        with contextlib.suppress(KiqbridgeError):
            assert invoke(event)["batchItemFailures"]
        assert redis.keys("*") == []

    def test_without_a_manifest_it_names_what_is_missing(self, layer, invoke):
        with pytest.raises(ConfigError, match="the layer has no manifest of schedules"):
            invoke(PUBLISH)

    def test_without_redis_it_fails_so_that_the_caller_knows(self, layer, load, environment):
        layer(manifest(100))
        environment.setenv("REDIS_URL", "redis://127.0.0.1:1/0")

        with pytest.raises(RedisUnavailable):
            load().lambda_handler(PUBLISH, Context())
