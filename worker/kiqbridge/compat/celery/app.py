"""Celery's application: its settings, its tasks, and `shared_task`, whose tasks follow the latest application."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from kiqbridge.client.default_client import configure, default_client
from kiqbridge.compat.celery.options import Conf, check_call
from kiqbridge.compat.celery.results import AsyncResult, Request
from kiqbridge.compat.celery.task import SENT, Task, when_of
from kiqbridge.errors import ConfigError, PayloadError

P = ParamSpec("P")
R = TypeVar("R")

_latest: "list[Celery]" = []


class Celery:
    """Celery's application: configuration and declared tasks.

    Args:
        main: name for messages.
        broker: address of Redis; default as for `kiqbridge.configure`.
        backend: any address of Redis: results are kept, in the Redis of the jobs, for `result_expires`.
        include: modules to import, as `autodiscover_tasks`.
        config: passed to `conf.update`.

    Attributes:
        conf: the settings, see `options.Conf`.
        tasks: name → task.
    """

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
        self.conf = conf = Conf()
        self._conf_of: Callable[[], Conf] = lambda: conf
        self.tasks: dict[str, Task[..., Any]] = {}
        if backend:
            self.conf.result_backend = backend
        if broker is not None:
            self._check_broker(broker)
            configure(broker)
        self.conf.update(config)
        self._include = list(include)
        _latest[:] = [self]

    def _check_broker(self, broker: str) -> None:
        if not broker.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigError(
                f"Celery({self.main!r}): broker {broker.partition(':')[0]}: is no address of Redis; write "
                "redis://HOST:6379/0"
            )

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
        task: Task[..., Any] = Task(function, name=name, conf=self._conf_of, options=given)
        self.tasks[name] = task
        return task

    def send_task(
        self,
        name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue by name; a task that is not declared here takes no keyword arguments.

        Raises:
            PayloadError: as `apply_async`; keyword arguments of an unknown task.
        """
        if name in self.tasks:
            return self.tasks[name].apply_async(args, kwargs, **options)
        if kwargs:
            raise PayloadError(
                f"{name}: is not declared here, so the places of {', '.join(kwargs)} are not known; give args=[…]"
            )
        check_call(name, {key: value for key, value in options.items() if key not in SENT})
        item: dict[str, Any] = {"class": name, "args": list(args or ())}
        item["queue"] = options.get("queue") or self.conf.route_of(name)
        if options.get("task_id") is not None:
            item["jid"] = options["task_id"]
        if (at := when_of(options.get("countdown"), options.get("eta"))) is not None:
            item["at"] = at
        return AsyncResult(default_client().push(item))

    def autodiscover_tasks(
        self, packages: Iterable[str] = (), related_name: str = "tasks", **_options: Any
    ) -> None:
        """Import `PACKAGE.tasks` of each package, where there is one, and the modules of `include`.

        Raises:
            ImportError: such a module cannot be imported for a reason of its own.
        """
        for module in self._include:
            import_module(module)
        for package in packages:
            name = f"{package}.{related_name}"
            try:
                import_module(name)
            except ModuleNotFoundError as error:
                if error.name not in (name, package):
                    raise

    def config_from_object(self, obj: object, namespace: str = "") -> None:
        """Settings out of an object, or of a module by its name; with a namespace, the names that begin with it.

        Without one, a name counts that is a setting of Celery's; others, such as imports, do not.

        Raises:
            ConfigError: as `Conf.update`.
        """
        source = import_module(obj) if isinstance(obj, str) else obj
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
            self._check_broker(broker)
            configure(broker)
        self.conf.update(
            {name: value for name, value in found.items() if namespace or Conf.is_setting(name)}
        )

    @property
    def current_task(self) -> "Task[..., Any] | None":
        """The task whose job runs here."""
        return self.tasks.get(str(Request().task))


_shared = Celery("shared")
_shared._conf_of = lambda: _latest[0].conf  # noqa: SLF001 - as Celery's: the application that was made last


def shared_task(*args: Any, **options: Any) -> Any:
    """Declare a task without an application, as `@shared_task` or `@shared_task(bind=True, …)`."""
    return _shared.task(*args, **options)


class _CurrentTask:
    """`celery.current_task`: the task of the running job."""

    @property
    def request(self) -> Request:
        """Of the running job."""
        return Request()

    @property
    def name(self) -> str | None:
        """Of the running task; None: none runs here."""
        return Request().task


current_task = _CurrentTask()


def _module_of(function: Callable[..., Any], app: Celery) -> str:
    module = function.__module__
    return app.main if module == "__main__" and app.main else module
