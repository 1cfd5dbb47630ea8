"""A task of Celery as a declared job: `delay`, `apply_async`, `retry` and the options of `@task`."""

import functools
import inspect
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast

from kiqbridge import seams
from kiqbridge.client.declaration import require_definition
from kiqbridge.client.default_client import default_client
from kiqbridge.client.job import job
from kiqbridge.client.middleware import collector_of
from kiqbridge.client.registry import MARK
from kiqbridge.compat.celery.conf import Conf
from kiqbridge.compat.celery.exceptions import MaxRetriesExceededError, Retry
from kiqbridge.compat.celery.options import SENT, check_call, check_task, is_ours
from kiqbridge.compat.celery.request import Request, called, current_request, is_final, performed
from kiqbridge.compat.celery.result import AsyncResult, EagerResult
from kiqbridge.compat.celery.sending import item_of, when_of
from kiqbridge.errors import ConfigError, JobFailed, PayloadError
from kiqbridge.wire.payload import new_jid

if TYPE_CHECKING:
    from kiqbridge.client.function_job import FunctionJob

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

FOREVER: Final = 10_000
"""Retries of a task with `max_retries=None`."""


class Task(Generic[P, R]):
    """A task: a declared job with Celery's methods. It is still callable.

    Attributes:
        name: Celery's name of it, and the wire name.
        job: the declared job.
    """

    MaxRetriesExceededError = MaxRetriesExceededError

    def __init__(
        self,
        function: Callable[..., R],
        *,
        name: str,
        conf: Callable[[], Conf],
        options: Mapping[str, Any],
    ) -> None:
        given = dict(options)
        check_task(name, given)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigError(
                f"task {name}: its function has a yield, so that calling it runs nothing; return a list"
            )
        functools.update_wrapper(self, function)
        self.name = name
        self._conf = conf
        self.queue: str | None = given.get("queue")
        self._ignores_result: bool | None = given.get("ignore_result")
        again = given.get("retry_kwargs", {})
        if unknown := again.keys() - {"max_retries", "countdown"}:
            raise ConfigError(
                f"task {name}: retry_kwargs: {min(unknown)} has no counterpart here; there are max_retries and countdown"
            )
        most = again.get("max_retries", given.get("max_retries", 3))
        self.max_retries: int | None = most
        self._most = FOREVER if most is None else int(most)
        pause = again.get("countdown", given.get("default_retry_delay", 180))
        self.default_retry_delay = float(pause)
        self._function = functools.partial(function, self) if given.get("bind") else function
        limit = max(given.get("time_limit") or 0, given.get("soft_time_limit") or 0)
        self._autoretry_for = tuple(given.get("autoretry_for", ()))
        self._dont_autoretry_for = tuple(given.get("dont_autoretry_for", ()))
        self._backoff: bool | float = given.get("retry_backoff", False)
        self._backoff_max_s = float(given.get("retry_backoff_max", 600))
        self._jitter = bool(given.get("retry_jitter", True))
        ours: Any = {option: value for option, value in given.items() if is_ours(option)}
        if given.get("expires") is not None:
            ours["expires_in"] = given["expires"]
        is_plain = not inspect.iscoroutinefunction(function) and ours.get("pool") != "process"
        if is_plain and given.get("time_limit"):
            logger.warning(
                "task %s: time_limit: a thread cannot be killed; at the limit SoftTimeLimitExceeded is raised in the task, "
                'and a call outside of Python continues until it returns; pool="process" runs the task in a child process, '
                "which is killed",
                name,
            )
        declare = job(
            **ours,
            name=name,
            queue=self._declared_queue(),
            retry=self._most,
            timeout_s=float(limit) if limit else None,
            retry_in=self.retry_delay,
            retry_jitter=False,
        )
        self.job: FunctionJob[P, R] = declare(_plain(function, self._function))
        self._definition = require_definition(self.job)
        setattr(self, MARK, self._definition)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        with called(Request(self.name, args=args, kwargs=kwargs)):
            return self._function(*args, **kwargs)

    run = __call__

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    def route(self) -> None:
        """Its declaration names the queue that the settings name now: `call`, schedules and a worker go by that."""
        self._definition.route(self._declared_queue())

    def _declared_queue(self) -> str:
        conf = self._conf()
        try:
            return self.queue or conf.route_of(self.name)
        except ConfigError:
            raise
        except Exception:  # noqa: BLE001 - a function of task_routes that needs the arguments of a call
            return conf.task_default_queue

    @property
    def request(self) -> Request:
        """The innermost call of a task, or the running job."""
        return current_request()

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> AsyncResult:
        """Enqueue now. Raises as `perform_async`."""
        return self.apply_async(args, kwargs)

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """Enqueue the task, and return its jid: `delay` for `call`, `chain`, `group` and `Batch` of `kiqbridge.flow`."""
        return self.apply_async(args, kwargs).id

    @property
    def is_eager(self) -> bool:
        """Whether a call runs at once here: `task_always_eager` is set, and no batch or chain takes it."""
        return self._conf().task_always_eager and collector_of(default_client()) is None

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue with options.

        Args:
            args, kwargs: of the function; what is given by keyword travels at its position.
            options: see `item`.

        Raises:
            PayloadError: an option that has no counterpart, or arguments that the function does not take.
            KiqbridgeError: as `perform_async`.
        """
        if self.is_eager:
            check_call(self.name, {name: options[name] for name in options.keys() - SENT})
            when_of(options.get("countdown"), options.get("eta"))
            return self.apply(args, kwargs, task_id=options.get("task_id"))
        item, result = self.item(args, kwargs, **options)
        result.id = default_client().push(item)
        return result

    def item(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        lacks_first: bool = False,
        countdown: float | None = None,
        eta: datetime | float | None = None,
        expires: float | timedelta | datetime | None = None,
        queue: str | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> tuple[dict[str, Any], AsyncResult]:
        """A call as `Client.push` takes it, and where its result will be; raises as `apply_async`.

        Args:
            args, kwargs: of the function.
            lacks_first: its first argument is what the task before it returns.
            countdown: seconds until it runs.
            eta: when it runs: an aware datetime, or epoch seconds.
            expires: as Celery's; `expires_in` of the job's options, seconds.
            queue: in place of the task's, and of `task_routes`.
            task_id: the jid.
            options: Celery's others; those without a counterpart are refused.
        """
        check_call(self.name, options)
        conf = self._conf()
        given = self._rest(args or (), kwargs or {}) if lacks_first else self._bound(args, kwargs)
        ignored = conf.ignores_result(options.get("ignore_result", self._ignores_result))
        item = item_of(
            self.job,
            given,
            conf=conf,
            queue=queue
            or options.get("routing_key")
            or self.queue
            or conf.route_of(self.name, given),
            at=when_of(countdown, eta),
            expires=expires,
            task_id=task_id,
            ignored=ignored,
        )
        return item, AsyncResult(task_id, conf=conf, ignored=ignored)

    def _bound(self, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None) -> Sequence[Any]:
        return self.job.with_args(*(args or ()), **(kwargs or {})).args

    def _rest(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """All arguments but the first."""
        try:
            bound = self._definition.signature.bind(None, *args, **kwargs)
        except TypeError as error:
            raise PayloadError(
                f"args: {self.name} cannot be called like this, behind the result of the task before it: {error}; "
                "write .si(…) if it takes none"
            ) from error
        if bound.kwargs:
            raise PayloadError(
                f"args: {', '.join(bound.kwargs)} of {self.name} can only be given by keyword"
            )
        return bound.args[1:]

    def apply(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        task_id: str | None = None,
        retries: int = 0,
        throw: bool | None = None,
        **options: Any,
    ) -> EagerResult:
        """Run here and now, through middleware, as a worker would, and try again at once; it needs no server.

        Args:
            args, kwargs: of the function.
            task_id: the jid.
            retries: how often it was tried before.
            throw: raise the error of the first try; default: the setting `task_eager_propagates`. Else the error
                of the last one is in the result.
            options: Celery's others; those without a counterpart are refused.

        Raises:
            PayloadError: it cannot be enqueued like this either.
        """
        check_call(self.name, options)
        throw = self._conf().task_eager_propagates if throw is None else throw
        jid = task_id or new_jid()
        arguments = self._bound(args, kwargs)
        setter: Any = self.job.set(jid=jid)
        while True:
            request = Request(self.name, id=jid, retries=retries, args=arguments, is_eager=True)
            with called(request):
                try:
                    returned = setter.perform_inline(*(args or ()), **(kwargs or {}))
                except Exception as error:
                    if throw or not request.has_begun:
                        raise
                    if (
                        retries >= self._most
                        or self.retry_delay(retries, error, {"jid": jid}) == "kill"
                    ):
                        return EagerResult(jid, None, error)
                else:
                    stopped = None if request.has_begun else JobFailed(jid, "skipped")
                    return EagerResult(jid, returned, stopped)
            retries += 1

    def retry(
        self,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        exc: BaseException | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Try the running job again later, with the same arguments.

        Args:
            args, kwargs: refused: a retried job keeps its arguments.
            exc: the error that made it necessary; raised when no retries are left.
            throw: False returns the exception instead of raising it: the function goes on, and the job is tried
                again when it has ended. Eagerly, as in Celery, it is tried again only if you raise it.
            eta, countdown: when, or in how many seconds; default `default_retry_delay`.
            max_retries: no more than so many in all, for `autoretry_for` as well; default the task's.
            options: refused.

        Raises:
            BaseException: `exc`, or Retry without one, where the function is called directly and no job runs.
            Retry: always, if `throw` and retries are left; the worker puts the job into the retry set.
            MaxRetriesExceededError: none are left, and there is no `exc`.
        """
        if args is not None or kwargs is not None or options:
            raise PayloadError(
                f"{self.name}: retry() keeps the arguments and the queue of the job; to enqueue it with others "
                "call apply_async() and return"
            )
        request = self.request
        if request.called_directly:
            raise exc or Retry()
        if max_retries is not None:
            request.most = max_retries
        most = self.max_retries if max_retries is None else max_retries
        if most is not None and request.retries >= most:
            raise exc or MaxRetriesExceededError(
                f"{self.name} was tried again {request.retries} times, its max_retries"
            )
        when = eta if eta is not None else countdown
        again = Retry(exc=exc, when=self.default_retry_delay if when is None else when)
        if throw:
            raise again from exc
        if not request.is_eager:
            request.again = again
        return again

    def retry_delay(
        self, count: int, error: BaseException, payload: Mapping[str, Any]
    ) -> float | str:
        """Seconds until the next try, or "kill": Celery's rules as an answer to `retry_in` (protocol §8.3).

        A task that raises `Retry` is tried again at the time that it names. One that raises an error of `autoretry_for`
        is tried again after `default_retry_delay`, or with a growing pause. Any other error is final, as in Celery; the
        job is kept in the dead set, where an operator can retry it.
        """
        if isinstance(error, Retry):
            return max(error.delay_s(self.default_retry_delay), 0.001)
        if (
            not isinstance(error, self._autoretry_for)
            or isinstance(error, self._dont_autoretry_for)
            or is_final(error, payload.get("jid"))
        ):
            return "kill"
        if not self._backoff:
            return self.default_retry_delay
        pause = min(float(self._backoff) * 2 ** min(count, 40), self._backoff_max_s)
        return max(random.uniform(0, pause) if self._jitter else pause, 0.001)  # noqa: S311 - jitter

    def s(self, *args: Any, **kwargs: Any) -> Any:
        """A signature: this call as a part of a chain, a group or a chord (features/batches/signatures.py)."""
        return self.signature(args, kwargs)

    def si(self, *args: Any, **kwargs: Any) -> Any:
        """A signature that gets no argument from the task before it."""
        return self.signature(args, kwargs, immutable=True)

    def signature(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """A signature with options of `apply_async`, and `immutable`."""
        return seams.call("signature", of="batches")(self, args, kwargs, **options)

    subtask = signature


def _plain(function: Callable[..., R], call: Callable[..., R]) -> Callable[..., R]:
    """The function as a job sees it, noting that it has begun: a bound task without its first parameter."""
    plain: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def plain(*args: Any, **kwargs: Any) -> Any:
            with performed():
                return await call(*args, **kwargs)  # type: ignore[misc]
    else:

        @functools.wraps(function)
        def plain(*args: Any, **kwargs: Any) -> R:
            with performed():
                return call(*args, **kwargs)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    plain.__signature__ = signature.replace(
        parameters=parameters if call is function else parameters[1:]
    )
    return cast("Callable[..., R]", plain)
