"""Celery's names and options: what is translated, what is refused and with which words."""

import itertools
import sys
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import celery as real_celery
import pytest

from kiqbridge.client.middleware import Chain
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.client.server import server
from kiqbridge.compat.celery import Celery, MaxRetriesExceededError, Retry, exceptions
from kiqbridge.compat.celery.conf import Conf
from kiqbridge.compat.celery.exceptions import SoftTimeLimitExceeded
from kiqbridge.compat.celery.request import Request, called
from kiqbridge.compat.celery.sending import seconds_left, when_of
from kiqbridge.compat.celery.utils.log import get_task_logger
from kiqbridge.errors import ConfigError, JobTimeout, PayloadError, ResultTimeout
from kiqbridge.testing import fake

pytestmark = pytest.mark.usefixtures("own_tasks")


@pytest.fixture
def app():
    return Celery("shop")


class TestDeclaring:
    def test_the_wire_name_is_celerys_name(self, app):
        @app.task
        def add(x, y):
            return x + y

        assert add.name == f"{__name__}.add"
        assert default_registry.find(add.name) is not None
        assert app.tasks == {add.name: add}
        assert add(1, 2) == 3

    def test_options_become_options_of_the_job(self, app):
        app.task(name="stubborn", max_retries=None, acks_late=True, serializer="json")(print)

        @app.task(name="slow", queue="low", max_retries=7, soft_time_limit=30)
        def slow():
            """Take long."""

        definition = default_registry.require("slow")
        assert definition.options == {"retry": 7, "queue": "low"}
        assert definition.handling.timeout_s == 30
        assert slow.__doc__ == "Take long."
        assert default_registry.require("stubborn").options["retry"] == 10_000

    def test_a_bound_task_gets_itself_and_its_request(self, app):
        @app.task(bind=True, name="bound")
        def bound(self, x):
            return self.name, self.request.id, self.request.retries, x

        assert list(default_registry.require("bound").signature.parameters) == ["x"]
        assert bound(5) == ("bound", None, 0, 5)

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"rate_limit": "10/m"}, "limiter"),
            ({"serializer": "pickle"}, "JSON"),
            ({"base": object}, "middleware"),
            ({"max_retires": 3}, "no counterpart"),
            ({"retry_kwargs": {"eta": 3}}, "retry_kwargs: eta"),
        ],
    )
    def test_an_option_without_a_counterpart_is_refused_with_what_to_write(
        self, app, options, said
    ):
        with pytest.raises(ConfigError, match=said):
            app.task(**options)(lambda: None)

    def test_a_function_with_a_yield_and_an_option_by_place_are_refused(self, app):
        def rows():
            yield 1

        with pytest.raises(ConfigError, match="yield"):
            app.task(rows)
        with pytest.raises(ConfigError, match="by keyword"):
            app.task("name")


class TestSettings:
    def test_routes_and_defaults(self, app):
        conf = app.conf
        conf.task_default_queue = "main"
        assert conf.route_of("shop.mail.send") == "main"
        conf.task_routes = {"shop.mail.*": {"queue": "mail"}, "shop.*": "other"}
        assert conf.route_of("shop.mail.send") == "mail"
        assert conf.route_of("shop.x") == "other"

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("result_backend", "db+sqlite://", "in the Redis of the jobs"),
            ("result_expires", None, "at most a year"),
            ("task_serializer", "pickle", "JSON"),
            ("accept_content", ["pickle"], "JSON"),
            ("beat_schedule", {"x": {}}, "docs/how_to/celery.md"),
            ("worker_pool", "gevent", "docs/reference/settings.md"),
        ],
    )
    def test_a_setting_without_a_counterpart_is_refused(self, name, value, said):
        with pytest.raises(ConfigError, match=said):
            Conf().update({name: value})

    def test_settings_that_hold_anyway_may_be_said_and_no_redis_is_refused_without_its_password(
        self,
    ):
        Conf().update(task_serializer="json", accept_content=["json"], timezone="UTC")
        Conf().update(enable_utc=True)
        with pytest.raises(ConfigError, match="amqp") as caught:
            Celery("shop", broker="amqp://guest:secret@host//")
        assert "secret" not in str(caught.value)

    def test_from_an_object_with_a_namespace(self, app, monkeypatch):
        class Settings:
            CELERY_TASK_DEFAULT_QUEUE = "main"
            CELERY_TASK_ROUTES = {"a": "b"}  # noqa: RUF012
            OTHER = 1

        monkeypatch.setitem(sys.modules, "wf_conf", SimpleNamespace(settings=Settings))
        app.config_from_object("wf_conf:settings", namespace="CELERY")

        assert (app.conf.task_default_queue, app.conf.route_of("a")) == ("main", "b")

    def test_without_a_namespace_no_setting_is_passed_over(self, app):
        class Settings:
            task_default_queue = "main"
            helper = print
            worker_pool = "gevent"

        with pytest.raises(ConfigError, match="worker_pool"):
            app.config_from_object(Settings)
        del Settings.worker_pool
        Settings.CELERY_TASK_SERIALIZER = "json"
        with pytest.raises(ConfigError, match="celery_task_serializer"):
            app.config_from_object(Settings)
        del Settings.CELERY_TASK_SERIALIZER
        app.config_from_object(Settings)

        assert app.conf.task_default_queue == "main"


class TestLoading:
    def test_a_worker_imports_what_the_application_names(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "wf_app.py").write_text(
            "from kiqbridge.compat.celery import Celery\n"
            "app = Celery('shop', include=['wf_included'])\n"
            "app.autodiscover_tasks(['wf_found', 'wf_without'])\n"
        )
        for package in ("wf_found", "wf_without"):
            (tmp_path / package).mkdir()
            (tmp_path / package / "__init__.py").touch()
        for module in ("wf_included.py", "wf_found/tasks.py"):
            (tmp_path / module).write_text("from wf_app import app\n@app.task\ndef go(): pass\n")

        load_all(("wf_app",))

        assert {each.name for each in default_registry} == {"wf_included.go", "wf_found.tasks.go"}

    def test_without_packages_djangos_applications(self, app, tmp_path, monkeypatch):
        monkeypatch.delitem(sys.modules, "django.apps", raising=False)
        with pytest.raises(ConfigError, match=r"manage\.py"):
            app.autodiscover_tasks(force=True)
        (tmp_path / "wf_mail").mkdir()
        (tmp_path / "wf_mail" / "tasks.py").write_text("seen = True\n")
        monkeypatch.syspath_prepend(tmp_path)
        registry = SimpleNamespace(
            ready=True, get_app_configs=lambda: [SimpleNamespace(name="wf_mail")]
        )
        monkeypatch.setitem(sys.modules, "django.apps", SimpleNamespace(apps=registry))

        app.autodiscover_tasks(force=True)

        assert sys.modules["wf_mail.tasks"].seen


class TestCalling:
    def test_eagerly(self, app):
        seen = []
        app.conf.task_always_eager = True
        task = app.task(name="see")(lambda x, y=2: seen.append((x, y)))

        result = task.apply_async((1,), {"y": 5}, countdown=60, task_id="a" * 24)
        task.delay(y=1, x=0)

        assert seen == [(1, 5), (0, 1)]
        assert (result.id, str(result)) == ("a" * 24, "a" * 24)

    def test_eagerly_what_could_not_be_enqueued_is_refused_and_what_is_stopped_fails(
        self, app, monkeypatch
    ):
        task = app.task(name="t")(lambda x: x)
        for args in ((), (object(),)):
            with pytest.raises(PayloadError):
                task.apply(args)
        monkeypatch.setattr(server, "middleware", Chain(lambda *_call: None))
        result = task.apply((1,))
        assert result.failed() and result.result.outcome == "skipped"

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"link": 1}, "chain"),
            ({"priority": 5}, "weights"),
            ({"x": 1}, "leave"),
            ({"countdown": 1, "eta": datetime.now(UTC)}, "not both"),
        ],
    )
    def test_an_option_without_a_counterpart_is_refused(self, app, options, said):
        task = app.task(name="t")(lambda: None)
        with pytest.raises(PayloadError, match=said):
            task.apply_async(**options)

    def test_keywords_of_an_unknown_task_name_the_way_out(self, app):
        with pytest.raises(PayloadError, match="places of x"):
            app.send_task("elsewhere", kwargs={"x": 1})

    def test_times(self):
        now = datetime.now(UTC)
        assert when_of(None, None) is None
        assert when_of(None, now) == now.timestamp()
        assert when_of(5, None) > now.timestamp() + 4
        assert seconds_left(timedelta(minutes=1)) == 60
        assert 50 < seconds_left(now + timedelta(minutes=1)) <= 60
        for read in (lambda naive: when_of(None, naive), seconds_left):
            with pytest.raises(PayloadError, match="time zone"):
                read(now.replace(tzinfo=None))


_names = (f"t{number}" for number in itertools.count())


def delay_of(error, count=0, **options):
    task = Celery("shop").task(
        name=next(_names), autoretry_for=(OSError,), **{"retry_jitter": False, **options}
    )(lambda: None)
    return task.retry_delay(count, error, {})


class TestTryingAgain:
    def test_errors_of_autoretry_for_and_others(self):
        assert delay_of(ConnectionError()) == 180
        assert delay_of(ValueError()) == "kill"
        assert delay_of(ConnectionError(), dont_autoretry_for=(ConnectionError,)) == "kill"

    def test_growing_pauses(self):
        pauses = [delay_of(OSError(), count, retry_backoff=True) for count in (0, 1, 5, 30)]
        assert pauses == [1, 2, 32, 600]
        assert delay_of(OSError(), 1, retry_backoff=5) == 10
        assert 0 < delay_of(OSError(), 5, retry_backoff=True, retry_jitter=True) <= 32

    def test_retry_names_its_own_time(self):
        assert delay_of(Retry(when=7)) == 7
        assert delay_of(Retry(when=timedelta(minutes=1))) == 60
        assert delay_of(Retry()) == 180
        assert 0 < delay_of(Retry(when=datetime.now(UTC) - timedelta(days=1))) < 1

    @pytest.mark.parametrize(
        ("error", "pause_s"),
        [(Retry(when=1), 1), (OSError(), 16), (ConnectionError(), 16)],
        ids=["retry", "backoff", "a class derived from it"],
    )
    def test_a_pause_is_exact_in_the_retry_set(self, app, error, pause_s):
        @app.task(name="t", autoretry_for=(OSError,), retry_backoff=16, retry_jitter=False)
        def fails():
            raise error

        with fake() as jobs:
            fails.delay()
            jobs.drain(raise_errors=False)
            assert jobs.retries[0].at == pytest.approx(jobs.clock.now() + pause_s, abs=0.9)

    def test_self_retry_keeps_the_error_and_the_arguments(self, app):
        task = app.task(bind=True, name="t", default_retry_delay=5)(lambda self: None)
        with called(Request("t", id="J")):
            with pytest.raises(Retry) as caught:
                task.retry(exc=OSError("away"))
            assert isinstance(task.retry(throw=False), Retry)
        assert isinstance(caught.value.__cause__, OSError)
        assert "OSError: away" in str(caught.value)
        assert caught.value.delay_s(0) == 5
        with pytest.raises(PayloadError, match="keeps the arguments"):
            task.retry(args=[1])

    def test_none_left(self, app):
        task = app.task(bind=True, name="t")(lambda self: None)

        with called(Request("t", id="J", retries=3)):
            with pytest.raises(OSError, match="away"):
                task.retry(exc=OSError("away"))
            with pytest.raises(MaxRetriesExceededError, match="3 times"):
                task.retry()
            assert task.retry(max_retries=4, countdown=4, throw=False).delay_s(0) == 4


def declare_stubborn(celery, ran):
    """Tasks that name their limit at a call of `retry`, declared with Celery or with Kiqbridge."""
    options = {"bind": True, "max_retries": 4, "default_retry_delay": 0.01}
    app = celery("stubborn", broker="memory://") if celery is real_celery.Celery else celery("t")

    def auto(self):
        ran.append(self.request.retries)
        raise self.retry(exc=OSError("x"), max_retries=1)

    def auto_without_an_error(self):
        ran.append(self.request.retries)
        raise self.retry(max_retries=2)

    def at_once(self):
        ran.append(self.request.retries)
        raise self.retry(exc=OSError("x"), max_retries=0)

    def another_error(self):
        ran.append(self.request.retries)
        try:
            raise self.retry(max_retries=1)
        except self.MaxRetriesExceededError:
            raise OSError("x") from None

    declared = (auto, auto_without_an_error, at_once, another_error)
    return {
        each.__name__: app.task(name=each.__name__, autoretry_for=(Exception,), **options)(each)
        for each in declared
    }


@pytest.mark.parametrize(
    "name",
    ["auto", "auto_without_an_error", "at_once", "another_error"],
)
def test_the_limit_of_a_call_of_retry_holds_for_autoretry_for_as_in_celery(name):
    wanted, eagerly, performed = [], [], []
    theirs = declare_stubborn(real_celery.Celery, wanted)[name].apply()

    ours = declare_stubborn(Celery, eagerly)[name].apply()
    default_registry._definitions.clear()
    with fake() as jobs:
        declare_stubborn(Celery, performed)[name].delay()
        perform_all(jobs)
        [dead] = jobs.dead

    assert wanted == eagerly == performed
    assert type(theirs.result).__name__ == type(ours.result).__name__
    assert dead.payload["error_class"].endswith(type(ours.result).__name__)


def perform_all(jobs):
    """Perform what is due, until nothing waits for another try."""
    while jobs.drain(raise_errors=False) or jobs.retries:
        jobs.clock.move(minutes=10)


@pytest.mark.parametrize("ends", ["returns", "fails", "asks again"])
def test_what_retry_has_promised_without_throwing_is_kept_however_the_function_ends(app, ends):
    ran = []

    @app.task(bind=True, name="t")
    def task(self):
        ran.append(self.request.retries)
        if self.request.retries == 0:
            promised = self.retry(countdown=7, throw=False)
            assert isinstance(promised, Retry)
            ran.append("goes on")
            if ends == "fails":
                raise ValueError("after that")
            if ends == "asks again":
                raise promised

    with fake() as jobs:
        task.delay()
        jobs.drain(raise_errors=False)
        [again] = jobs.retries
        perform_all(jobs)

        assert ran == [0, "goes on", 1]
        assert not jobs.dead
    assert again.payload["retry_count"] == 0


def test_a_coroutine_keeps_what_retry_has_promised(app):
    ran = []

    @app.task(bind=True, name="t")
    async def task(self):
        ran.append(self.request.retries)
        if self.request.retries == 0:
            self.retry(throw=False)

    with fake() as jobs:
        task.delay()
        perform_all(jobs)

    assert ran == [0, 1]


def test_exceptions_and_loggers_have_celerys_places():
    assert SoftTimeLimitExceeded is JobTimeout
    assert exceptions.TimeoutError is ResultTimeout
    assert get_task_logger("shop").name == "shop"
