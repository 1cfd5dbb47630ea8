"""Results of Celery's tasks: asked for, read, and none where nobody keeps one."""

import pytest

from kiqbridge.client.default_client import default_client
from kiqbridge.compat.celery import Celery, shared_task
from kiqbridge.errors import ConfigError, JobFailed, PayloadError, ResultOmitted, ResultTimeout
from kiqbridge.testing import fake
from kiqbridge.testing.performing import apply_ends

pytestmark = pytest.mark.usefixtures("own_tasks")


@pytest.fixture
def app():
    return Celery("shop")


@pytest.mark.parametrize(
    ("conf", "task", "call", "ttl_s"),
    [
        ({"result_backend": "redis://h"}, {}, {}, 86_400),
        ({"result_backend": "rpc://"}, {}, {}, None),
        ({"result_backend": "redis://h"}, {"ignore_result": True}, {}, None),
        ({"result_backend": "redis://h"}, {"ignore_result": True}, {"ignore_result": False}, 86_400),
        ({"result_backend": "redis://h", "task_ignore_result": True}, {}, {}, None),
        ({"result_backend": "redis://h", "result_expires": 60}, {"ignore_result": False}, {}, 60),
    ],
)  # fmt: skip
def test_results_are_kept_where_there_is_a_backend_and_nothing_ignores_them(
    app, conf, task, call, ttl_s
):
    app.conf.update(conf)
    with fake() as jobs:
        app.task(name="t", **task)(lambda: None).apply_async(**call)
        assert jobs.jobs[0].payload.get("flow", {}).get("result_ttl_s") == ttl_s


def test_results_are_asked_for_and_read():
    app = Celery("shop", backend="redis://")
    task = app.task(name="t")(lambda x: x)
    with fake() as jobs:
        result = task.delay(5)
        assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
        with pytest.raises(ResultTimeout):
            result.get(timeout=0)
        jobs.drain()
        assert (result.get(timeout=0), result.result) == (5, 5)
        assert result.ready() and result.successful() and not result.failed()


def test_the_result_of_a_failure():
    app = Celery("shop", backend="redis://")

    @app.task(name="fails")
    def fails():
        raise ValueError("no luck")

    with fake() as jobs:
        result = fails.delay()
        jobs.drain(raise_errors=False)
        assert (result.state, result.failed()) == ("FAILURE", True)
        assert isinstance(result.result, JobFailed) and "ValueError: no luck" in str(result.info)
        assert isinstance(result.get(timeout=0, propagate=False), JobFailed)
        assert result.traceback is None
        with pytest.raises(JobFailed):
            result.get(timeout=0)


def test_no_result_is_waited_for_that_nobody_keeps(app):
    with fake():
        result = app.task(name="t")(lambda: None).delay()
        for ask in (result.get, result.ready, lambda: result.state, lambda: result.result):
            with pytest.raises(ConfigError, match="backend"):
                ask()
        app.conf.result_backend = "redis://"
        assert app.task(name="quiet", ignore_result=True)(lambda: None).delay().get() is None
        with pytest.raises(PayloadError, match="callback"):
            app.AsyncResult("J").get(callback=print)


def test_a_result_that_could_not_be_kept(app):
    app.conf.result_backend = "redis://"
    with fake() as jobs:
        result = app.task(name="t")(object).delay()
        jobs.drain()
        assert result.successful()
        for ask in (result.get, lambda: result.result):
            with pytest.raises(ResultOmitted):
                ask()


def test_a_task_expires_at_the_same_time_whenever_it_is_due_and_is_revoked(app):
    app.conf.result_backend = "redis://"
    task = app.task(name="t")(lambda: None)
    with fake() as jobs:
        result = task.apply_async(expires=60)
        task.apply_async(countdown=600, expires=900)
        later = jobs.scheduled[0].payload["expires_in"]
        jobs.clock.move(minutes=2)
        jobs.drain()
        assert (result.state, result.failed()) == ("REVOKED", False)
    assert later == pytest.approx(300, abs=5)


def test_by_name_with_the_options_of_any_call(app):
    app.conf.result_backend = "redis://"
    shared_task(name="shared")(lambda x, y: None)
    with fake() as jobs:
        app.send_task("shared", kwargs={"x": 1, "y": 2})
        app.send_task("elsewhere", [1], routing_key="low", expires=60, task_id="a" * 24)
        [known, other] = jobs.jobs
    assert known.payload["args"] == [1, 2]
    assert (other.queue, other.payload["jid"]) == ("low", "a" * 24)
    assert other.payload["flow"]["result_ttl_s"] == 86_400
    assert other.payload["expires_in"] == 60


def test_revoke_deletes_a_task_that_waits_and_ends_none_that_runs(redis, redis_url):
    app = Celery("shop", broker=redis_url, backend=redis_url)
    task = app.task(name="t")(lambda: None)
    first, second, third = task.delay(), task.apply_async(countdown=60), task.delay()

    app.control.revoke([first.id, "0" * 24])
    second.revoke()

    assert (redis.llen("queue:default"), redis.zcard("schedule")) == (1, 0)
    assert third.id in redis.lindex("queue:default", 0).decode()
    apply_ends(default_client())
    assert (first.state, third.state) == ("REVOKED", "PENDING")
    with pytest.raises(PayloadError, match="terminate"):
        app.control.revoke(third.id, terminate=True)
