"""A contract as a document: which jobs an application performs, with their parameters, and which it enqueues.

    {"contract": 1, "app": "shop", "language": "python",
     "jobs": {"SendInvoice": {"queue": "mail", "parameters": [{"name": "id", "type": "integer"}]}},
     "enqueues": {"HardJob": {"parameters": [...]}}}

A type is a text: `integer`, `number`, `string`, `boolean`, `null`, `array`, `object`, `any`, several of them with `|`,
and of texts how they are written: `string:uuid`, `string:date-time`, `string:date`, `string:time`, `string:decimal`, `string:base64`. Ruby's methods
have no types, so all of a Ruby application's are `any`. A job that takes any number of arguments and names none is
one whose arguments are not known. `active_job`, and parameters with `keyword`, are those of Rails' Active Jobs.

From another application's contract to Python classes that enqueue its jobs, typed.

The classes are `RemoteJob`s, or `RemoteActiveJob`s: they are enqueued, and nothing here performs them. A contract comes
from elsewhere, and its stubs are imported: its texts stand in them as literals and checked names only.
"""

import inspect
import json
import keyword
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kiqbridge.client.registry import JobDefinition
from kiqbridge.errors import ConfigError

VERSION: Final = 1
ANY: Final = "any"
_FLAGS: Final = ("takes_more", "takes_more_keywords", "active_job")
_TYPES: Final = frozenset(
    {"integer", "number", "string", "boolean", "null", "array", "object", ANY}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter: its type as above, whether a caller may leave it out, and whether it is given by keyword."""

    name: str
    type: str = ANY
    optional: bool = False
    keyword: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContract:
    """What a job takes.

    Attributes:
        parameters: by position, then those by keyword, which only Active Jobs are called with.
        takes_more: any number of further arguments.
        takes_more_keywords: any further keyword arguments.
        active_job: it is enqueued as Rails' Active Job.
        queue: that its declaration names, or "".
        place: file and line of it, or "".
    """

    parameters: tuple[Parameter, ...] = ()
    takes_more: bool = False
    takes_more_keywords: bool = False
    active_job: bool = False
    queue: str = ""
    place: str = ""

    @property
    def placed(self) -> list[Parameter]:
        """Parameters by position."""
        return [each for each in self.parameters if not each.keyword]

    @property
    def keywords(self) -> dict[str, Parameter]:
        """Parameters by keyword, by their names."""
        return {each.name: each for each in self.parameters if each.keyword}

    @property
    def least(self) -> int:
        """How many arguments it needs by position."""
        return sum(not each.optional for each in self.placed)

    @property
    def most(self) -> float:
        """How many it takes by position."""
        return float("inf") if self.takes_more else len(self.placed)

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known of the arguments, as of a Ruby class without `perform`."""
        return self.takes_more and not self.parameters

    def to_json(self) -> dict[str, Any]:
        """As it stands in a document; what is as usual is left out."""
        parameters = [_given(each, "type") for each in self.parameters]
        return {**_given(self, "parameters"), "parameters": parameters}


def _given(value: Any, always: str) -> dict[str, Any]:
    """Fields of a dataclass that have not their default, and one that is always there."""
    found = {each.name: (getattr(value, each.name), each.default) for each in fields(value)}
    return {n: given for n, (given, usual) in found.items() if given != usual or n == always}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One application's side.

    Attributes:
        app, language: for messages.
        jobs: wire name → what it takes, of what the application performs.
        enqueues: the same, of what it enqueues for others.
    """

    app: str
    language: str
    jobs: Mapping[str, JobContract]
    enqueues: Mapping[str, JobContract] = field(default_factory=dict)

    def to_text(self) -> str:
        """As JSON, sorted, so that a change of the code shows as a change of few lines."""
        document = {
            "contract": VERSION,
            "app": self.app,
            "language": self.language,
            "jobs": {name: self.jobs[name].to_json() for name in sorted(self.jobs)},
            "enqueues": {name: self.enqueues[name].to_json() for name in sorted(self.enqueues)},
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def export(
    definitions: Iterable[JobDefinition], remote: Iterable[JobDefinition] = (), *, app: str
) -> Contract:
    """The contract of declared jobs; `remote` are those that are enqueued for others."""
    return Contract(
        app=app,
        language="python",
        jobs={each.name: contract_of(each) for each in definitions},
        enqueues={each.name: contract_of(each) for each in remote},
    )


def contract_of(definition: JobDefinition) -> JobContract:
    """What one job takes."""
    parameters = definition.signature.parameters.values()
    arguments = definition.arguments
    return JobContract(
        parameters=tuple(
            Parameter(
                name=each.name,
                type=ANY if arguments is None else arguments.json_of(each.name),
                optional=each.default is not each.empty,
                keyword=each.kind is each.KEYWORD_ONLY,
            )
            for each in parameters
            if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        ),
        takes_more=any(each.kind is each.VAR_POSITIONAL for each in parameters),
        takes_more_keywords=any(each.kind is each.VAR_KEYWORD for each in parameters),
        active_job=definition.active_job,
        queue=str(definition.options.get("queue", "")),
        place="" if arguments is None else _place_of(arguments.function),
    )


def _place_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    path = os.path.relpath(code.co_filename)
    return "" if path.startswith("..") else f"{path}:{code.co_firstlineno}"


def read_contract(text: str, source: str) -> Contract:
    """The counterpart of `to_text`; `source` is its name for messages.

    Raises:
        ConfigError: it is no contract, or of a later version.
    """
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source}: is no JSON ({error}); export it again") from error
    if not isinstance(document, dict) or "contract" not in document:
        raise ConfigError(f"{source}: is no contract; write one with kiqbridge contract export")
    if document["contract"] != VERSION:
        raise ConfigError(
            f"{source}: is of version {document['contract']!r}, and version {VERSION} is read here; use the "
            "same version of kiqbridge on both sides"
        )
    try:
        return Contract(
            app=str(document.get("app", source)),
            language=str(document.get("language", "")),
            jobs={name: _job(each) for name, each in document["jobs"].items()},
            enqueues={name: _job(each) for name, each in document.get("enqueues", {}).items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ConfigError(f"{source}: is no contract ({error!r}); export it again") from error


def _job(document: Mapping[str, Any]) -> JobContract:
    parameters = tuple(
        Parameter(
            name=str(each["name"]),
            type=_checked(str(each.get("type", ANY))),
            optional=bool(each.get("optional", False)),
            keyword=bool(each.get("keyword", False)),
        )
        for each in document["parameters"]
    )
    return JobContract(
        parameters=parameters,
        **{name: bool(document.get(name, False)) for name in _FLAGS},
        queue=str(document.get("queue", "")),
        place=str(document.get("place", "")),
    )


def _checked(text: str) -> str:
    unknown = [part for part in text.split("|") if part.partition(":")[0] not in _TYPES]
    if unknown:
        raise ValueError(f"there is no type {unknown[0]!r}")
    return text


_PYTHON: Final = {
    "integer": "int",
    "number": "float",
    "string": "str",
    "boolean": "bool",
    "null": "None",
    "array": "list[Any]",
    "object": "dict[str, Any]",
    "any": "Any",
}
_FORMS: Final = {"uuid": "UUID", "date-time": "datetime", "date": "date", "decimal": "Decimal"}
_IMPORTS: Final = {
    "UUID": "uuid",
    "datetime": "datetime",
    "date": "datetime",
    "Decimal": "decimal",
    "Any": "typing",
}
_TAKEN: Final = frozenset({*_IMPORTS, "RemoteJob", "RemoteActiveJob"})


def write_stubs(contract: Contract) -> str:
    """A Python module with a class for each job that the application performs.

    Raises:
        ConfigError: two names become the same class.
    """
    classes: dict[str, str] = {}
    for name in sorted(contract.jobs):
        class_name = class_name_of(name)
        if class_name in classes:
            raise ConfigError(
                f"{name}: another job already has the class name {class_name}; rename one of them"
            )
        classes[class_name] = _class(class_name, name, contract.jobs[name])
    body = "\n\n\n".join(classes.values())
    return (
        f"{_docstring(f'Jobs that {contract.app} performs, to be enqueued from here.')}\n\n"
        "# Written by `kiqbridge contract stubs`; write it again when the contract has changed.\n\n"
        f"{_imports(body)}\n\n\n{body}\n"
    )


def _docstring(text: str) -> str:
    """A literal; Python 3.13 compiles no docstring that holds half a surrogate pair."""
    return repr(text.encode("utf-8", "backslashreplace").decode())


def class_name_of(name: str) -> str:
    """`Billing::CloseDayJob` becomes `BillingCloseDayJob`."""
    parts = [part for part in re.split(r"\W+", name) if part]
    joined = "".join(part[0].upper() + part[1:] for part in parts) or "Job"
    if joined.isidentifier() and not keyword.iskeyword(joined) and joined not in _TAKEN:
        return joined
    return f"Job{joined}" if f"Job{joined}".isidentifier() else "Job" + joined.encode().hex()


def _class(class_name: str, name: str, job: JobContract) -> str:
    base = "RemoteActiveJob" if job.active_job else "RemoteJob"
    lines = [f"class {class_name}({base}):", f"    {_docstring(f'`{name}`.')}", ""]
    if name != class_name:
        lines.append(f"    class_name = {name!r}")
    if job.queue:
        lines.append(f"    queue = {job.queue!r}")
    if lines[-1]:
        lines.append("")
    lines.append(f"    def perform({', '.join(['self', *_parameters(job)])}) -> None: ...")
    return "\n".join(lines)


def _parameters(job: JobContract) -> Iterable[str]:
    taken: set[str] = {"self", "more", "keywords"}
    # Of Ruby's parameters an optional one may stand before a needed one, of Python's it may not.
    needed = max((at for at, each in enumerate(job.placed) if not each.optional), default=-1)
    for at, each in enumerate(job.placed):
        name = re.sub(r"\W", "_", each.name)
        if not _is_name(name) or name in taken:
            name = f"argument_{at + 1}"
        taken.add(name)
        yield f"{name}: {python_type(each)}{' = ...' if at > needed else ''}"
    if job.takes_more:
        yield "*more: Any"
    if job.active_job:  # a plain job is given no keywords
        yield from _keywords(job, taken)


def _keywords(job: JobContract, taken: set[str]) -> Iterable[str]:
    named = [each for name, each in job.keywords.items() if _is_name(name) and name not in taken]
    if named and not job.takes_more:
        yield "*"
    for each in named:
        yield f"{each.name}: {python_type(each)}{' = ...' if each.optional else ''}"
    # In Ruby a keyword may be `class:`.
    if job.takes_more_keywords or len(named) < len(job.keywords):
        yield "**keywords: Any"


def _is_name(text: str) -> bool:
    """Whether it can be a parameter's name, and is then this very name: Python changes `__x` and `\ufb01`."""
    is_plain = text.isascii() and text.isidentifier() and not text.startswith("__")
    return is_plain and not keyword.iskeyword(text)


def python_type(parameter: Parameter) -> str:
    """The annotation of a parameter."""
    parts = []
    for part in parameter.type.split("|"):
        kind, _, form = part.partition(":")
        parts.append(_FORMS.get(form, _PYTHON[kind]))
    return " | ".join(dict.fromkeys(parts))


def _imports(body: str) -> str:
    used = sorted(name for name in _IMPORTS if re.search(rf"\b{name}\b", body))
    standard = [
        f"from {module} import {', '.join(name for name in used if _IMPORTS[name] == module)}"
        for module in sorted({_IMPORTS[name] for name in used})
    ]
    bases = {
        "(RemoteJob):": "from kiqbridge import RemoteJob",
        "(RemoteActiveJob):": "from kiqbridge.rails import RemoteActiveJob",
    }
    ours = [line for base, line in bases.items() if base in body]
    return "\n".join([*standard, *([""] if standard else []), *ours])
