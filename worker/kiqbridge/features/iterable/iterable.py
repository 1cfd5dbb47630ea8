"""Long jobs that can stop between two items and go on later, maybe in another process (protocol §13).

class ImportUsers(IterableJob):
    queue = "low"

    def build_enumerator(self, path: str, *, cursor: int | None) -> Iterator[tuple[dict, int]]:
        return enumerators.csv_rows(path, cursor=cursor)

    def each_iteration(self, row: dict, path: str) -> None:
        User.upsert(row)

ImportUsers.perform_async("users.csv")

When the worker stops, or the execution has lasted too long, the progress is saved and `JobInterrupted`
has the worker push the job again to the end of its queue. `iteration` has the steps of an execution.
"""

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from kiqbridge.client.arguments import signature_of
from kiqbridge.client.current import Cancelled
from kiqbridge.client.job import Job
from kiqbridge.client.registry import MARK, filled_among
from kiqbridge.errors import ConfigError
from kiqbridge.features.iterable.iteration import Abort, Callbacks, Iteration, finish

_OURS = "__kiqbridge_iteration__"


class IterableJob(Callbacks, Job):
    """Base of jobs that process many items; define `build_enumerator` and `each_iteration`.

    With `async def each_iteration` it runs on the event loop: then the callbacks may be `async def`
    too, and the enumerator and `around_iteration` asynchronous. A subclass is registered when it is
    defined, except one declared with `abstract=True`, a base for others.
    """

    _is_cancellable: ClassVar[bool] = True
    _kiqbridge_run: "Iteration | None" = None  # a name that no job has by chance

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        _check_declaration(cls, abstract=abstract)
        perform = None if abstract else _perform_of(cls)
        setattr(cls, "perform", perform)  # noqa: B010 - mypy: the class declares no such attribute
        setattr(cls, MARK, None)  # not that of a base which is a job itself
        super().__init_subclass__(**kwargs)

    @property
    def cursor(self) -> Any:
        """The cursor of the current item; before the first one what was saved, or None."""
        return self._kiqbridge_run.state.cursor if self._kiqbridge_run else None

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the job that runs."""
        return self._kiqbridge_run.args if self._kiqbridge_run else ()

    @property
    def current_object(self) -> Any:
        """The current item, None before the first one."""
        return self._kiqbridge_run.item if self._kiqbridge_run else None

    @property
    def cancelled(self) -> bool:
        """Whether a request to cancel was noticed."""
        return self._kiqbridge_run is not None and self._kiqbridge_run.cancelled

    def abort(self, *, completed: bool = True) -> NoReturn:
        """End this execution here, from a callback before or during an iteration.

        Args:
            completed: the job is done: `on_complete` follows. False: it is pushed again to the end of
                its queue, and goes on with the current item.
        """
        raise Abort(completed)


def _check_declaration(cls: type[IterableJob], *, abstract: bool) -> None:
    own = inspect.getattr_static(cls, "perform", None)
    if own is not None and not getattr(own, _OURS, False):
        raise ConfigError(
            f"{cls.__qualname__}: defines perform, which an iterable job must not (protocol §13.4); "
            "process one item in each_iteration"
        )
    if abstract:
        return
    for name in ("build_enumerator", "each_iteration"):
        if getattr(cls, name) is getattr(IterableJob, name):
            raise ConfigError(
                f"{cls.__qualname__}: defines no {name}, which an iterable job must; a base class for "
                "others is declared with abstract=True"
            )


def _perform_of(cls: type[IterableJob]) -> Callable[..., Any]:
    """What the worker calls, with the signature that callers have to keep."""
    has_around = cls.around_iteration is not IterableJob.around_iteration
    if inspect.iscoroutinefunction(cls.each_iteration):

        async def perform(self: IterableJob, *args: Any) -> Cancelled | None:
            self._kiqbridge_run = Iteration(self, args, is_async=True, has_around=has_around)
            return await self._kiqbridge_run.run()
    else:

        def perform(self: IterableJob, *args: Any) -> Cancelled | None:  # type: ignore[misc] # the other variant
            self._kiqbridge_run = Iteration(self, args, is_async=False, has_around=has_around)
            return finish(self._kiqbridge_run.run())

    setattr(perform, _OURS, True)
    setattr(perform, "__wrapped__", cls.build_enumerator)  # noqa: B010 - its annotations count, and their names
    setattr(perform, "__signature__", _signature(cls))  # noqa: B010 - mypy: functions declare none
    return perform


def _signature(cls: type[IterableJob]) -> inspect.Signature:
    """The signature of `build_enumerator` without `cursor`, checked against both methods."""
    signature = signature_of(cls.build_enumerator)
    parameters = list(signature.parameters.values())
    if filled := filled_among((*parameters, *signature_of(cls.each_iteration).parameters.values())):
        raise ConfigError(
            f"{cls.__qualname__}: Depends fills no parameter of an iterable job ({', '.join(filled)}); take what it "
            "needs in around_iteration"
        )
    cursor = signature.parameters.get("cursor")
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    rest = [
        each for each in parameters if each.name != "cursor" and each.kind is not each.VAR_KEYWORD
    ]
    behind = parameters[parameters.index(cursor) + 1 :] if cursor else []
    if (cursor is None and not takes_any) or (
        cursor is not None
        and (
            cursor.kind in (cursor.POSITIONAL_ONLY, cursor.VAR_POSITIONAL)
            or any(each.kind in _POSITIONS for each in behind)
        )
    ):
        raise ConfigError(
            f"{cls.__qualname__}: build_enumerator{signature} cannot be called with cursor=…; put `*, "
            "cursor` behind its other parameters"
        )
    positions = [each for each in rest[1:] if each.kind in _POSITIONS]
    if not any(each.kind is each.VAR_POSITIONAL for each in positions):
        try:
            signature_of(cls.each_iteration).bind(None, None, *positions)
        except TypeError as error:
            raise ConfigError(
                f"{cls.__qualname__}: each_iteration cannot be called with an item and the "
                f"{len(positions)} arguments of build_enumerator: {error}"
            ) from error
    return signature.replace(parameters=rest, return_annotation=None)


_POSITIONS = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
