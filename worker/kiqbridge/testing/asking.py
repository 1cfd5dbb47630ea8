"""Which recorded jobs a test means, and what an assertion says that finds others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict, cast

from kiqbridge.client.middleware import Chain, ClientMiddleware
from kiqbridge.client.prepare import prepare
from kiqbridge.client.registry import JobDefinition, Registry, definition_of
from kiqbridge.errors import PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.testing.recorded import RecordedJob
from kiqbridge.wire import json_text
from kiqbridge.wire.payload import epoch_seconds

MOST_SHOWN: Final = 10
"""Jobs that a failure lists."""


class WantedCall(TypedDict, total=False):
    """With what arguments a job is asked for; what is missing, or None, is not looked at."""

    args: Sequence[Any] | None
    """All arguments; they are compared as the job would get them, through JSON."""
    kwargs: Mapping[str, Any] | None
    """Arguments by the names of the parameters; others are not looked at. With `args`: the rest of the call."""


class Wanted(WantedCall, total=False):
    """The same of a job that waits, and where and until when."""

    queue: str | None
    """Where it waits, or will."""
    at: datetime | float | None
    """When it is due, an aware datetime or epoch seconds."""
    in_: timedelta | float | None
    """How long after it was enqueued it is due, a timedelta or seconds."""
    tolerance_s: float
    """Seconds by which `at` and `in_` may differ, 5 by default: the machine that runs a test may be busy."""


@dataclass(slots=True)
class Asked:
    """What a test asks for; what is None is not looked at. See `Wanted`.

    Raises:
        TypeError: `job` is neither declared nor a text.
        PayloadError: `args` with `kwargs` are no call of the job.
    """

    job: object = None
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    queue: str | None = None
    at: datetime | float | None = field(default=None, kw_only=True)
    in_: timedelta | float | None = field(default=None, kw_only=True)
    tolerance_s: float = field(default=5.0, kw_only=True)
    verb: str = field(default="enqueued", kw_only=True)
    registry: Registry = field(kw_only=True)
    _name: str | None = field(init=False, default=None)
    _definition: JobDefinition | None = field(init=False, default=None)
    _args: list[Any] | None = field(init=False, default=None)
    _named: Mapping[str, Any] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        definition = definition_of(self.job)
        if definition is None and self.job is not None:
            if not isinstance(self.job, str):
                raise TypeError(
                    f"{shorten(self.job)} is no declared job: put @job on it, or give the name of a class as "
                    "on the wire"
                )
            definition = self.registry.find(self.job)
        self._name = definition.name if definition is not None else cast("str | None", self.job)
        self._definition = definition
        args, named = self.args, self.kwargs
        if args is not None and named and definition is not None:
            args, named = definition.bind(tuple(args), named), None
        if args is not None:
            self._args = self._as_on_the_wire(list(args))
        if named:
            self._named = {
                name: self._as_on_the_wire([value], name)[0] for name, value in named.items()
            }

    @property
    def is_any(self) -> bool:
        """Whether all jobs match."""
        return not any(
            each is not None
            for each in (self._name, self.args, self.kwargs, self.queue, self.at, self.in_)
        )

    def matches(self, job: RecordedJob) -> bool:
        """Whether a job is one that is meant."""
        return not self.differences(job)

    def differences(self, job: RecordedJob) -> list[str]:
        """In which respects a job is another one, the weightiest first."""
        found = []
        if self._name is not None and self._name not in (job.job_class, job.payload.get("class")):
            found.append(f"class {job.job_class}")
        if self._args is not None and not _are_equal(self._args, job.args):
            found.append(f"args {_text(job.args)}")
        for name, value in (self._named or {}).items():
            given = self._named_argument(job, name)
            if not _are_equal(value, given):
                found.append(f"{name}={_text(given)}")
        if self.queue is not None and self.queue != job.queue:
            found.append(f"queue {job.queue}")
        return found + self._late(job)

    def __str__(self) -> str:
        parts = ["a job" if self._name is None else self._name]
        if self._args is not None:
            parts.append(f"with args {_text(self._args)}")
        if self._named:
            named = ", ".join(f"{name}={_text(value)}" for name, value in self._named.items())
            parts.append(f"with {named}")
        if self.queue is not None:
            parts.append(f"in queue {self.queue}")
        if self.at is not None:
            parts.append(f"due at {_shown_time(float(epoch_seconds(self.at)))}")
        if self.in_ is not None:
            parts.append(f"due in {_seconds(self.in_):g} s")
        return " ".join(parts)

    def _late(self, job: RecordedJob) -> list[str]:
        if self.at is not None:
            at = float(epoch_seconds(self.at))
            if job.at is None:
                return ["due at once"]
            if abs(job.at - at) > self.tolerance_s:
                return [f"due at {_shown_time(job.at)}"]
        if self.in_ is not None:
            if job.at is None or job.created_at is None:
                return ["due at once"]
            later = job.at - job.created_at
            if abs(later - _seconds(self.in_)) > self.tolerance_s:
                return [f"due in {later:.3g} s"]
        return []

    def _as_on_the_wire(self, args: list[Any], parameter: str | None = None) -> list[Any]:
        """Arguments as they are written; as they are where they cannot be written, as `mock.ANY`.

        `parameter` is the name of the one that is given.
        """
        if self._definition is not None and self._definition.arguments is not None:
            args = self._definition.arguments.written(args, parameter=parameter)
        none = Chain[ClientMiddleware]()
        try:
            prepared = prepare({"class": self._name or "Any", "args": args}, 0.0, none, lambda: "7")
            assert prepared is not None  # noqa: S101 - only middleware stops a job
            found: list[Any] = json_text.loads(json_text.dumps(prepared.payload["args"]))
        except (PayloadError, TypeError, ValueError):
            return args
        return found

    def _named_argument(self, job: RecordedJob, name: str) -> Any:
        """The argument of a parameter, or its default."""
        if self._definition is None:
            return None
        parameters = self._definition.signature.parameters
        if name not in parameters:
            known = ", ".join(parameters) or "none"
            raise TypeError(f"{self._name} has no parameter {name!r}; it has {known}")
        index = list(parameters).index(name)
        if index < len(job.args):
            return job.args[index]
        default = parameters[name].default
        return None if default is parameters[name].empty else default


def absent_text(asked: Asked, jobs: Sequence[RecordedJob], others: Sequence[RecordedJob]) -> str:
    """What an assertion says that finds nothing.

    Args:
        asked: what it looked for.
        jobs: among these.
        others: enqueued jobs if `jobs` were performed, and the reverse.
    """
    lines = [f"{asked} is not {asked.verb}."]
    if any(asked.matches(each) for each in others):
        lines.append(
            "It was performed already."
            if asked.verb == "enqueued"
            else "It is enqueued: drain() performs it."
        )
    if not jobs:
        return "\n".join([*lines, f"Nothing is {asked.verb}."])
    ranked = sorted(jobs, key=lambda job: _distance(asked.differences(job)))
    lines.append(f"{asked.verb.capitalize()} instead, the most alike first:")
    for job in ranked[:MOST_SHOWN]:
        lines.append(f"  {job}")
        lines.append(f"    differs: {', '.join(asked.differences(job))}")
    return "\n".join([*lines, *_rest(ranked)])


def present_text(asked: Asked, found: Sequence[RecordedJob]) -> str:
    """What an assertion says that finds what should not be there."""
    return "\n".join([f"{asked} is {asked.verb}:", *_listed(found)])


def wrong_count_text(asked: Asked, found: Sequence[RecordedJob], count: int) -> str:
    """What an assertion says that finds another number of jobs."""
    return "\n".join(
        [f"{asked} is {asked.verb} {len(found)} times, expected were {count}:", *_listed(found)]
    )


def _listed(found: Sequence[RecordedJob]) -> list[str]:
    return [*(f"  {job}" for job in found[:MOST_SHOWN]), *_rest(found)]


def _rest(jobs: Sequence[RecordedJob]) -> list[str]:
    more = len(jobs) - MOST_SHOWN
    return [f"  and {more} more"] if more > 0 else []


def _distance(differences: Sequence[str]) -> tuple[bool, int]:
    """Another class is further away than any other difference."""
    return any(each.startswith("class ") for each in differences), len(differences)


def _are_equal(expected: Any, found: Any) -> bool:
    return bool(expected == found)


def _seconds(span: timedelta | float) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else span


def _shown_time(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")


def _text(value: Any) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False)
