"""An application that moves here from Celery: what it said there holds here, or is refused at its import."""

import re

import pytest

from kiqbridge.client.registry import default_registry
from kiqbridge.compat.celery import Celery, shared_task
from kiqbridge.engine.served_queues import declared_queues
from kiqbridge.errors import ConfigError
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_tasks")


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
        app.conf.task_routes = ({"early": "first"}, {"*": "second"})

        assert declared_queues(default_registry) == {
            "first": ["early"], "second": ["shared"], "own": ["own"],
        }  # fmt: skip


def test_a_time_limit_says_that_a_thread_is_not_killed(app, caplog):
    app.task(name="thread", time_limit=5)(lambda: None)
    app.task(name="soft", soft_time_limit=5)(lambda: None)

    [line] = caplog.messages
    assert line.startswith("task thread: time_limit: a thread cannot be killed")
    assert 'pool="process"' in line


def test_a_task_expires_as_its_declaration_says(app):
    app.task(name="t", expires=60)(lambda: None)

    assert default_registry.require("t").options["expires_in"] == 60
