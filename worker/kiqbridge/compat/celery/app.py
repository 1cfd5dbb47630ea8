"""Celery's application: its settings, its tasks, and `shared_task`, whose tasks follow the latest application."""

import inspect
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, ParamSpec, TypeVar

from kiqbridge.client.default_client import configure, default_client
from kiqbridge.client.require import after_loading
from kiqbridge.compat.celery.conf import Conf, latest_conf, make_latest
from kiqbridge.compat.celery.control import Control
from kiqbridge.compat.celery.edits import check_body, listed
from kiqbridge.compat.celery.options import SENT, check_call
from kiqbridge.compat.celery.request import Request, current_request
from kiqbridge.compat.celery.result import AsyncResult
from kiqbridge.compat.celery.sending import item_of, when_of
from kiqbridge.compat.celery.task import Task
from kiqbridge.errors import ConfigError, PayloadError

P = ParamSpec("P")
R = TypeVar("R")


_shared_tasks: dict[str, Task[..., Any]] = {}


class Celery:
    """Celery's application: configuration and declared tasks.

    Args:
        main: name for messages.
        broker: address of Redis; default as for `kiqbridge.configure`.
        backend: any address of Redis: results are kept, in the Redis of the jobs, for `result_expires`.
        include: modules that a worker imports after those of its `-r`.
        config: passed to `conf.update`.

    Attributes:
        conf: the settings, see `conf.Conf`.
        control: see `control.Control`.
        tasks: name → task; those of `shared_task` included.
    """

    _latest_main: ClassVar[str | None] = None

    def __init__(
        self,
        main: str | None = None,
        *,
        broker: str | None = None,
        backend: str | None = None,
        include: Iterable[str] = (),
        **config: Any,
    ) -> None:
        self.main = main
        self.tasks = ChainMap[str, Task[..., Any]]({}, _shared_tasks)
        self._conf_of: Callable[[], Conf] = lambda: conf
        self.control = Control()
        self.conf = conf = Conf(self._route, listed)
        if backend:
            self.conf.result_backend = backend
        if broker is not None:
            self._configure(broker)
        self.conf.update(config)
        if include:
            modules = list(include)
            after_loading(lambda: [import_module(module) for module in modules])
        make_latest(conf)
        Celery._latest_main = main
        self._route()

    def _configure(self, broker: str) -> None:
        self._check_broker(broker)
        configure(broker)
        self.conf.follow_eager()

    def _check_broker(self, broker: str) -> None:
        if not broker.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigError(
                f"Celery({self.main!r}): broker {broker.partition(':')[0]}: is no address of Redis; write "
                "redis://HOST:6379/0"
            )

    def _route(self) -> None:
        """Where tasks go has changed."""
        for task in self.tasks.values():
            task.route()

    def __repr__(self) -> str:
        return f"<Celery {self.main}>"

    def task(self, *args: Any, **options: Any) -> Any:
        """Declare a task, as `@app.task` or `@app.task(bind=True, …)`.

        Raises:
            ConfigError: an option that has no counterpart, or a name that is taken.
        """
        if len(args) == 1 and not options and callable(args[0]):
            return self._declare(args[0], {})
        if args:
            raise ConfigError("task: give options by keyword, such as @app.task(bind=True)")
        return lambda function: self._declare(function, options)

    def _declare(self, function: Callable[..., Any], options: Mapping[str, Any]) -> Task[..., Any]:
        given = dict(options)
        name = given.pop("name", None) or f"{_module_of(function, self)}.{function.__name__}"
        try:
            if given.get("bind"):
                check_body(function, name)
            task: Task[..., Any] = Task(function, name=name, conf=self._conf_of, options=given)
        except ConfigError as error:
            raise ConfigError(listed(str(error))) from error
        self.tasks[name] = task
        return task

    def send_task(
        self,
        name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue by name, with the options of `apply_async`; a task that is not declared here takes no keyword arguments.

        Raises:
            PayloadError: as `apply_async`; keyword arguments of an unknown task.
        """
        task = self.tasks.get(name)
        if task is not None:
            return task.apply_async(args, kwargs, **options)
        if kwargs:
            raise PayloadError(
                f"{name}: is not declared here, so the places of {', '.join(kwargs)} are not known; give args=[…]"
            )
        sent = {each: options.pop(each, None) for each in SENT}
        check_call(name, options)
        ignored = self.conf.ignores_result(options.get("ignore_result"))
        item = item_of(
            name,
            args or (),
            conf=self.conf,
            queue=sent["queue"]
            or options.get("routing_key")
            or self.conf.route_of(name, args or ()),
            at=when_of(sent["countdown"], sent["eta"]),
            expires=sent["expires"],
            task_id=sent["task_id"],
            ignored=ignored,
        )
        return AsyncResult(default_client().push(item), conf=self.conf, ignored=ignored)

    def AsyncResult(self, id: str) -> AsyncResult:  # noqa: A002, N802 - Celery's name
        """The result of a job of this application by its jid."""
        return AsyncResult(id, conf=self.conf)

    def autodiscover_tasks(
        self,
        packages: Iterable[str] | None = None,
        related_name: str = "tasks",
        *,
        force: bool = False,
    ) -> None:
        """Import `PACKAGE.tasks` of each package, where there is one, after a worker has imported its `-r`.

        Args:
            packages: their names; None: all installed applications of Django.
            related_name: of the module in each.
            force: now.

        Raises:
            ImportError: such a module cannot be imported for a reason of its own.
            ConfigError: None, and Django is not set up.
        """

        def load() -> None:
            for package in _django_apps() if packages is None else packages:
                name = f"{package}.{related_name}"
                try:
                    import_module(name)
                except ModuleNotFoundError as error:
                    if error.name not in (name, package):
                        raise

        if force:
            load()
        else:
            after_loading(load)

    def config_from_object(self, obj: object, namespace: str = "") -> None:
        """Settings out of an object, or of a module by its name, such as `proj.celeryconfig` or `django.conf:settings`.

        With a namespace, the names that begin with it.

        Without one, a name counts that is a setting of Celery's; others, such as imports, do not.

        Raises:
            ConfigError: as `Conf.update`.
        """
        source = obj
        if isinstance(obj, str):
            module, _, attribute = obj.partition(":")
            source = import_module(module)
            source = getattr(source, attribute) if attribute else source
        prefix = f"{namespace}_" if namespace else ""
        found = {
            name.removeprefix(prefix).lower(): getattr(source, name)
            for name in dir(source)
            if not name.startswith("_")
            and name.startswith(prefix)
            and not inspect.ismodule(getattr(source, name))
        }
        broker = found.pop("broker_url", None)
        if broker:
            self._configure(broker)
        self.conf.update(
            {name: value for name, value in found.items() if namespace or Conf.is_setting(name)}
        )

    @property
    def current_task(self) -> "Task[..., Any] | None":
        """The task whose job runs here."""
        return self.tasks.get(str(current_request().task))


_shared = Celery()
_shared.tasks = ChainMap(_shared_tasks)
_shared._conf_of = latest_conf  # noqa: SLF001 - as Celery's: the application that was made last


def shared_task(*args: Any, **options: Any) -> Any:
    """Declare a task without an application, as `@shared_task` or `@shared_task(bind=True, …)`."""
    _shared.main = Celery._latest_main  # noqa: SLF001 - as above
    return _shared.task(*args, **options)


class _CurrentTask:
    @property
    def request(self) -> Request:
        """Of the running job."""
        return current_request()

    @property
    def name(self) -> str | None:
        """Of the running task; None: none runs here."""
        return current_request().task


current_task = _CurrentTask()
"""`celery.current_task`: the task of the running job."""


def _module_of(function: Callable[..., Any], app: Celery) -> str:
    module = function.__module__
    return app.main if module == "__main__" and app.main else module


def _django_apps() -> list[str]:
    module = sys.modules.get("django.apps")
    if module is None or not module.apps.ready:
        raise ConfigError(
            "autodiscover_tasks() without packages looks at Django's applications, and Django is not set up here; "
            "start with: python manage.py kiqbridge worker"
        )
    return [each.name for each in module.apps.get_app_configs()]
