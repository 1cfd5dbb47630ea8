"""The mappings on the page Sources, as far as its process can see the file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import ConfigError

if TYPE_CHECKING:
    from kiqbridge.features.mappings.declared import EventMapping

FUNCTION_FOLDER: Final = Path("lambdas/enqueue")
"""The enqueue function in a checkout of the project; a name in KIQBRIDGE_MAPPINGS counts from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mappings:
    """The file of mappings.

    Attributes:
        path: of the file; empty if this process sees none.
        rows: of each entry its name, which events it takes, and classes and queues of the jobs that it makes of one.
        fault: why it cannot be read, or what is wrong in it; else empty.
    """

    path: str = ""
    rows: Sequence[tuple[str, str, str]] = ()
    fault: str = ""


def show(environ: Mapping[str, str]) -> tuple[str, Mappings]:
    """The file of mappings."""
    return "mappings.html", read_mappings(environ)


def read_mappings(environ: Mapping[str, str], folder: Path = FUNCTION_FOLDER) -> Mappings:
    """What mappings.yml declares, if this process can see it."""
    from kiqbridge.features.mappings.document import find, load  # noqa: PLC0415 - other pages need none

    try:
        path = find(folder, read(ForFunctions.mappings, environ))
        if path is None:
            return Mappings()
        document = load(path)
    except ConfigError as error:
        return Mappings(fault=str(error))
    except ModuleNotFoundError as error:
        return Mappings(
            fault=f"{error.name} is not installed: pip install 'kiqbridge[lambda,worker]'"
        )
    if document is None:
        return Mappings(path=str(path))
    from kiqbridge.features.mappings.declared import examine  # noqa: PLC0415 - as above

    declared, faults = examine(document)
    return Mappings(
        path=str(path),
        rows=[_row(each) for each in declared.mappings],
        fault="; ".join(f"{document.place(fault.path)}: {fault.text}" for fault in faults),
    )


def _row(mapping: "EventMapping") -> tuple[str, str, str]:
    match = [f"{key} {' or '.join(globs)}" for key, globs in mapping.match.items()]
    if mapping.filter:
        match.append(f"where {mapping.filter}")
    each = f"for each of {mapping.each}: " if mapping.each else ""
    jobs = ", ".join(
        f"{job.fixed.get('class', job.fixed.get('active_job'))} into {job.fixed.get('queue', 'default')}"
        for job in mapping.jobs
    )
    return mapping.name, ", ".join(match), f"{each}{jobs}"
