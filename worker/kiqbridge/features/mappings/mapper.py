"""From a record that is no job to its jobs, by the first mapping that takes it.

1. A mapping takes a record if all of `match` match, and `filter`, if there is one, finds something that
   JMESPath takes for true: not false, null, or an empty text, list or object. The first in the file wins.
2. Without `each` it makes each of its jobs once, and expressions see the event (`Record.event`). With
   `each` it makes them for each element of that list, and expressions see `{"item", "index", "event"}`.
3. The jobs of a record are enqueued all or none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Self

from kiqbridge.aws.job_forms import parse_mapped
from kiqbridge.aws.record import Record
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.features.mappings import declared
from kiqbridge.features.mappings.declared import Declared, EventMapping, JobTemplate
from kiqbridge.features.mappings.document import Document
from kiqbridge.features.mappings.expressions import search
from kiqbridge.wire.bulk import BATCH_SIZE

ORIGIN_KEYS: Final = frozenset(
    {"origin", "arn", "queue", "topic", "stream", "table", "bus", "rule", "schedule", "route"}
)
"""Keys of `match` that stand for the origin of a record, by the name that a service gives it."""


@dataclass(slots=True)
class Mapper:
    """The mappings of a file; one serves all invocations of a warm environment.

    Attributes:
        document: the file, for messages.
        content: what it declares.
    """

    document: Document
    content: Declared

    @classmethod
    def of(cls, document: Document) -> Self:
        """The mapper of a file.

        Raises:
            ConfigError: the file has faults.
        """
        return cls(document, declared.read(document))

    def read_jobs(self, record: Record, now: float) -> Record | None:
        """The record with the jobs that the first mapping makes of it; None = no mapping takes it.

        Args:
            record: as a source made it.
            now: epoch seconds from which `in` counts.

        Raises:
            EventError: an expression cannot be evaluated, or finds nothing where something is needed.
            PayloadError: what it makes cannot be a job.
        """
        mapping, filtered = self.find(record)
        if mapping is None:
            ignored = f"the filter of {filtered} leaves it out"
            return replace(record, ignored=ignored) if filtered else None
        items = list(self._items(mapping, record))
        if not items:
            return replace(record, ignored=f"{self.place(mapping)}: each finds an empty list")
        try:
            return replace(record, jobs=parse_mapped(items, now, record.identity))
        except (PayloadError, EventError) as error:
            raise type(error)(f"{self.place(mapping)}: {error}") from error

    def find(self, record: Record) -> tuple[EventMapping | None, str]:
        """The mapping that takes a record, or the place of the first whose filter leaves it out, or "".

        Raises:
            EventError: a filter cannot be evaluated.
        """
        filtered = ""
        for mapping in self.content.mappings:
            if not all(_matches(key, globs, record) for key, globs in mapping.match.items()):
                continue
            if mapping.filter is None:
                return mapping, ""
            if _is_true(self._search(mapping.filter, record.event, f"{mapping.path}.filter")):
                return mapping, ""
            filtered = filtered or self.place(mapping)
        return None, filtered

    def place(self, mapping: EventMapping) -> str:
        """File, line and name of a mapping."""
        name = f" ({mapping.name})" if mapping.name else ""
        return self.document.place(mapping.path) + name

    def _items(self, mapping: EventMapping, record: Record) -> Iterator[dict[str, Any]]:
        """The jobs as the forms of a job have them."""
        scopes: Sequence[Any] = [record.event]
        if mapping.each is not None:
            scopes = self._scopes(mapping, record.event)
        if len(scopes) * len(mapping.jobs) > BATCH_SIZE:
            raise EventError(
                f"{self.place(mapping)}: {len(scopes) * len(mapping.jobs):,} jobs of one event are more "
                f"than {BATCH_SIZE:,}; enqueue one job with the place of the data, which enqueues the others"
            )
        for scope in scopes:
            for job in mapping.jobs:
                yield self._item(job, scope, allow_null=mapping.allow_null)

    def _scopes(self, mapping: EventMapping, event: Any) -> list[Any]:
        path = f"{mapping.path}.each"
        found = self._search(str(mapping.each), event, path)
        if not isinstance(found, list):
            raise EventError(
                f"{self.document.place(path)}: {mapping.each} finds {_kind(found)} in the event instead of a list"
            )
        return [{"item": item, "index": index, "event": event} for index, item in enumerate(found)]

    def _item(self, job: JobTemplate, scope: Any, *, allow_null: bool) -> dict[str, Any]:
        item = {**job.fixed, "args": self._args(job, scope, allow_null=allow_null)}
        for key, value in job.when.items():
            path = f"{job.path}.{key}"
            found = self._search(value, scope, path) if isinstance(value, str) else value
            if found is None and not allow_null:
                raise self._nothing(value, path)
            if found is not None:
                item[key] = found
        if job.dedupe_key is not None:
            item["dedupe_key"] = self._dedupe_key(job.dedupe_key, scope, f"{job.path}.dedupe_key")
        return item

    def _args(self, job: JobTemplate, scope: Any, *, allow_null: bool) -> list[Any]:
        path = f"{job.path}.args"
        if isinstance(job.args, list):
            filled = self._filled(job.args, scope, path, allow_null=allow_null)
            assert isinstance(filled, list)  # noqa: S101 - for the type checker: it keeps the type
            return filled
        found = self._search(job.args, scope, path)
        if not isinstance(found, list):
            raise EventError(
                f"{self.document.place(path)}: {job.args} finds {_kind(found)} in the event instead of "
                "the list of arguments; for a single argument write it as a list"
            )
        return found

    def _filled(self, value: Any, scope: Any, path: str, *, allow_null: bool) -> Any:
        """The value with each text replaced by what its path finds."""
        if isinstance(value, list):
            return [
                self._filled(child, scope, f"{path}[{index}]", allow_null=allow_null)
                for index, child in enumerate(value)
            ]
        if isinstance(value, Mapping):
            return {
                key: self._filled(child, scope, f"{path}.{key}", allow_null=allow_null)
                for key, child in value.items()
            }
        if not isinstance(value, str):
            return value
        found = self._search(value, scope, path)
        if found is None and not allow_null:
            raise self._nothing(value, path)
        return found

    def _dedupe_key(self, text: str, scope: Any, path: str) -> str:
        found = self._search(text, scope, path)
        if isinstance(found, int) and not isinstance(found, bool):
            found = str(found)
        if not isinstance(found, str) or not found:
            raise EventError(
                f"{self.document.place(path)}: {text} finds {_kind(found)} in the event instead of a text "
                "or a whole number"
            )
        return found

    def _nothing(self, text: str, path: str) -> EventError:
        return EventError(
            f"{self.document.place(path)}: {text} finds nothing in the event; correct the path, give a "
            f"default as in {text} || 'none', or write allow_null: true in the mapping"
        )

    def _search(self, text: str, scope: Any, path: str) -> Any:
        try:
            return search(text, scope)
        except EventError as error:
            raise EventError(f"{self.document.place(path)}: {error}") from error


def _matches(key: str, globs: Sequence[str], record: Record) -> bool:
    if key == "source":
        # `sqs`, and also the `source` of an event of a bus, which is its origin.
        values: Sequence[str] = (record.source, record.origin)
    elif key in ORIGIN_KEYS:
        # An ARN, and also the name, if the source gives it.
        values = (record.origin, *filter(None, [record.facets.get(key)]))
    elif key in ("prefix", "suffix") and key not in record.facets:
        return _has_affix(key, globs, record.facets.get("key"))
    elif key in record.facets:
        values = (record.facets[key],)
    else:
        return False
    return any(fnmatchcase(value, glob) for value in values for glob in globs)


def _has_affix(kind: str, texts: Sequence[str], name: str | None) -> bool:
    """Whether the key of an S3 object begins or ends with one of the texts."""
    if name is None:
        return False
    return name.startswith(tuple(texts)) if kind == "prefix" else name.endswith(tuple(texts))


def _is_true(value: Any) -> bool:
    """As JMESPath judges it: 0 is true."""
    return not (
        value is None or value is False or (isinstance(value, str | list | dict) and not value)
    )


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
