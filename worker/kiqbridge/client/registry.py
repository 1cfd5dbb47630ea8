"""The declared job classes: the only code that a payload can reach. Nothing that it names is imported."""

import inspect
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, cast

from kiqbridge import seams
from kiqbridge.client.arguments import JobArguments
from kiqbridge.errors import ConfigError, JobNotFound, PayloadError, did_you_mean
from kiqbridge.runtime.frames import is_generated
from kiqbridge.runtime.records import dataclass
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire.payload import is_surely_fine

if TYPE_CHECKING:
    from kiqbridge.schedule.definition import ScheduleDefinition
    from kiqbridge.wire.rules import Rule

_PLACED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

_PLAIN_OPTIONS = frozenset({"retry", "queue", "backtrace", "dead", "retry_queue", "log_level"})
"""Options that are only written: others, such as `expires_in` or `tags`, are looked at by each push."""
_SHOWN_NAME = 200
_NAMED = 10
"""Declared jobs that a message lists."""

_MAIN = "__main__"

MARK = "__kiqbridge_job__"
"""Attribute of a declared function or class that holds its definition."""


Pool = Literal["thread", "async", "process"]

OnMaxRun = Literal["requeue", "dead"]
"""Back to its queue, for another worker, or to the dead set."""

RetryIn = Callable[[int, BaseException, Mapping[str, Any]], object]
"""(count, error, payload) → seconds, "discard", "kill", or None for the usual delay (§8.3)."""

Exhausted = Callable[[Mapping[str, Any], BaseException], object]
"""(payload, error) → "discard" to skip the dead set, else anything (§8.4)."""


OnError = Mapping[type[BaseException], str | float]
"""Exception class → one of ERROR_ACTIONS, or seconds until the next try."""

ERROR_ACTIONS = ("discard", "kill", "retry")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handling:
    """How one class of jobs is run and what its failures mean; nothing of it goes on the wire.

    Attributes:
        pool: where it runs.
        timeout_s: seconds that one execution may take, or None.
        max_run_s: seconds after which a job is taken away from the worker that still runs it, or None.
        on_max_run: what becomes of it then.
        retry_in: see `RetryIn`.
        retry_jitter: whether a jitter is added to what `retry_in` and `on_error` say (§8.3).
        retries_exhausted: see `Exhausted`.
        on_error: see `OnError`; the nearest class counts, and it goes before `retry_in`.
    """

    pool: Pool = "thread"
    timeout_s: float | None = None
    max_run_s: float | None = None
    on_max_run: OnMaxRun = "requeue"
    retry_in: RetryIn | None = None
    retry_jitter: bool = True
    retries_exhausted: Exhausted | None = None
    on_error: OnError = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Place:
    """Where a function or class is declared.

    Attributes:
        module: its dotted name.
        qualname: of the function or class in it.
        file: as compiled; "" = unknown. Such as `<stdin>` when it has none.
        line: from 1; 0 = unknown.
        scope: of this run of the module: its spec, or its namespace where it has no spec.
        is_class: whether it is a class.
    """

    module: str
    qualname: str
    file: str = ""
    line: int = 0
    scope: object = None
    is_class: bool = False

    def __str__(self) -> str:
        name = f"{self.module}.{self.qualname}"
        if not self.file or is_generated(self.file):
            return name
        inside = f"{os.getcwd()}{os.sep}"  # noqa: PTH109 - compared as texts
        shown = self.file.removeprefix(inside)
        return f"{name} ({shown}:{self.line})" if self.line else f"{name} ({shown})"

    def is_run_again_by(self, other: "Place") -> bool:
        """Whether `other` is this declaration, run again; the later one counts then.

        It is when its module is loaded anew (`importlib.reload`, IPython's autoreload), when a cell of a notebook
        or a line of an interactive shell is run again, when `exec` or `%run` runs its file again, and when
        `python -m app.jobs` is imported once more under its own name.
        """
        if self.qualname != other.qualname:
            return False
        is_same_line = bool(self.line) and (self.file, self.line) == (other.file, other.line)
        if self.module != other.module:
            # The file is the program itself, and imported as well.
            return is_same_line and _MAIN in (self.module, other.module)
        if self.scope is not other.scope or is_generated(other.file):
            return True
        if other.module != _MAIN:
            return False
        # A cell of a notebook has the name of a file that is not there.
        return is_same_line or bool(other.file and not os.path.exists(other.file))  # noqa: PTH110 - as above

    def is_loaded_twice_as(self, other: "Place") -> bool:
        """Whether both are one function of one file, imported under two names of modules."""
        return (
            self.module != other.module
            and bool(self.line)
            and (self.file, self.line, self.qualname) == (other.file, other.line, other.qualname)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """What a declaration says, independent of its style.

    Attributes:
        name: wire name, a Ruby constant path where Ruby shares it.
        options: wire options in their order: retry, queue, then the others.
        instantiate: makes what middleware sees, anew for each execution.
        perform_of: the function to call with the arguments, given that instance.
        signature: of the function without `self`.
        origin: `module.qualname` of the function or class.
        handling: pool, limits and failures.
        arguments: converts them by their annotations; None = they pass as they are.
        encrypted: places of the arguments that are encrypted in Redis.
        schedule: declared beside it, if one is.
        rule: which of several jobs with the same arguments run.
        place: where it is declared; None = unknown.
        active_job: it is enqueued as Rails' Active Job, with arguments of Rails' types, and keywords.
        cancellable: it ends early when that is asked for, see `Client.cancel`.
        plain_options: `options`, if nothing of the declaration asks for more at a push than to write them; else
            None.
    """

    name: str
    options: Mapping[str, Any]
    instantiate: Callable[[str], Any]
    perform_of: Callable[[Any], Callable[..., Any]]
    signature: inspect.Signature
    origin: str
    handling: Handling = field(default_factory=Handling)
    arguments: JobArguments | None = field(default=None, compare=False)
    encrypted: tuple[int, ...] = ()
    schedule: "ScheduleDefinition | None" = None
    rule: "Rule | None" = None
    place: Place | None = field(default=None, repr=False, compare=False)
    active_job: bool = False
    cancellable: bool = False
    plain_options: Mapping[str, Any] | None = field(init=False, repr=False, compare=False)
    _min: int = field(init=False, repr=False, compare=False)
    _max: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Binding a signature takes ten times as long as comparing two numbers.
        parameters = self.signature.parameters.values()
        placed = [each for each in parameters if each.kind in _PLACED]
        needed = sum(each.default is each.empty for each in placed)
        takes_any = any(each.kind is each.VAR_POSITIONAL for each in parameters)
        is_plain = (
            self.rule is None
            and not self.encrypted
            and not self.active_job
            and _PLAIN_OPTIONS.issuperset(self.options)
            and self.name.isascii()
            and all(map(is_surely_fine, self.options.values()))
        )
        object.__setattr__(self, "plain_options", self.options if is_plain else None)
        object.__setattr__(self, "_min", needed)
        object.__setattr__(self, "_max", math.inf if takes_any else len(placed))

    def route(self, queue: str) -> None:
        """Let its jobs, and those of its schedule, go to this queue from now on."""
        for options in (self.options, *(self.schedule.jobs if self.schedule else ())):
            cast("dict[str, Any]", options)["queue"] = queue
        self.__post_init__()

    def is_replaced_by(self, other: "JobDefinition") -> bool:
        """Whether the other one is the same declaration, run again; see `place`."""
        if self.place is None or other.place is None:
            return False
        return self.place.is_run_again_by(other.place)

    def positional(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Bind a call to the signature and return the arguments as they go on the wire.

        Raises:
            PayloadError: as `bind`, or a value is not what its parameter is annotated with.
        """
        if self.active_job:
            written: list[Any] = seams.call("active_job_arguments", of="active_job")(
                self, args, kwargs
            )
            return written
        bound = self.bind(args, kwargs)
        return bound if self.arguments is None else self.arguments.to_wire(bound)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """Bind a call to the signature and return its arguments as a list.

        Raises:
            PayloadError: the function could not be called like this, or a keyword-only argument
                is given, which has no place in a list.
        """
        if not kwargs and self._min <= len(args) <= self._max:
            return list(args)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadError(f"args: {self.name} cannot be called like this: {error}") from error
        # Not bound.kwargs: it also holds all that follows a positional parameter left out.
        takes_position = {
            name
            for name, parameter in self.signature.parameters.items()
            if parameter.kind in _PLACED
        }
        if not takes_position.issuperset(kwargs):
            names = ", ".join(name for name in kwargs if name not in takes_position)
            raise PayloadError(
                f"args: {names} of {self.name} can only be given by keyword, and a job's arguments "
                "are a list; make it positional or leave it at its default"
            )
        last = max(
            index for index, name in enumerate(self.signature.parameters) if name in bound.arguments
        )
        bound.apply_defaults()
        positional = list(bound.args)
        return positional[: max(last + 1, len(args))]


class Filled:
    """The default of a parameter that is filled where the job runs, and never travels; a feature derives its own."""

    def define(self, definition: JobDefinition, *, on_loop: bool) -> JobDefinition:
        """The definition without the parameters that have such a default, whose jobs get them all the same.

        Args:
            definition: of a job with one or several of them.
            on_loop: whether it is an `async def` job.
        """
        raise NotImplementedError


def filled_among(parameters: Iterable[inspect.Parameter]) -> dict[str, Filled]:
    """The names of those that are filled, and their defaults."""
    return {
        each.name: each.default for each in parameters if issubclass(type(each.default), Filled)
    }


class Registry:
    """Wire name → definition."""

    def __init__(self) -> None:
        self._definitions: dict[str, JobDefinition] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def __iter__(self) -> Iterator[JobDefinition]:
        return iter(self._definitions.values())

    def __len__(self) -> int:
        return len(self._definitions)

    def register(self, definition: JobDefinition) -> None:
        """Add a definition; the same one, run again in a reload or a notebook, replaces the old one.

        Raises:
            ConfigError: the name is taken by another function or class; says where both are.
        """
        taken = self._definitions.get(definition.name)
        if taken is not None and not taken.is_replaced_by(definition):
            raise ConfigError(_twice(definition.name, taken.place, definition.place))
        self._definitions[definition.name] = definition

    def find(self, name: str) -> JobDefinition | None:
        """The definition of this name, if there is one."""
        return self._definitions.get(name)

    def require(self, name: str) -> JobDefinition:
        """The definition of this name.

        Raises:
            JobNotFound: none; the message begins as Ruby's, then says in Python's words what is declared.
        """
        definition = self._definitions.get(name)
        if definition is not None:
            return definition
        where = self._unresolved(name)
        if len(where) > _SHOWN_NAME:  # a payload's: it goes into a log, and into the retry
            where = f"{where[:_SHOWN_NAME]}… ({len(where):,} characters)"
        raise JobNotFound(f"uninitialized constant {where}; {self._missing(name)}")

    def _missing(self, name: str) -> str:
        """What is declared instead; without double quotes, which JSON would escape."""
        if not self._definitions:
            return "no job is declared in this process; is its module loaded with -r?"
        hint = did_you_mean(name[:_SHOWN_NAME], self._definitions, most=3)
        shown = ", ".join(list(self._definitions)[:_NAMED])
        more = len(self._definitions) - _NAMED
        return (
            f"no job named {shorten(name)} is declared here{hint}{'' if hint else ';'} declared: {shown}"
            f"{f' and {more} more' if more > 0 else ''}; is its module loaded with -r?"
        )

    def _unresolved(self, name: str) -> str:
        """The path up to its first part that leads nowhere, as Ruby names it (§7.4)."""
        parts = name.split("::")
        for count in range(1, len(parts)):
            prefix = "::".join(parts[:count])
            if not any(
                known == prefix or known.startswith(f"{prefix}::") for known in self._definitions
            ):
                return prefix
        return name


default_registry = Registry()
"""Where `@job` and `Job` register."""


def definition_of(declared: object) -> JobDefinition | None:
    """The definition behind a declared function or class, if it is one; a definition is its own."""
    definition = getattr(declared, MARK, declared)
    return definition if isinstance(definition, JobDefinition) else None


def wire_name_of(declared: object) -> Any:
    """The wire name of a declared job; what is none is returned as it is, such as a name."""
    definition = definition_of(declared)
    return declared if definition is None else definition.name


def place_of(declared: Any) -> Place:
    """Where a function or class is declared."""
    module = sys.modules.get(declared.__module__)
    spec = getattr(module, "__spec__", None)
    is_class = isinstance(declared, type)
    members = vars(declared) if is_class else {}
    methods = filter(inspect.isfunction, members.values())
    function: Any = next(methods, None) if is_class else inspect.unwrap(declared)
    code = getattr(function, "__code__", None)
    line = members.get("__firstlineno__", 0)  # from Python 3.13
    scope = getattr(function, "__globals__", None)
    return Place(
        module=declared.__module__,
        qualname=declared.__qualname__,
        file=code.co_filename if code is not None else getattr(module, "__file__", None) or "",
        line=line or (code.co_firstlineno if code is not None else 0),
        scope=spec if spec is not None else scope,
        is_class=is_class,
    )


def _twice(name: str, first: Place | None, second: Place | None) -> str:
    """What a declaration whose wire name is taken is refused with."""
    said = f"job {name!r} is declared twice: in {first} and in {second}; "
    if first is None or second is None:
        return f"{said}give one of them another name"
    if first.is_loaded_twice_as(second):
        return (
            f"{said}this is one file, loaded as the modules {first.module} and {second.module}: import it, "
            "and name it with -r, in one way only"
        )
    module = second.module.rpartition(".")[2].strip("_")
    if second.is_class:
        named = f'class_name = "{module.title().replace("_", "")}::{name}"'
    else:
        named = f'@job(name="{module}.{name}")'
    if second.qualname.rpartition(".")[2] != name:
        return f"{said}give one of them another name, such as {named}"
    return (
        f"{said}the wire name is that of the {'class' if second.is_class else 'function'} unless you give "
        f"another: write {named}, say, on one of them"
    )
