"""A task of Celery as a declared job: `delay`, `apply_async`, `retry` and the options of `@task`."""

import functools
import inspect
import random
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, ParamSpec, TypeVar

from kiqbridge.client.job import job
from kiqbridge.compat.celery.options import Conf, check_call, check_task
from kiqbridge.compat.celery.results import AsyncResult, Request
from kiqbridge.compat.celery.retry import Retry, RetryRule, retry_now
from kiqbridge.errors import ConfigError, PayloadError
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
        functools.update_wrapper(self, function)
        self.name = name
        self._conf = conf
        self.queue: str | None = given.get("queue")
        self._ignores_result: bool | None = given.get("ignore_result")
        again = given.get("retry_kwargs", {})
        most = again.get("max_retries", given.get("max_retries", 3))
        self.max_retries: int | None = most
        pause = again.get("countdown", given.get("default_retry_delay", 180))
        self.default_retry_delay = float(pause)
        self._function = functools.partial(function, self) if given.get("bind") else function
        limit = max(given.get("time_limit") or 0, given.get("soft_time_limit") or 0)
        rule = RetryRule(
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
            retry=FOREVER if most is None else int(most),
            timeout_s=float(limit) if limit else None,
            retry_in=rule.delay,
        )
        self.job: FunctionJob[P, R] = declare(_plain(function, self._function))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself, here and now."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def request(self) -> Request:
        """The running job."""
        return Request()

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
        chosen: dict[str, Any] = {"queue": self._conf().queue_of(self, queue)}
        if options.get("routing_key") and not queue:
            chosen["queue"] = options["routing_key"]
        if task_id is not None:
            chosen["jid"] = task_id
        ignored = options.get("ignore_result", self._ignores_result)
        if (ttl := self._conf().result_ttl(ignored=ignored)) is not None:
            chosen["result_ttl"] = ttl
        if expires is not None:
            chosen["expires_in"] = seconds_left(expires)
        given_args, given_kwargs = tuple(args or ()), dict(kwargs or {})
        if self._conf().task_always_eager:
            return self.apply(args, kwargs, task_id=task_id)
        setter: Any = self.job.set(**chosen)
        if countdown is not None and eta is not None:
            raise PayloadError(f"{self.name}: give countdown (seconds) or eta (a time), not both")
        if countdown is not None:
            return AsyncResult(setter.perform_in(countdown, *given_args, **given_kwargs))
        if eta is not None:
            return AsyncResult(setter.perform_at(eta, *given_args, **given_kwargs))
        return AsyncResult(setter.perform_async(*given_args, **given_kwargs))

    def apply(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        task_id: str | None = None,
    ) -> AsyncResult:
        """Run here and now, through middleware, as a worker would; an error of the task is raised."""
        jid = task_id or new_jid()
        setter: Any = self.job.set(jid=jid)
        setter.perform_inline(*(args or ()), **(kwargs or {}))
        return AsyncResult(jid)

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
            Retry: always, if `throw` and retries are left; the worker puts the job into the retry set.
            MaxRetriesExceededError: none are left, and there is no `exc`.
        """
        if args is not None or kwargs is not None or options:
            raise PayloadError(
                f"{self.name}: retry() keeps the arguments and the queue of the job; to enqueue it with others "
                "call apply_async() and return"
            )
        most = self.max_retries if max_retries is None else max_retries
        again = retry_now(
            self.name,
            self.request.retries,
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


SENT: Final = frozenset({"queue", "task_id", "countdown", "eta"})


def when_of(countdown: float | None, eta: datetime | float | None) -> float | None:
    """Epoch seconds at which a job shall run, or None: now."""
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
    """The function as a job sees it: a bound task without its first parameter."""
    if call is function:
        return function

    @functools.wraps(function)
    def perform(*args: Any, **kwargs: Any) -> R:
        return call(*args, **kwargs)

    signature = inspect.signature(function)
    perform.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=list(signature.parameters.values())[1:]
    )
    return perform
