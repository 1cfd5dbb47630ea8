"""An application that moves here from Celery: what it said there holds here, or is refused at its import."""

import re
from types import SimpleNamespace

import pytest

from kiqbridge import flow, job
from kiqbridge.client.default_client import default_client, own_default_client
from kiqbridge.client.registry import default_registry
from kiqbridge.compat.celery import Celery, shared_task
from kiqbridge.compat.celery.app import _shared_tasks
from kiqbridge.engine.served_queues import declared_queues
from kiqbridge.errors import ConfigError
from kiqbridge.testing import fake


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(default_registry, "_definitions", {})
    _shared_tasks.clear()
    with own_default_client():
        yield


@pytest.fixture
def app():
    return Celery("shop")


def by_argument(name, args, kwargs, options, task=None, **_more):
    return {"queue": f"user{args[0]}"} if name == "each" else None


class TestRoutes:
    @pytest.mark.parametrize(
        ("routes", "name", "queue"),
        [
            ([("feed.*", "feeds"), ("feed.x", "never")], "feed.x", "feeds"),
            (([("feed.*", {"queue": "feeds"})], {"*": "rest"}), "mail", "rest"),
            ({re.compile(r"(video|image)\..*"): {"routing_key": "media"}}, "image.cut", "media"),
            ([re.compile, ("a", "b")][1:], "a", "b"),
            ([by_argument, {"each": "late"}], "each", "user7"),
            ([by_argument], "other", "default"),
        ],
    )
    def test_each_form_of_celerys(self, app, routes, name, queue):
        app.conf.task_routes = routes
        with fake() as jobs:
            app.task(name=name)(lambda x: None).delay(7)
            app.send_task("elsewhere", [7])
            assert jobs.enqueued(name)[0].queue == queue

    @pytest.mark.parametrize(
        ("routes", "said"),
        [
            ({"a": {"queue": "q", "priority": 5}}, "a: priority=5 has no counterpart here: use queues"),
            ([("a", {"queue": "q", "exchange": "x"})], "exchange='x'"),
            ({"a": {}}, "a: None is no name of a queue"),
            ({7: "q"}, "7 is no name of a task"),
            (["shop.routes.route"], "a function itself"),
            ("shop", "is no rule"),
        ],
    )  # fmt: skip
    def test_what_is_no_route_here_is_refused_when_it_is_set(self, app, routes, said):
        with pytest.raises(ConfigError, match=re.escape(said)):
            app.conf.task_routes = routes

    def test_a_worker_knows_the_queues_of_routes_whenever_they_are_set(self, app):
        app.conf.task_routes = {"early": "first"}
        app.task(name="early")(lambda: None)
        shared_task(name="shared")(lambda: None)
        app.task(name="own", queue="own")(lambda: None)
        app.task(name="nightly", cron="30 4 * * *")(lambda: None)
        app.conf.task_routes = ({"early": "first"}, {"*": "second"})

        assert declared_queues(default_registry) == {
            "first": ["early"], "second": ["shared", "nightly"], "own": ["own"],
        }  # fmt: skip
        [item] = default_registry.require("nightly").schedule.jobs
        assert item["queue"] == "second"


class TestDeclaring:
    def test_a_schedule_an_expiry_and_a_pool_as_the_guide_writes_them(self, app):
        app.task(name="a", cron="30 4 * * *", timezone="Europe/Paris", args=[1], expires=60)(
            lambda x: None
        )
        app.task(name="b", every="5m", pool="process")(lambda: None)

        a, b = map(default_registry.require, "ab")
        assert (a.schedule.expression, a.options["expires_in"]) == ("30 4 * * *", 60)
        assert (b.schedule.expression, b.handling.pool) == ("rate(5 minutes)", "process")

    def test_a_time_limit_says_that_a_thread_is_not_killed(self, app, caplog):
        app.task(name="thread", time_limit=5)(lambda: None)
        app.task(name="child", time_limit=5, pool="process")(lambda: None)
        app.task(name="soft", soft_time_limit=5)(lambda: None)

        [line] = caplog.messages
        assert line.startswith("task thread: time_limit: a thread cannot be killed")
        assert 'pool="process"' in line


class TestEagerly:
    def test_chains_batches_and_jobs_need_no_server_either(self, app):
        seen = []

        @app.task(name="add")
        def add(x, y):
            seen.append(x + y)
            return x + y

        @app.task(name="flaky", bind=True, autoretry_for=(OSError,), max_retries=1)
        def flaky(self):
            seen.append(f"try {self.request.retries}")
            raise OSError

        @job(queue="other")
        def plain(word):
            seen.append(word)

        app.conf.task_always_eager = True
        flow.chain(flow.call(add, 1, 2), flow.call(add, 4), pass_result=True).perform_async()
        with flow.Batch(on_complete=flow.call(plain, "complete")) as batch:
            flaky.delay()
            assert seen == [3, 7]
        plain.perform_in(3600, "later")

        assert seen == [3, 7, "try 0", "try 1", "complete", "later"]
        assert (batch.status().complete, batch.status().failed) == (True, 1)

    def test_a_broker_that_is_named_later_gets_nothing_and_an_error_propagates(self, app):
        app.conf.update(task_always_eager=True, task_eager_propagates=True)
        app.config_from_object(SimpleNamespace(broker_url="redis://127.0.0.1:1"))
        fails = app.task(name="fails")(lambda: 1 // 0)

        with pytest.raises(ZeroDivisionError):
            flow.chain(fails).perform_async()
        app.conf.task_always_eager = False
        assert default_client().pool.place == ("127.0.0.1", 1, 0)

    def test_a_fake_within_records(self, app):
        app.conf.task_always_eager = True
        task = app.task(name="t")(lambda: None)
        with fake() as jobs:
            flow.chain(task, task).perform_async()
            jobs.assert_enqueued_count(1)


def test_a_task_is_a_link_of_chains_with_its_route_and_its_options(app):
    app.conf.update(task_routes={"mail.*": "mail"}, result_backend="redis://")
    send = app.task(name="mail.send", expires=60)(lambda x, y: None)

    with fake() as jobs:
        flow.chain(flow.call(send, 1, 2), flow.call(send, 3), pass_result=True).perform_async()
        [first] = jobs.jobs
        with flow.Batch() as batch:
            batch.add(send, 1, 2)
            send.delay(3, 4)
        assert [each.queue for each in jobs.jobs] == ["mail"] * 3
    assert (first.queue, first.payload["expires_in"]) == ("mail", 60)
    assert first.payload["flow"]["result_ttl_s"] == 86_400
    [following] = first.payload["flow"]["next"]["steps"]
    assert following["job"]["queue"] == "mail"
