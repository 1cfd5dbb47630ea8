"""What a file of mappings declares: mappings, rules per source, and schemas; and every fault in it.

Nothing is compiled here: that is left to the first event that needs it, and to `make check`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kiqbridge.aws.allow_list import SourceRule
from kiqbridge.aws.job_forms import OWN_KEYS, parse_jobs
from kiqbridge.errors import ConfigError, EventError, PayloadError, did_you_mean
from kiqbridge.features.mappings.document import Document
from kiqbridge.runtime.redaction import shorten
from kiqbridge.wire import active_job

_TOP_KEYS: Final = ("mappings", "allow", "schemas")
_CLASS_KEYS: Final = ("class", active_job.KEY)
_JOB_KEYS: Final = (*_CLASS_KEYS, "queue", "args", "options", *OWN_KEYS)
_MAPPING_KEYS: Final = (
    *("name", "match", "filter", "each", "jobs", "allow_null", "example"),
    *_JOB_KEYS,
)
_RULE_KEYS: Final = ("source", "origin", "alias", "classes", "queues", "ticks")
_NOT_OPTIONS: Final = frozenset({*_JOB_KEYS, "jobs", "tick", "wrapped"})

Patterns = tuple[str, ...]


class Fault(NamedTuple):
    """One thing that is wrong: the path of the key, and what to write."""

    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTemplate:
    """One job of a mapping.

    Attributes:
        path: of its mapping or of its place in `jobs`, for messages.
        fixed: class or active_job, queue and options: never taken from an event.
        args: an expression that finds the list, or a list in which each text is an expression.
        when: `in` or `at` → number, or expression.
        dedupe_key: expression.
    """

    path: str
    fixed: Mapping[str, Any]
    args: Any
    when: Mapping[str, Any]
    dedupe_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMapping:
    """One entry of `mappings`.

    Attributes:
        path: `mappings[N]`.
        match: key → globs, one of which must match; all keys must.
        filter: expression; what it finds decides whether the mapping takes the event.
        each: expression that finds a list; the jobs are made for each of its elements.
        jobs: at least one.
        allow_null: whether an argument may be null because its expression finds nothing.
        examples: files with events, from the file of mappings, that this mapping takes.
    """

    path: str
    name: str
    match: Mapping[str, Patterns]
    filter: str | None
    each: str | None
    jobs: Sequence[JobTemplate]
    allow_null: bool
    examples: Patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """All of a file.

    Attributes:
        rules: what each source may enqueue; None = no restriction besides the lists for all.
        schemas: class → JSON schema of its list of arguments.
    """

    mappings: Sequence[EventMapping]
    rules: tuple[SourceRule, ...] | None
    schemas: Mapping[str, Any]


def read(document: Document) -> Declared:
    """What a document declares.

    Raises:
        ConfigError: every fault, with file, line and key.
    """
    declared, faults = examine(document)
    if faults:
        raise ConfigError(
            "\n".join(f"{document.place(fault.path)}: {fault.text}" for fault in faults)
        )
    return declared


def examine(document: Document) -> tuple[Declared, list[Fault]]:
    """What a document declares, and its faults; faulty entries are left out."""
    reading = _Reading(document)
    return reading.declared(), reading.faults


class _Reading:
    """One pass through a document, collecting faults."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.faults: list[Fault] = []

    def declared(self) -> Declared:
        content = self._document.content
        top = self._object(content, "", _TOP_KEYS) if content is not None else {}
        mappings = [
            self._mapping(entry, f"mappings[{index}]")
            for index, entry in enumerate(self._list(top.get("mappings") or [], "mappings"))
        ]
        schemas = top.get("schemas") or {}
        if not isinstance(schemas, Mapping):
            self._fault("schemas", f"{shorten(schemas)} is no mapping of classes to JSON schemas")
            schemas = {}
        for name, schema in schemas.items():
            if not isinstance(schema, Mapping):
                self._fault(f"schemas.{name}", f"{shorten(schema)} is no JSON schema")
        rules = None
        if "allow" in top:
            entries = enumerate(self._list(top["allow"] or [], "allow"))
            rules = tuple(self._rule(entry, f"allow[{index}]") for index, entry in entries)
        return Declared(mappings=mappings, rules=rules, schemas=schemas)

    def _mapping(self, entry: Any, path: str) -> EventMapping:
        entry = self._object(entry, path, _MAPPING_KEYS)
        match = self._object(entry.get("match"), f"{path}.match", None)
        if not match:
            self._fault(f"{path}.match", 'names nothing; write what to take, such as source: "sqs"')
        allow_null = entry.get("allow_null", False)
        if not isinstance(allow_null, bool):
            self._fault(f"{path}.allow_null", f"{shorten(allow_null)} is neither true nor false")
        return EventMapping(
            path=path,
            name=self._text(entry.get("name"), f"{path}.name") or "",
            match={key: self._patterns(match[key], f"{path}.match.{key}") for key in match},
            filter=self._text(entry.get("filter"), f"{path}.filter"),
            each=self._text(entry.get("each"), f"{path}.each"),
            jobs=list(self._jobs(entry, path)),
            allow_null=allow_null is True,
            examples=self._patterns(entry.get("example", []), f"{path}.example"),
        )

    def _jobs(self, entry: Mapping[str, Any], path: str) -> Iterator[JobTemplate]:
        if "jobs" not in entry:
            yield self._job(entry, path)
            return
        for key in _JOB_KEYS:
            if key in entry:
                self._fault(f"{path}.{key}", "cannot stand beside jobs; move it into each of them")
        jobs = self._list(entry["jobs"], f"{path}.jobs")
        if not jobs:
            self._fault(f"{path}.jobs", "is empty; write at least one job")
        for index, job in enumerate(jobs):
            inner = f"{path}.jobs[{index}]"
            yield self._job(self._object(job, inner, _JOB_KEYS), inner)

    def _job(self, job: Mapping[str, Any], path: str) -> JobTemplate:
        options = self._object(job.get("options") or {}, f"{path}.options", None)
        for key in options:
            if key in _NOT_OPTIONS:
                self._fault(f"{path}.options.{key}", "is no option; write it beside options")
        fixed = {key: value for key, value in options.items() if key not in _NOT_OPTIONS}
        fixed |= {key: job[key] for key in (*_CLASS_KEYS, "queue") if key in job}
        self._check_fixed(fixed, path)
        args = job.get("args", [])
        if not isinstance(args, list | str):
            self._fault(
                f"{path}.args",
                f"{shorten(args)} is neither a list of expressions nor an expression that finds a list",
            )
        when = {key: job[key] for key in ("in", "at") if key in job}
        if len(when) > 1:
            self._fault(f"{path}.at", "cannot be given together with in; leave one of them out")
        for key, value in when.items():
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                self._fault(f"{path}.{key}", f"{shorten(value)} is no number and no expression")
        return JobTemplate(
            path=path,
            fixed=fixed,
            args=args,
            when=when,
            dedupe_key=self._text(job.get("dedupe_key"), f"{path}.dedupe_key"),
        )

    def _check_fixed(self, fixed: Mapping[str, Any], path: str) -> None:
        """Class, queue and options as the function would refuse them in a job."""
        if not any(key in fixed for key in _CLASS_KEYS):
            self._fault(path, "has no class; write class: NAME, or active_job: NAME for Rails")
            return
        try:
            parse_jobs({**fixed, "args": []}, 0.0)
        except (PayloadError, EventError) as error:
            key, _, why = str(error).partition(": ")
            inner = f"{path}.{key}" if key in (*_CLASS_KEYS, "queue") else f"{path}.options.{key}"
            self._fault(inner, why)

    def _rule(self, entry: Any, path: str) -> SourceRule:
        entry = self._object(entry, path, _RULE_KEYS)
        if "source" not in entry:
            self._fault(path, 'has no source; write a name or a glob such as "*"')
        return SourceRule(
            place=self._document.place(path),
            sources=self._patterns(entry.get("source", []), f"{path}.source"),
            origins=self._patterns(entry.get("origin", "*"), f"{path}.origin"),
            aliases=self._patterns(entry.get("alias", ""), f"{path}.alias"),
            classes=self._patterns(entry.get("classes", []), f"{path}.classes"),
            queues=self._patterns(entry.get("queues", []), f"{path}.queues"),
            ticks=self._patterns(entry.get("ticks", []), f"{path}.ticks"),
        )

    def _object(self, value: Any, path: str, keys: Sequence[str] | None) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            wanted = f" with the keys {', '.join(keys)}" if keys else ""
            self._fault(path, f"{shorten(value)} is no mapping (key: value){wanted}")
            return {}
        if keys is not None:
            for key in value:
                if key not in keys:
                    self._fault(f"{path}.{key}".lstrip("."), f"is not known here{_near(key, keys)}")
        return value

    def _list(self, value: Any, path: str) -> list[Any]:
        if isinstance(value, list):
            return value
        self._fault(path, f"{shorten(value)} is no list")
        return []

    def _text(self, value: Any, path: str) -> str | None:
        if value is None or isinstance(value, str):
            return value
        self._fault(path, f"{shorten(value)} is no text; put it in quotation marks")
        return None

    def _patterns(self, value: Any, path: str) -> Patterns:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(each, str) for each in values):
            return tuple(values)
        self._fault(path, f"{shorten(value)} is neither a text nor a list of texts")
        return ()

    def _fault(self, path: str, text: str) -> None:
        self.faults.append(Fault(path, text))


def _near(name: str, known: Sequence[str]) -> str:
    return did_you_mean(str(name), known, f"; known are {', '.join(known)}")
