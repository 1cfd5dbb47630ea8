"""From another application's contract to Python classes that enqueue its jobs, typed.

The classes are `RemoteJob`s, or `RemoteActiveJob`s: they are enqueued, and nothing here performs them. A contract comes
from elsewhere, and its stubs are imported: its texts stand in them as literals and checked names only.
"""

import keyword
import re
from collections.abc import Iterable
from typing import Final

from kiqbridge.errors import ConfigError
from kiqbridge.features.contract.document import Contract, JobContract, Parameter

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
