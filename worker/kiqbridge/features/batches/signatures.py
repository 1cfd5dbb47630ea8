"""Celery's signatures, chains, groups and chords, on chains and groups of `kiqbridge.flow`.

    chain(fetch.s(7), resize.s(640), publish.si(7)).delay()
    chord([add.s(1, 2), add.s(3, 4)])(total.s()).get(timeout=10)

A signature is a call of a task of `kiqbridge.compat.celery`. It gets what the task before it has returned as its first
argument; an immutable one (`si`) does not. While `task_always_eager` is set all runs at once, as in Celery.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Self

from kiqbridge.compat.celery.result import AsyncResult, EagerResult, GroupResult
from kiqbridge.compat.celery.task import Task
from kiqbridge.errors import PayloadError
from kiqbridge.features.batches.calls import Call
from kiqbridge.features.batches.chains import Chain, Flow, Group
from kiqbridge.wire.payload import new_jid

Results = AsyncResult | GroupResult


class Part:
    """What can be called, and be a part of a chain, a group or a chord."""

    def stages(self) -> "list[Signature | group]":
        """What runs one after the other."""
        raise NotImplementedError

    def apply(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run it here and now, without a server.

        Args:
            args: go before those of the first signatures.
            kwargs: refused but for a signature.

        Raises:
            Exception: that of a task before the last one.
        """
        _refuse(kwargs)
        given, parents = args, list[Any]()
        for stage in self.stages():
            result = stage.apply(given)
            if parents:
                result.parent = parents[-1]
            parents.append(result)
            if stage is not self.stages()[-1]:
                given = (result.get(),)
        return parents[-1] if parents else None

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """Enqueue it, or, while `task_always_eager` is set, run it.

        Args:
            args: go before those of the first signatures.
            kwargs, options: refused but for a signature.

        Returns:
            The result of the last task, with `.parent`, that of what is before it; of a group a `GroupResult`.

        Raises:
            PayloadError: an option that has no counterpart, or a task cannot be called like this.
            KiqbridgeError: as `perform_async` of a chain.
        """
        _refuse({**(kwargs or {}), **options})
        stages = self.stages()
        if not stages:
            return None
        if _first_task(stages).is_eager:
            return self.apply(args)
        return _enqueue(stages, args)

    def delay(self, *args: Any) -> Any:
        """Enqueue it; `args` go before those of the first signatures."""
        return self.apply_async(args)

    def __call__(self, *args: Any) -> Any:
        """Enqueue it, as `delay` does."""
        return self.apply_async(args)

    def __or__(self, other: object) -> "chain":
        return chain(self, other)


class Signature(Part):
    """A call of a task, not yet made; by `task.s(…)`, `task.si(…)` or `task.signature(…)`.

    Attributes:
        task: name of the task.
        args, kwargs: of the call.
        options: of `apply_async`.
        immutable: it gets no argument from elsewhere.
    """

    def __init__(
        self,
        task: Task[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        self.type = task
        self.task = task.name
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable

    def __repr__(self) -> str:
        shown = [*map(repr, self.args), *(f"{name}={each!r}" for name, each in self.kwargs.items())]
        return f"{self.task}({', '.join(shown)})"

    def stages(self) -> "list[Signature | group]":
        """Itself."""
        return [self]

    def set(self, *, immutable: bool | None = None, **options: Any) -> Self:
        """Change options of the call; returns this signature."""
        self.options |= options
        if immutable is not None:
            self.immutable = immutable
        return self

    def clone(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> "Signature":
        """Another one with these arguments before its own; the same ones if it is immutable."""
        if self.immutable:
            args, kwargs = (), None
        given = (*args, *self.args), {**self.kwargs, **(kwargs or {})}
        return Signature(self.type, *given, self.options, immutable=self.immutable)

    def apply(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> EagerResult:
        """Run it here and now; see `Task.apply`."""
        whole = self.clone(args, kwargs)
        return self.type.apply(whole.args, whole.kwargs, task_id=self.options.get("task_id"))

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncResult:
        """Enqueue it; see `Task.apply_async`."""
        whole = self.clone(args, kwargs)
        return self.type.apply_async(whole.args, whole.kwargs, **{**self.options, **options})

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult:
        """Enqueue the task with these arguments: `apply_async(args, kwargs)`."""
        return self.apply_async(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, here and now."""
        whole = self.clone(args, kwargs)
        return self.type(*whole.args, **whole.kwargs)

    def plan(self, args: Sequence[Any], *, gets_value: bool) -> tuple[Call, AsyncResult]:
        """What stands for it in a chain or a group, and where its result will be.

        Args:
            args: go before its own.
            gets_value: the result of the task before it goes before them.
        """
        gets_value = gets_value and not self.immutable
        whole = self.clone(args)
        item, result = self.type.item(
            whole.args,
            whole.kwargs,
            lacks_first=gets_value,
            **{"task_id": new_jid(), **self.options},
        )
        return Call(item, needs_value=gets_value, takes_value=gets_value), result


class chain(Part):  # noqa: N801 - Celery's name
    """Signatures, groups and chords that run one after the other.

    Args:
        tasks: they, or one iterable of them.

    Raises:
        PayloadError: one is none of these.
    """

    def __init__(self, *tasks: Any) -> None:
        self.tasks = _parts("chain", tasks)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))

    def stages(self) -> "list[Signature | group]":
        """Those of its tasks."""
        return [stage for each in self.tasks for stage in each.stages()]


class group(Part):  # noqa: N801 - as above
    """Signatures, chains and chords that run side by side; arguments as `chain`."""

    def __init__(self, *tasks: Any) -> None:
        self.tasks = _parts("group", tasks)

    def __repr__(self) -> str:
        return f"group({', '.join(map(repr, self.tasks))})"

    def stages(self) -> "list[Signature | group]":
        """Itself."""
        return [self]

    def apply(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> GroupResult:
        """Run all of it here and now; see `Part.apply`."""
        _refuse(kwargs)
        return GroupResult(new_jid(), [each.apply(args) for each in self.tasks])

    def apply_async(
        self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> GroupResult:
        """Enqueue all of it; see `Part.apply_async`."""
        if not self.tasks:
            return GroupResult(new_jid(), [])
        found: GroupResult = super().apply_async(args, kwargs, **options)
        return found

    def plan(
        self, args: Sequence[Any], *, gets_value: bool, before: object = None
    ) -> tuple[Group, GroupResult]:
        """The group and its results; `before`: the stage behind it, a signature that gets the list of its results."""
        planned = [_planned(each.stages(), args, gets_value=gets_value) for each in self.tasks]
        results = GroupResult(new_jid(), [result for _, result in planned])
        passes = isinstance(before, Signature) and not before.immutable
        return Group([link for link, _ in planned], "", passes_results=passes), results


class chord(Part):  # noqa: N801 - as above
    """A group, and a signature that gets the list of its results.

    Args:
        header: signatures, or a group.
        body: the signature; it may come with the call, `chord(header)(body)`.
    """

    def __init__(self, header: Any, body: Any = None) -> None:
        self.header = header if isinstance(header, group) else group(header)
        self.body = body

    def __repr__(self) -> str:
        return f"chord({self.header!r}, {self.body!r})"

    def stages(self) -> "list[Signature | group]":
        """The group, and the body."""
        [body] = _parts("chord", (self.body,))
        return [*([self.header] if self.header.tasks else ()), *body.stages()]

    def apply(self, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Run it here and now (`Part.apply`); a body without a header gets an empty list."""
        return super().apply(args if self.header.tasks else (*args, []), kwargs)

    def __call__(self, body: Any = None) -> Any:
        """Enqueue it, with this body."""
        return chord(self.header, self.body if body is None else body).apply_async()


def signature(
    task: Task[..., Any] | Signature, args: Sequence[Any] = (), kwargs: Any = None, **options: Any
) -> Signature:
    """A signature; `options` are those of `apply_async`, and `immutable`.

    Raises:
        PayloadError: that is no task; by a name that is none of this application's, say.
    """
    if isinstance(task, Signature):
        return task.clone(args, kwargs)
    if not isinstance(task, Task):
        raise PayloadError(
            f"signature: {task!r} is no task; give the task itself, or use send_task with its name"
        )
    immutable = options.pop("immutable", False)
    return Signature(
        task, args, kwargs, options.pop("options", None) or options, immutable=immutable
    )


def _parts(what: str, tasks: Sequence[Any]) -> list[Part]:
    if len(tasks) == 1 and isinstance(tasks[0], Iterable) and not isinstance(tasks[0], Part):
        tasks = list(tasks[0])
    for each in tasks:
        if not isinstance(each, Part):
            raise PayloadError(
                f"{what}: {each!r} is no signature; write task.s(…), or a chain, group or chord of such"
            )
    return list(tasks)


def _refuse(options: Mapping[str, Any] | None) -> None:
    for option in options or ():
        raise PayloadError(
            f"{option}: a chain, group or chord takes no options here; set them at its signatures: task.s(…).set(queue=…)"
        )


def _first_task(stages: Sequence[Signature | group]) -> Task[..., Any]:
    first = stages[0]
    return first.type if isinstance(first, Signature) else _first_task(first.tasks[0].stages())


def _planned(
    stages: Sequence[Signature | group], args: Sequence[Any] = (), *, gets_value: bool = False
) -> tuple[Call | Flow, Results]:
    """A link of a flow for these stages, and the result of the last one."""
    links, result = list[Call | Flow](), None
    for stage, following in zip_longest(stages, stages[1:]):
        more = {"before": following} if isinstance(stage, group) else {}
        link, found = stage.plan(args, gets_value=gets_value, **more)
        if links and isinstance(stage, Signature) and "countdown" in stage.options:
            raise PayloadError(
                f"{stage.task}: countdown of a task behind another one would count from now; give eta, or let the task "
                "before it enqueue this one"
            )
        found.parent = result
        links.append(link)
        result, args, gets_value = found, (), True
    assert result is not None  # noqa: S101 - there is at least one
    return links[0] if len(links) == 1 else Chain(links, pass_result=True), result


def _enqueue(stages: Sequence[Signature | group], args: Sequence[Any]) -> Results:
    link, result = _planned(stages, args)
    flow = link if isinstance(link, Flow) else Chain([link], pass_result=True)
    if flow.perform_async() is None:
        raise PayloadError(
            "client middleware stopped the push of one of its tasks; nothing was pushed"
        )
    return result
