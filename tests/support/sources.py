"""What the sources make of an event, in a few words; and the recorded events, taken apart and changed."""

import json
from collections.abc import Iterator
from typing import Any

from kiqbridge.aws import sources
from kiqbridge.aws.job_forms import is_job_form
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError
from support.enqueue_function import event_file


def recorded(name: str) -> Any:
    return json.loads(event_file(name).read_text(encoding="utf-8"))


def outcome(event: Any) -> str:
    """The source, and of each record what it is and what its identity is made of."""
    try:
        delivery = sources.read(event)
    except EventError as error:
        return f"refused: {str(error).partition(' cannot become a job')[0]:.60}"
    if delivery.ignored:
        return f"{delivery.source}: done"
    return f"{delivery.source}: {', '.join(described(each) for each in delivery.records)}"


def described(record: Record) -> str:
    identity = f" by {record.identity.source}" if record.identity else ""
    inner = f" in {record.facets['inner']}" if "inner" in record.facets else ""
    if record.error is not None:
        return "error"
    if record.ignored:
        return "ignored"
    if record.parts:
        return f"{len(record.parts)} parts{inner}"
    return f"{'job' if is_job_form(record.job) else 'no job'}{inner}{identity}"


def records_of(event: Any) -> list[Record]:
    return list(sources.read(event).records)


def opened(value: Any) -> Any:
    """The same with every text that is the JSON of an object or list in the place of the text."""
    if isinstance(value, dict):
        return {key: opened(child) for key, child in value.items()}
    if isinstance(value, list):
        return [opened(child) for child in value]
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return Text(opened(json.loads(value)))
        except ValueError:
            return value
    return value


def closed(value: Any) -> Any:
    """What `opened` opened, as texts again."""
    if isinstance(value, Text):
        return json.dumps(closed(value.value))
    if isinstance(value, dict):
        return {key: closed(child) for key, child in value.items()}
    if isinstance(value, list):
        return [closed(child) for child in value]
    return value


class Text:
    """The value of a JSON text."""

    def __init__(self, value: Any) -> None:
        self.value = value


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each container in a value with each of its keys or indexes."""
    if isinstance(value, Text):
        yield from places(value.value)
    elif isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from places(child)
