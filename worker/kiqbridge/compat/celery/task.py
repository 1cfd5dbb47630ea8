"""A task of Celery as a declared job: `delay`, `apply_async`, `retry` and the options of `@task`."""

import functools
import inspect
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeVar, cast

from kiqbridge.client.job import job
from kiqbridge.compat.celery.options import Conf, check_call, check_task
from kiqbridge.compat.celery.request import Request, called, current_request
from kiqbridge.compat.celery.result import AsyncResult, EagerResult
from kiqbridge.compat.celery.retry import MaxRetriesExceededError, Retry, RetryRule, retry_now
from kiqbridge.errors import ConfigError, JobFailed, PayloadError
from kiqbridge.wire.payload import new_jid

if TYPE_CHECKING:
    from kiqbridge.client.function_job import FunctionJob

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
        self._rule = rule = RetryRule(
            autoretry_for=tuple(given.get("autoretry_for", ())),
            dont_autoretry_for=tuple(given.get("dont_autoretry_for", ())),
            delay_s=self.default_retry_delay,
            backoff=given.get("retry_backoff", False),
            backoff_max_s=float(given.get("retry_backoff_max", 600)),
            jitter=bool(given.get("retry_jitter", True)),
            rng=random.Random(),  # noqa: S311 - jitter
        )
        declare = job(
            name=name,
            queue=self.queue or conf().task_default_queue,
            retry=self._most,
            timeout_s=float(limit) if limit else None,
            retry_in=rule.delay,
        )
        self.job: FunctionJob[P, R] = declare(_plain(function, self._function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        with called(Request(self.name, args=args, kwargs=kwargs)):
            return self._function(*args, **kwargs)

    run = __call__

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def request(self) -> Request:
        """The innermost call of a task, or the running job."""
        return current_request()

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> AsyncResult:
        """Enqueue now. Raises as `perform_async`."""
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        countdown: float | None = None,
        eta: datetime | float | None = None,
        expires: float | timedelta | datetime | None = None,
        queue: str | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> AsyncResult:
        """Enqueue with options.

        Args:
            args, kwargs: of the function; what is given by keyword travels at its position.
            countdown: seconds until it runs.
            eta: when it runs: an aware datetime, or epoch seconds.
            expires: as Celery's; `expires_in` of the job's options, seconds.
            queue: in place of the task's, and of `task_routes`.
            task_id: the jid.
            options: Celery's others; those without a counterpart are refused.

        Raises:
            PayloadError: an option that has no counterpart, or arguments that the function does not take.
            KiqbridgeError: as `perform_async`.
        """
        check_call(self.name, options)
        conf, at = self._conf(), when_of(countdown, eta)
        if conf.task_always_eager:
            return self.apply(args, kwargs, task_id=task_id)
        ignored = conf.ignores_result(options.get("ignore_result", self._ignores_result))
        queue = queue or options.get("routing_key") or conf.queue_of(self, None)
        setter: Any = self.job.set(
            **call_options(
                conf, queue=queue, at=at, expires=expires, task_id=task_id, ignored=ignored
            )
        )
        given_args, given_kwargs = tuple(args or ()), dict(kwargs or {})
        if at is None:
            jid = setter.perform_async(*given_args, **given_kwargs)
        else:
            jid = setter.perform_at(at, *given_args, **given_kwargs)
        return AsyncResult(jid, conf=conf, ignored=ignored)

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
        arguments = self.job.with_args(*(args or ()), **(kwargs or {})).args
        setter: Any = self.job.set(jid=jid)
        while True:
            request = Request(self.name, id=jid, retries=retries, args=arguments, is_eager=True)
            with called(request):
                try:
                    setter.perform_inline(*(args or ()), **(kwargs or {}))
                except Exception as error:
                    if throw or not request.has_begun:
                        raise
                    if retries >= self._most or self._rule.delay(retries, error, {}) == "kill":
                        return EagerResult(jid, None, error)
                else:
                    stopped = None if request.has_begun else JobFailed(jid, "skipped")
                    return EagerResult(jid, request.returned, stopped)
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
            throw: False returns the exception instead of raising it; raise it yourself.
            eta, countdown: when, or in how many seconds; default `default_retry_delay`.
            max_retries: no more than so many in all; default the task's.
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
        most = self.max_retries if max_retries is None else max_retries
        again = retry_now(
            self.name,
            request.retries,
            most=most,
            exc=exc,
            when=eta if eta is not None else countdown,
            delay_s=self.default_retry_delay,
        )
        if throw:
            raise again from exc
        return again

    def s(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        """Refused: signatures have other names here.

        Raises:
            ConfigError: always; says what to do.
        """
        raise ConfigError(
            f"{self.name}: Celery's signatures (s, si, chain, group, chord) have no counterpart in this module; "
            "use chain, group and Batch of kiqbridge.flow"
        )

    si = signature = subtask = s


def call_options(
    conf: Conf,
    *,
    queue: str,
    at: float | None,
    expires: float | timedelta | datetime | None,
    task_id: str | None,
    ignored: bool,
) -> dict[str, Any]:
    """Options of one push: those of `set` in `kiqbridge.job`.

    Args:
        conf: of the application.
        queue: where the job goes.
        at: when it runs, epoch seconds; None = now.
        expires: as Celery's, from now on.
        task_id: the jid.
        ignored: no result is kept.
    """
    chosen: dict[str, Any] = {"queue": queue}
    if task_id is not None:
        chosen["jid"] = task_id
    if not ignored and conf.result_backend:
        chosen["result_ttl"] = conf.result_expires
    if expires is not None:
        wait_s = 0.0 if at is None else max(at - time.time(), 0.0)  # expires_in counts from then
        chosen["expires_in"] = max(seconds_left(expires) - wait_s, 0.001)
    return chosen


def when_of(countdown: float | None, eta: datetime | float | None) -> float | None:
    """Epoch seconds at which a job shall run, or None: now.

    Raises:
        PayloadError: both are given, or `eta` has no time zone.
    """
    if countdown is not None and eta is not None:
        raise PayloadError("give countdown (seconds) or eta (a time), not both")
    if countdown is not None:
        return time.time() + float(countdown)
    if isinstance(eta, datetime):
        if eta.tzinfo is None:
            raise PayloadError(f"eta: {eta!r} has no time zone; use datetime.now(UTC) or the like")
        return eta.timestamp()
    return eta


def seconds_left(expires: float | timedelta | datetime) -> float:
    """Seconds from now: what `expires` of a call means."""
    if isinstance(expires, timedelta):
        return expires.total_seconds()
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise PayloadError(f"expires: {expires!r} has no time zone; use datetime.now(UTC)")
        return (expires - datetime.now(expires.tzinfo)).total_seconds()
    return float(expires)


def _plain(function: Callable[..., R], call: Callable[..., R]) -> Callable[..., R]:
    """The function as a job sees it, noting what it returns: a bound task without its first parameter."""
    performed: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def perform_on_loop(*args: Any, **kwargs: Any) -> Any:
            request = current_request()
            request.has_begun = True
            request.returned = await call(*args, **kwargs)  # type: ignore[misc]
            return request.returned

        performed = perform_on_loop
    else:

        @functools.wraps(function)
        def perform(*args: Any, **kwargs: Any) -> R:
            request = current_request()
            request.has_begun = True
            request.returned = returned = call(*args, **kwargs)
            return returned

        performed = perform
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    performed.__signature__ = signature.replace(
        parameters=parameters if call is function else parameters[1:]
    )
    return cast("Callable[..., R]", performed)
