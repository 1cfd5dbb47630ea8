"""Sources and spill: what makes jobs of events, what came in, and what waits in SQS while Redis was away."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from kiqbridge.api.sources import fetch_sources
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.config.setting import read
from kiqbridge.errors import ConfigError
from kiqbridge.web.context import render, view_of

if TYPE_CHECKING:
    from kiqbridge.aws.mapping.declared import EventMapping

FUNCTION_FOLDER: Final = Path("lambdas/enqueue")
"""The enqueue function in a checkout of the project; a name in KIQBRIDGE_MAPPINGS counts from there."""
DEPTH_FRESH_S: Final = 30.0
FILE_FRESH_S: Final = 30.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillQueue:
    """A queue in SQS that holds jobs while Redis is away.

    Attributes:
        url: its address.
        waiting: messages, as far as SQS knows; None = it did not answer.
        in_flight: of these, messages that a function has taken.
        fault: why it did not answer, else empty.
    """

    url: str
    waiting: int | None = None
    in_flight: int = 0
    fault: str = ""


def show(request: Request) -> Response:
    """All sources of jobs besides clients."""
    view = view_of(request)
    found = view.read(("sources",), lambda: fetch_sources(view.operator))
    mappings = view.read(("mappings",), lambda: read_mappings(os.environ), FILE_FRESH_S)
    spill = view.read(("spill",), lambda: read_spill(os.environ), DEPTH_FRESH_S)
    return render(request, "sources.html", found=found, mappings=mappings, spill=spill)


def read_mappings(environ: Mapping[str, str], folder: Path = FUNCTION_FOLDER) -> Mappings:
    """What mappings.yml declares, if this process can see it."""
    from kiqbridge.aws.mapping.document import find, load  # noqa: PLC0415 - other pages need none

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
    from kiqbridge.aws.mapping.declared import examine  # noqa: PLC0415 - as above

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


def read_spill(environ: Mapping[str, str]) -> Sequence[SpillQueue]:
    """The depth of each spill queue that the settings of this process name; asks SQS, for seconds at most."""
    urls = [
        read(each, environ)
        for each in (ForFunctions.spill_queue_url, ForFunctions.spill_fifo_queue_url)
    ]
    return [_depth(url) for url in urls if url]


def _depth(url: str) -> SpillQueue:
    try:
        from kiqbridge.aws.spill_queue import sqs_client  # noqa: PLC0415 - as above

        found: Mapping[str, Any] = sqs_client(url).get_queue_attributes(
            QueueUrl=url,
            AttributeNames=[
                "ApproximateNumberOfMessages",
                "ApproximateNumberOfMessagesNotVisible",
            ],
        )["Attributes"]
    except ModuleNotFoundError as error:
        return SpillQueue(
            url=url, fault=f"{error.name} is not installed: pip install 'kiqbridge[aws]'"
        )
    except Exception as error:  # noqa: BLE001 - whatever AWS or the network says: the page shows it
        return SpillQueue(url=url, fault=str(error))
    return SpillQueue(
        url=url,
        waiting=int(found.get("ApproximateNumberOfMessages", 0)),
        in_flight=int(found.get("ApproximateNumberOfMessagesNotVisible", 0)),
    )
