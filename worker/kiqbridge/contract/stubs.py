"""From another application's contract to Python classes that enqueue its jobs, typed.

The classes are `RemoteJob`s: they are enqueued, and nothing here performs them.
"""

import keyword
import re
from collections.abc import Iterable
from typing import Final

from kiqbridge.contract.document import Contract, JobContract, Parameter
from kiqbridge.errors import ConfigError

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
    "UUID": "from uuid import UUID",
    "datetime": "from datetime import datetime",
    "date": "from datetime import date",
    "Decimal": "from decimal import Decimal",
    "Any": "from typing import Any",
}


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
                f"{name}: its class {class_name} would be that of another job; rename one of them"
            )
        classes[class_name] = _class(class_name, name, contract.jobs[name])
    body = "\n\n\n".join(classes.values())
    return (
        f'"""Jobs that {contract.app} performs, to be enqueued from here.\n\n'
        "Written by `kiqbridge contract stubs`; write it again when the contract has changed.\n"
        f'"""\n\n{_imports(body)}\n\n\n{body}\n'
    )


def class_name_of(name: str) -> str:
    """`Billing::CloseDayJob` becomes `BillingCloseDayJob`."""
    parts = [part for part in re.split(r"\W+", name) if part]
    joined = "".join(part[0].upper() + part[1:] for part in parts) or "Job"
    return f"Job{joined}" if joined[0].isdigit() or keyword.iskeyword(joined) else joined


def _class(class_name: str, name: str, job: JobContract) -> str:
    lines = [f"class {class_name}(RemoteJob):", f'    """`{_plain(name)}`."""', ""]
    if name != class_name:
        lines.append(f"    class_name = {name!r}")
    if job.queue:
        lines.append(f"    queue = {job.queue!r}")
    if lines[-1]:
        lines.append("")
    lines.append(f"    def perform({', '.join(['self', *_parameters(job)])}) -> None: ...")
    return "\n".join(lines)


def _parameters(job: JobContract) -> Iterable[str]:
    taken: set[str] = {"self"}
    for number, each in enumerate(job.parameters, 1):
        name = re.sub(r"\W", "_", each.name)
        if not name.isidentifier() or keyword.iskeyword(name) or name in taken:
            name = f"argument_{number}"
        taken.add(name)
        yield f"{name}: {python_type(each)}{' = ...' if each.optional else ''}"
    if job.takes_more:
        yield "*more: Any"


def python_type(parameter: Parameter) -> str:
    """The annotation of a parameter."""
    parts = []
    for part in parameter.type.split("|"):
        kind, _, form = part.partition(":")
        parts.append(_FORMS.get(form, _PYTHON[kind]))
    return " | ".join(dict.fromkeys(parts))


def _imports(body: str) -> str:
    used = [line for name, line in _IMPORTS.items() if re.search(rf"\b{name}\b", body)]
    standard = sorted(used)
    if "from datetime import date" in standard and "from datetime import datetime" in standard:
        standard = [line for line in standard if not line.startswith("from datetime")]
        standard = sorted([*standard, "from datetime import date, datetime"])
    return "\n".join([*standard, *([""] if standard else []), "from kiqbridge import RemoteJob"])


def _plain(name: str) -> str:
    """As part of a docstring: a name out of a file must not end it."""
    return re.sub(r'["\\`\n]', "_", name)
