"""The Django application, in this process: a real project, SQLite and a real server."""

import asyncio
import json
import os
from contextlib import suppress
from types import SimpleNamespace

import pytest
from support import django_shop

from kiqbridge import RedisUnavailable, configure
from kiqbridge.client.default_client import default_client, own_default_client
from kiqbridge.client.server import server
from kiqbridge.contrib.django import after_commit
from kiqbridge.contrib.django.apps import read_settings

pytestmark = pytest.mark.any_server


@pytest.fixture(scope="module", autouse=True)
def project():
    with django_shop.restored():
        yield


@pytest.fixture(autouse=True)
def shop(redis_url):
    django_shop.set_up()
    from django.db import connections, transaction
    from shop import jobs
    from shop.models import Order

    with own_default_client(), django_shop.restored():
        client = configure(redis_url)
        yield SimpleNamespace(
            jobs=jobs, Order=Order, connections=connections, atomic=transaction.atomic
        )
        client.close()
    connections.close_all()


def start_application(**settings):
    """What Django calls when the project's process starts, with these settings."""
    from django.apps import apps
    from django.test import override_settings

    with override_settings(KIQBRIDGE=settings):
        apps.get_app_config("kiqbridge").ready()


def pushed(redis):
    return [json.loads(text)["args"][0] for text in reversed(redis.lrange("queue:mailers", 0, -1))]


class TestSettings:
    def test_they_are_those_of_clients_and_workers_in_upper_case(self):
        environment, is_deferring = read_settings(
            {
                "REDIS_URL": "redis://cache:6379/2",
                "QUEUES": ["critical", ("mailers", 2)],
                "CONCURRENCY": 5,
                "LOGGED_JOB_ATTRIBUTES": ["tags", "tenant"],
                "SKIP_DEFAULT_JOB_LOGGING": True,
                "NAMESPACE": None,
            }
        )

        assert environment == {
            "REDIS_URL": "redis://cache:6379/2",
            "KIQBRIDGE_QUEUES": "critical mailers,2",
            "KIQBRIDGE_CONCURRENCY": "5",
            "KIQBRIDGE_LOGGED_JOB_ATTRIBUTES": "tags,tenant",
            "KIQBRIDGE_SKIP_DEFAULT_JOB_LOGGING": "true",
        }
        assert not is_deferring

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"CONCURENCY": 5}, "'CONCURENCY'.*did you mean CONCURRENCY"),
            ({"redis_url": "redis://a"}, "did you mean REDIS_URL"),
            ({"ENQUEUE_ON_COMMIT": True}, "did you mean ENQUEUE_AFTER_COMMIT"),
            ({"ENQUEUE_AFTER_COMMIT": "yes"}, "'yes' is not True or False"),
            ({"CONCURRENCY": "many"}, r"KIQBRIDGE\['CONCURRENCY'\]: concurrency: 'many'"),
            ({"CAPSULES": {}}, "write it into config/kiqbridge.yml"),
            (["REDIS_URL"], "is not a dict"),
        ],
    )
    def test_a_wrong_one_is_refused_at_the_start(self, given, message):
        from django.core.exceptions import ImproperlyConfigured

        with pytest.raises(ImproperlyConfigured, match=message):
            read_settings(given)

    def test_the_environment_goes_before_them(self, monkeypatch):
        monkeypatch.setenv("KIQBRIDGE_CONCURRENCY", "3")

        start_application(CONCURRENCY=7, NAMESPACE="shop")

        assert os.environ["KIQBRIDGE_CONCURRENCY"] == "3"
        assert os.environ["KIQBRIDGE_NAMESPACE"] == "shop"

    def test_pushes_use_them(self, redis, redis_url):
        with own_default_client():
            start_application(REDIS_URL=redis_url, NAMESPACE="shop")
            default_client().push({"class": "A", "args": [], "queue": "mailers"})

        assert redis.llen("shop:queue:mailers") == 1


class TestAfterCommit:
    def test_a_job_waits_for_the_commit(self, shop, redis):
        with shop.atomic():
            jid = after_commit(shop.jobs.place).perform_async("a")
            with shop.atomic():
                after_commit(shop.jobs.place).perform_bulk([["b"], ["c"]])
            assert jid and pushed(redis) == []

        assert pushed(redis) == ["a", "b", "c"]

    def test_a_rollback_drops_it_one_to_a_savepoint_what_came_since(self, shop, redis):
        with suppress(LookupError), shop.atomic():
            after_commit(shop.jobs.place).perform_async("dropped")
            raise LookupError
        with shop.atomic():
            after_commit(shop.jobs.place).perform_async("a")
            with suppress(LookupError), shop.atomic():
                after_commit(shop.jobs.place).perform_async("dropped, too")
                raise LookupError
            after_commit(shop.jobs.place).perform_async("b")

        assert pushed(redis) == ["a", "b"]

    def test_outside_of_a_transaction_it_is_pushed_at_once(self, shop, redis):
        after_commit(shop.jobs.place).perform_async("a")

        assert pushed(redis) == ["a"]
        with own_default_client():
            configure("redis://127.0.0.1:1/0")  # nobody listens there
            with pytest.raises(RedisUnavailable):
                after_commit(shop.jobs.place).perform_async("b")

    def test_each_database_has_transactions_of_its_own(self, shop, redis):
        with shop.atomic(using="other"):
            after_commit(shop.jobs.place).perform_async("at once")
            after_commit(shop.jobs.place, using="other").perform_async("later")
            assert pushed(redis) == ["at once"]

        assert pushed(redis) == ["at once", "later"]

    def test_a_push_that_fails_then_is_logged_and_the_next_one_is_tried(
        self, shop, redis, redis_url, caplog
    ):
        with own_default_client(), shop.atomic():
            configure("redis://127.0.0.1:1/0")
            jid = after_commit(shop.jobs.place).perform_async("lost")
            with own_default_client():
                configure(redis_url)
                after_commit(shop.jobs.place).perform_async("b")
            shop.Order.objects.create(name="kept")

        assert pushed(redis) == ["b"]
        assert f"ShopPlace {jid}" in caplog.text
        assert shop.Order.objects.get().name == "kept"

    def test_a_setting_makes_it_the_rule(self, shop, redis):
        start_application(ENQUEUE_AFTER_COMMIT=True)

        with shop.atomic():
            shop.jobs.place.perform_async("a")
            shop.jobs.place.set(queue="mailers").perform_async("b")
            after_commit(shop.jobs.place).perform_async("c")
            assert pushed(redis) == []
        shop.jobs.place.perform_async("d")

        assert pushed(redis) == ["a", "b", "c", "d"]

    def test_a_test_case_shows_what_waits(self, shop, redis):
        from django.test import TestCase

        with suppress(LookupError), shop.atomic():
            with TestCase.captureOnCommitCallbacks(execute=True) as callbacks:
                after_commit(shop.jobs.place).perform_async("a")
                assert pushed(redis) == []
            raise LookupError  # as a test case ends

        assert len(callbacks) == 1
        assert pushed(redis) == ["a"]


class TestConnections:
    def test_a_job_begins_and_ends_with_usable_ones_and_without_old_queries(self, shop):
        start_application()
        connection = shop.connections["default"]
        list(shop.Order.objects.all())
        connection.close_at = 0  # older than CONN_MAX_AGE
        old = connection.connection
        assert connection.queries and old is not None

        shop.jobs.place.perform_inline("a")

        assert connection.queries == []
        assert connection.connection is not old
        assert shop.Order.objects.get().name == "a"

    def test_one_within_a_transaction_is_left_alone(self, shop):
        start_application()
        with shop.atomic():
            connection = shop.connections["default"]
            connection.close_at = 0
            shop.Order.objects.create(name="before")
            kept = connection.connection

            shop.jobs.place.perform_inline("a")

            assert connection.connection is kept
            assert connection.queries
        assert shop.Order.objects.count() == 2

    def test_those_of_asynchronous_queries_are_looked_at_on_their_thread(self, shop, monkeypatch):
        from asgiref.sync import sync_to_async

        from kiqbridge.contrib.django import database as module

        start_application()
        threads = []
        clean_up = module.clean_up
        monkeypatch.setattr(
            module, "clean_up", lambda: (threads.append(thread_of_connection()), clean_up())
        )

        def thread_of_connection():
            import threading

            return threading.get_ident()

        shop.jobs.place_in_background.perform_inline("a")

        assert shop.Order.objects.get().name == "a"
        assert threads == [asyncio.run(sync_to_async(thread_of_connection)())] * 2


def test_the_middleware_is_the_outermost_and_there_once():
    def own(_job, _payload, _queue, call_next):
        return call_next()

    server.middleware.add(own)
    start_application()
    start_application()

    names = [getattr(each, "__name__", type(each).__name__) for each in server.middleware]
    assert names == ["Connections", "own"]


class TestCommand:
    def test_a_worker_loads_the_jobs_of_all_applications(self, monkeypatch):
        from kiqbridge.contrib.django.management.commands import kiqbridge as command

        called = []
        monkeypatch.setattr(command, "main", lambda words: called.append(words) or 0)
        run = command.Command().run_from_argv
        for words in (
            ["worker", "-c", "2", "--settings", "shop.settings"],
            ["worker", "-r", "mine"],
            ["worker", "--require=mine", "--pythonpath=."],
            ["stats", "--json"],
        ):
            with pytest.raises(SystemExit) as exit_:
                run(["manage.py", "kiqbridge", *words])
            assert exit_.value.code == 0

        jobs = "kiqbridge.contrib.django.all_jobs"
        assert called == [
            ["worker", "-r", jobs, "-c", "2"],
            ["worker", "-r", "mine"],
            ["worker", "--require=mine"],
            ["stats", "--json"],
        ]

    def test_it_can_be_called_from_code(self, redis_url, capsys, monkeypatch):
        from django.core.management import CommandError, call_command

        monkeypatch.setenv("REDIS_URL", redis_url)
        call_command("kiqbridge", "stats", "--json")
        assert json.loads(capsys.readouterr().out)

        monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
        with pytest.raises(CommandError, match="kiqbridge stats failed") as failed:
            call_command("kiqbridge", "stats")
        assert failed.value.returncode == 3
