"""A job with its arguments, noted in place of being enqueued: what chains, groups and callbacks are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, overload

from kiqbridge.client.arguments import takes
from kiqbridge.client.function_job import Setter
from kiqbridge.client.middleware import COLLECTOR
from kiqbridge.client.registry import definition_of
from kiqbridge.errors import PayloadError
from kiqbridge.features.batches.ops import prepare_job
from kiqbridge.features.batches.steps import MARKS, Step
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import FLOW

if TYPE_CHECKING:
    from kiqbridge.client.client import Client

P = ParamSpec("P")


class Enqueues(Protocol[P]):
    """A declared job, or one with options (`set`)."""

    def perform_async(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Enqueue now."""


class EnqueuesValue(Protocol[P]):
    """The same for a job whose first argument is what the one before it has returned."""

    def perform_async(self, value: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Enqueue now."""


@dataclass(frozen=True, slots=True)
class Call:
    """A job with its arguments; made by `call`."""

    item: Mapping[str, Any] = field(repr=False)
    needs_value: bool = False
    """Its first argument is missing: in a chain with `pass_result` it is what the job before it has returned."""
    takes_value: bool = True
    """Whether it gets that at all."""

    def __repr__(self) -> str:
        return f"<call of {self.item.get('class')}>"

    def step(self, client: "Client", *, gets_value: bool = False) -> Step | None:
        """Its payload as a step; None: client middleware stopped it.

        Args:
            client: prepares it.
            gets_value: it gets a first argument when it is pushed.

        Raises:
            PayloadError: as `Client.push`, or its first argument is missing.
        """
        gets_value = gets_value and self.takes_value
        item = self.whole_item(gets_value=gets_value)
        definition = definition_of(item["class"]) if gets_value else None
        if definition is not None and definition.encrypted:
            raise PayloadError(
                f"call: {self!r} has encrypted arguments, whose places a value before them would change; let its job "
                "read the value elsewhere, or make the chain without pass_result"
            )
        job = prepare_job(client, item)
        if job is None:
            return None
        payload = job.payload
        payload.pop("enqueued_at", None)
        if FLOW in payload:
            payload[MARKS] = payload.pop(FLOW)
        step: Step = {"job": payload} if job.at is None else {"job": payload, "at": job.at}
        if self.needs_value or not self.takes_value:
            step["takes_value"] = self.takes_value
        return step

    def whole_item(self, *, gets_value: bool = False) -> Mapping[str, Any]:
        """As for `Client.push`.

        Raises:
            PayloadError: its first argument is missing, and it does not get one.
        """
        if self.needs_value and not gets_value:
            raise PayloadError(
                f"call: {self!r} lacks an argument; give it, or put the call behind another job in a chain with "
                "pass_result=True"
            )
        return self.item


class _Note:
    """Takes one push, and keeps it."""

    def __init__(self) -> None:
        self.items: list[Mapping[str, Any]] = []

    def takes_from(self, client: object) -> bool:
        return client is not None

    def push(self, item: Mapping[str, Any]) -> str | None:
        self.items.append(item)
        return None

    def push_bulk(self, item: Mapping[str, Any]) -> list[str | None]:
        raise PayloadError(f"call: {shorten(item)} is many jobs; give a group of calls")


@overload
def call(job: Enqueues[P], /, *args: P.args, **kwargs: P.kwargs) -> Call: ...
@overload
def call(job: EnqueuesValue[P], /, *args: P.args, **kwargs: P.kwargs) -> Call: ...
@overload
def call(job: type[Any], /, *args: Any, **kwargs: Any) -> Call: ...
def call(job: Any, /, *args: Any, **kwargs: Any) -> Call:
    """A job with its arguments, for a chain, a group or a callback of a batch; nothing is enqueued.

    Args:
        job: a declared job, or one with options: `call(send.set(queue="high"), 7)`. A time of `set(wait=…)`
            counts from now.
        args, kwargs: as for `perform_async`. The first argument may be missing in a chain with `pass_result`; the
            others are plain JSON then.

    Raises:
        PayloadError: this is no job, or it cannot be called like this.
    """
    if not callable(getattr(job, "perform_async", None)):
        raise PayloadError(f"call: {shorten(job)} is no declared job; declare it with @job")
    note = _Note()
    token = COLLECTOR.set(note)
    try:
        job.perform_async(*args, **kwargs)
    except PayloadError:
        item = _item_without_value(job, args, kwargs)
        if item is None:
            raise
        return Call(item, needs_value=True)
    finally:
        COLLECTOR.reset(token)
    if not note.items:
        raise PayloadError(f"call: {shorten(job)} pushes nothing by perform_async")
    return Call(note.items[0])


def _item_without_value(
    job: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """The item of a call that lacks nothing but its first argument; None: this is no such call."""
    declared, options = job, None
    if isinstance(job, Setter):
        declared, options = job._class["class"], job._options  # noqa: SLF001 - of the same package
    definition = definition_of(declared)
    if definition is None or takes(definition.signature, args, kwargs):
        return None
    try:
        bound = definition.signature.bind(None, *args, **kwargs)
    except TypeError:
        return None
    if bound.kwargs:
        return None
    return {**(options or {}), "class": declared, "args": list(bound.args[1:])}
