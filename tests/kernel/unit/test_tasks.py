"""The backend for Django's tasks: its behaviour from Django 6.0 on, and what it says before that.

It lies among the unit tests, although it needs a server: these run on several versions of Python, and Django
6 needs a newer one than the oldest that is supported.
"""

import json
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace

import django
import pytest
from support import django_shop

from kiqbridge import ConfigError, RedisUnavailable, configure
from kiqbridge.client.current import CONTEXT
from kiqbridge.client.default_client import choose_client_by, default_client, own_default_client
from kiqbridge.client.registry import default_registry

HAS_TASKS = django.VERSION >= (6, 0)


def test_it_can_be_loaded_from_django_6_on_and_says_so_before():
    if HAS_TASKS:
        from kiqbridge.contrib.django.tasks import KiqbridgeBackend

        assert KiqbridgeBackend.supports_defer
    else:
        with pytest.raises(ConfigError, match=r"comes with Django 6\.0.*kiqbridge\.job"):
            __import__("kiqbridge.contrib.django.tasks")


if HAS_TASKS:
    from django.core.exceptions import ImproperlyConfigured
    from django.db import connections, transaction
    from django.tasks import TaskResultStatus, task, task_backends
    from django.tasks.exceptions import InvalidTask
    from django.tasks.signals import task_enqueued, task_finished, task_started

    @pytest.fixture
    def shop(redis_url):
        django_shop.set_up()
        from shop import tasks

        seen = []

        def keep(name, task_result, **_):
            seen.append((name, task_result))

        signals = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}
        receivers = {name: partial(keep, name) for name in signals}
        for name, signal in signals.items():
            signal.connect(receivers[name])
        with own_default_client():
            client = configure(redis_url)
            yield SimpleNamespace(tasks=tasks, seen=seen, client=client)
            client.close()
        for name, signal in signals.items():
            signal.disconnect(receivers[name])
        connections.close_all()

    def pushed(redis, queue="default"):
        return [json.loads(text) for text in reversed(redis.lrange(f"queue:{queue}", 0, -1))]

    def perform(shop, payload):
        """As `perform_inline`, with an attempt that is not the first."""
        token = CONTEXT.set((payload, payload["queue"]))
        definition = default_registry.require(payload["class"])
        try:
            run = definition.perform_of(definition.instantiate(payload["jid"]))
            return run(*payload["args"])
        finally:
            CONTEXT.reset(token)

    def test_a_task_is_a_job_with_its_path_as_class(shop, redis):
        result = shop.tasks.add.enqueue(1, b=2)

        [payload] = pushed(redis)
        assert payload["class"] == "shop.tasks.add"
        assert payload["args"] == [[1], {"b": 2}]
        assert (payload["jid"], payload["retry"]) == (result.id, 3)
        assert result.status == TaskResultStatus.READY and result.enqueued_at is not None
        assert shop.seen == [("enqueued", result)]

    def test_options_of_one_call(shop, redis):
        later = datetime.now(UTC) + timedelta(hours=1)
        shop.tasks.add.using(queue_name="low").enqueue(1)
        shop.tasks.add.using(run_after=later).enqueue(2)
        shop.tasks.add.using(run_after=datetime.now(UTC) - timedelta(hours=1)).enqueue(3)

        assert len(pushed(redis, "low")) == len(pushed(redis)) == 1
        [(text, score)] = redis.zrange("schedule", 0, -1, withscores=True)
        assert json.loads(text)["args"] == [[2], {}]
        assert score == pytest.approx(later.timestamp())

    def test_it_is_performed_and_its_signals_are_sent(shop, redis):
        shop.tasks.add.enqueue(1, b=2)
        [payload] = pushed(redis)

        assert perform(shop, payload) == 3

        names = [name for name, _ in shop.seen]
        result = shop.seen[-1][1]
        assert names == ["enqueued", "started", "finished"]
        assert result.return_value == 3 and result.attempts == 1
        assert result.enqueued_at.timestamp() <= result.started_at.timestamp() <= time.time()

    def test_one_that_takes_its_context_gets_it(shop, redis):
        shop.tasks.describe.enqueue("Ada")
        [payload] = pushed(redis, "mailers")

        assert perform(shop, payload) == f"Ada {payload['jid']} 1"
        assert perform(shop, {**payload, "retry_count": 1}) == f"Ada {payload['jid']} 3"

    def test_an_asynchronous_one_runs_on_the_event_loop(shop):
        shop.client.server_middleware.add(
            lambda _job, payload, _queue, call_next: call_next()  # a plain one around it
        )
        definition = default_registry.require("shop.tasks.add_in_background")
        assert definition.handling.pool == "async"

        from kiqbridge.client import inline

        item = {"class": definition.name, "args": [[1, 2], {}]}
        assert inline.perform(default_client(), item) == 3
        assert shop.seen[-1][1].return_value == 3

    def test_one_that_failed_for_the_last_time_is_finished(shop, redis):
        shop.tasks.fail.enqueue()
        [payload] = pushed(redis)
        with pytest.raises(LookupError) as failed:
            perform(shop, payload)
        assert [name for name, _ in shop.seen] == ["enqueued", "started"]

        default_registry.require(payload["class"]).handling.retries_exhausted(payload, failed.value)

        name, result = shop.seen[-1]
        assert (name, result.status) == ("finished", TaskResultStatus.FAILED)
        assert result.errors[0].exception_class is LookupError
        assert "nothing there" in result.errors[0].traceback

    def test_what_cannot_be_enqueued_is_refused(shop, redis):
        with pytest.raises(InvalidTask, match="priority"):
            shop.tasks.add.using(priority=1)
        with pytest.raises(InvalidTask, match="queue"):
            shop.tasks.add.using(queue_name="a\0b")
        with pytest.raises(TypeError):
            shop.tasks.add.enqueue(object())
        shop.client.middleware.add(lambda *_: None)
        with pytest.raises(InvalidTask, match="middleware stopped it"):
            shop.tasks.add.enqueue(1)
        with own_default_client():
            configure("redis://127.0.0.1:1/0")
            with pytest.raises(RedisUnavailable):
                shop.tasks.add.enqueue(1)

        assert redis.keys() == []

    def test_arguments_that_are_none_of_a_task_are_refused(shop, redis):
        from kiqbridge import PayloadError

        shop.client.push({"class": "shop.tasks.add", "args": [1, 2]})
        [payload] = pushed(redis)
        with pytest.raises(PayloadError, match="is not a list of arguments"):
            perform(shop, payload)

    def test_only_functions_of_a_module_can_be_tasks(shop):
        def local():
            pass

        with pytest.raises(InvalidTask, match="module level"):
            task(local)
        assert default_registry.find(f"{__name__}.local") is None

    def test_it_waits_for_the_commit_where_that_is_the_rule(shop, redis):
        from kiqbridge.contrib.django.database import deferring_in_transactions

        choose_client_by(deferring_in_transactions)
        with transaction.atomic():
            result = shop.tasks.add.enqueue(1)
            assert pushed(redis) == []

        assert [payload["jid"] for payload in pushed(redis)] == [result.id]

    @pytest.mark.parametrize("options", [{"retries": 3}, {"retry": "often"}])
    def test_wrong_options_are_refused(shop, options):
        backend = type(task_backends["default"])

        with pytest.raises(ImproperlyConfigured, match=r"TASKS\['default'\]: OPTIONS"):
            backend("default", {"OPTIONS": options})
