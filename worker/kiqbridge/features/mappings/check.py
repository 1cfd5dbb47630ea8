"""The check of a file of mappings: `python -m kiqbridge.features.mappings.check FILE [--template template.yaml]`.

`make check` runs it, `make deploy` with the remembered `--answers`. It prints the jobs that each mapping makes of its examples, or every fault with file,
line and key. `make build` runs it with `--json OUTPUT`, to write what the function reads.

1. the file: keys, types, JMESPath and its functions, JSON schemas;
2. with `--template`: classes and queues are allowed by the template, and its schedules by `allow` and `schemas`;
3. the examples: a mapping that names one takes it, and makes jobs that would be pushed.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kiqbridge.aws import sources
from kiqbridge.aws.allow_list import CLASSES, QUEUES, AllowList
from kiqbridge.aws.job_forms import described, is_job_form
from kiqbridge.aws.record import Record, leaves
from kiqbridge.errors import ConfigError, EventError, PayloadError, did_you_mean
from kiqbridge.features.mappings import declared
from kiqbridge.features.mappings.declared import Declared, EventMapping, Fault
from kiqbridge.features.mappings.document import Document, JobSchemas, SchemaFault, compiled, load
from kiqbridge.features.mappings.expressions import ExpressionFault, check_expression
from kiqbridge.features.mappings.mapper import Mapper
from kiqbridge.schedule.check import read_answers
from kiqbridge.schedule.template import ENQUEUE_CODE_URI, TemplateSchedule, read_schedules
from kiqbridge.wire import active_job, json_text

_MATCH_KEYS: Final = frozenset(
    [
        *("account", "action", "action-group", "alarm", "arn", "attribute", "bucket", "bus"),
        *("channel", "click", "client", "condition", "dataset", "definition", "detail-type"),
        *("error", "event", "event-source", "field", "function", "group", "inner"),
        *("integration", "intent", "invocation", "key", "log-group", "log-stream", "method"),
        *("name", "operation", "origin", "partition-key", "path", "prefix", "principal"),
        *("queue", "recipient", "ref", "region", "request", "resource", "resource-type"),
        *("route", "rule", "schedule", "source", "stage", "state", "step", "stream", "subject"),
        *("suffix", "table", "topic", "trigger", "type"),
    ]
)
"""Keys of `match` that some source has (docs/reference/mappings.md)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what the mappings make of their examples, or all faults; the exit code is 0 or 1."""
    parser = argparse.ArgumentParser(
        prog="python -m kiqbridge.features.mappings.check", description=main.__doc__
    )
    parser.add_argument("file", type=Path, help="such as lambdas/enqueue/mappings.yml")
    parser.add_argument("--template", type=Path, help="the SAM template of the function")
    parser.add_argument("--json", type=Path, metavar="OUTPUT", help="write what the function reads")
    parser.add_argument(
        "--answers", type=Path, metavar="SAMCONFIG", help="parameters of `make deploy`"
    )
    options = parser.parse_args(arguments)
    try:
        found = load(options.file)
        answers = read_answers(options.answers, options.template) if options.answers else {}
        schedules = read_schedules(options.template, answers) if options.template else []
        lines, faults = ([], []) if found is None else check(found, options.file.parent, schedules)
    except ConfigError as error:
        found, lines, faults = None, [], str(error).splitlines()
    if faults:
        sys.stdout.writelines(f"error: {fault}\n" for fault in faults)
        return 1
    sys.stdout.writelines(f"{line}\n" for line in lines or [f"{options.file}: no mappings"])
    if options.json and found is not None:
        options.json.write_text(found.as_json(), encoding="utf-8")
    return 0


def check(
    document: Document, folder: Path, schedules: Sequence[TemplateSchedule] = ()
) -> tuple[list[str], list[str]]:
    """What to print of a document, and its faults; one of the lists is empty.

    Args:
        document: the file.
        folder: where it lies; examples are named from there.
        schedules: of the template, whose allow-lists count; none = anything is allowed.
    """
    content, faults = declared.examine(document)
    faults += _faults(content)
    if not faults:
        checking = _Checking(document, content, schedules)
        checking.check(folder)
        faults = checking.faults
        if not faults:
            return checking.lines, []
    return [], [f"{document.place(path)}: {text}" for path, text in faults]


class _Checking:
    """The checks of a document whose parts are right, each by itself."""

    def __init__(
        self, document: Document, content: Declared, schedules: Sequence[TemplateSchedule]
    ) -> None:
        self._document = document
        self._content = content
        self._schedules = [each for each in schedules if each.function.code_uri == ENQUEUE_CODE_URI]
        self._allowed = replace(_allowed_by(self._schedules), rules=content.rules)
        self._mapper = Mapper(document, content)
        self._schemas = JobSchemas(document, content.schemas)
        self.lines: list[str] = []
        self.faults: list[Fault] = []

    def check(self, folder: Path) -> None:
        for mapping in self._content.mappings:
            self._check_lists(mapping)
            self.lines.append(f"{self._mapper.place(mapping)}: {_summary(mapping)}")
            for index, name in enumerate(mapping.examples):
                try:
                    self._check_example(mapping, folder / name)
                except (ConfigError, EventError, PayloadError) as error:
                    path = f"{mapping.path}.example[{index}]"
                    self.faults.append(Fault(path, f"{name}: {error}"))
        for schedule in self._schedules:
            self._check_schedule(schedule)
        if self._content.rules is not None:
            self.lines.append(f"{self._document.place('allow')}: {len(self._content.rules)} rules")
        if self._content.schemas:
            names = ", ".join(self._content.schemas)
            self.lines.append(f"{self._document.place('schemas')}: of {names}")

    def _check_lists(self, mapping: EventMapping) -> None:
        """Classes and queues against the lists for all; rules per source are for the examples."""
        for key in mapping.match:
            if key.partition(".")[0] not in _MATCH_KEYS and (
                hint := did_you_mean(key, _MATCH_KEYS)
            ):
                text = f"no event has {key}, so that this mapping never takes one{hint}"
                self.faults.append(Fault(f"{mapping.path}.match.{key}", text))
        lists = replace(self._allowed, rules=None)
        for job in mapping.jobs:
            try:
                lists.check({**job.fixed, "args": []})
            except EventError as error:
                self.faults.append(Fault(job.path, str(error)))

    def _check_example(self, mapping: EventMapping, path: Path) -> None:
        delivery = sources.read(_event(path))
        if delivery.ignored:
            raise EventError(f"this event is answered without a job: {delivery.ignored}")
        records = [leaf for record in delivery.records for leaf in leaves(record)]
        taken = [record for record in records if self._takes(mapping, record)]
        if not taken:
            raise EventError(f"this mapping does not take it; {self._seen(records)}")
        for record in taken:
            read = self._mapper.read_jobs(record, time.time())
            if read is None or read.ignored:
                self.lines.append(f"  {path.name}: no job")
                continue
            for job in read.jobs:
                self._allowed.check(job.item, record.sender)
                self._schemas.check(job.item)
                self.lines.append(f"  {path.name}: {described(job)}")

    def _takes(self, mapping: EventMapping, record: Record) -> bool:
        if record.error is not None:
            raise record.error
        if record.ignored or is_job_form(record.job):
            return False
        return self._mapper.find(record)[0] is mapping

    def _seen(self, records: Sequence[Record]) -> str:
        record = records[0]
        if is_job_form(record.job):
            return "it is a job by itself"
        other, filtered = self._mapper.find(record)
        if other is not None:
            return f"{self._mapper.place(other)} takes it before"
        if filtered:
            return f"the filter of {filtered} leaves it out"
        seen = {"source": record.source, "origin": record.origin, **record.facets}
        return f"it has {', '.join(f'{key}: {value}' for key, value in seen.items() if value)}"

    def _check_schedule(self, schedule: TemplateSchedule) -> None:
        """A schedule's job must be allowed for its source, and fit its schema."""
        event = json.loads(schedule.input or "{}")
        delivery = sources.read(event)
        tick = event.get("tick")
        name = tick.get("schedule") if isinstance(tick, dict) else None
        alias = self._allowed.seen_alias(schedule.function.alias)
        for record in delivery.records:
            for job in schedule.jobs:
                try:
                    self._allowed.check(job, record.sender._replace(alias=alias), name)
                except EventError as error:
                    self.faults.append(Fault("allow", f"{schedule.where}: {error}"))
                try:
                    self._schemas.check(job)
                except PayloadError as error:
                    self.faults.append(Fault("schemas", f"{schedule.where}: {error}"))


def _summary(mapping: EventMapping) -> str:
    names = [job.fixed.get("class", job.fixed.get(active_job.KEY)) for job in mapping.jobs]
    match = ", ".join(f"{key} {' or '.join(globs)}" for key, globs in mapping.match.items())
    return f"{match} → {', '.join(map(str, names))}"


def _event(path: Path) -> Any:
    try:
        return json_text.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"this is not a file with an event as JSON ({error}); write its path from the file of mappings"
        ) from error


def _allowed_by(schedules: Sequence[TemplateSchedule]) -> AllowList:
    """The lists of the template; what it does not say allows anything."""
    environment = schedules[0].function.environment if schedules else {}
    return AllowList.from_environment({CLASSES: "*", QUEUES: "*", **environment})


def _faults(content: Declared) -> Iterator[Fault]:
    """Expressions and schemas that cannot be compiled."""
    for path, text in _expressions(content):
        try:
            check_expression(text)
        except ExpressionFault as fault:
            yield Fault(path, str(fault))
    for name, schema in content.schemas.items():
        try:
            compiled(schema)
        except SchemaFault as fault:
            yield Fault(f"schemas.{name}", str(fault))


def _expressions(content: Declared) -> Iterator[tuple[str, str]]:
    """Path and text of each."""
    for mapping in content.mappings:
        for key, text in (("filter", mapping.filter), ("each", mapping.each)):
            if text is not None:
                yield f"{mapping.path}.{key}", text
        for job in mapping.jobs:
            yield from _texts(job.args, f"{job.path}.args")
            yield from _texts(job.when, job.path)
            yield from _texts(job.dedupe_key, f"{job.path}.dedupe_key")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _texts(child, f"{path}[{index}]")
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _texts(child, f"{path}.{key}")


if __name__ == "__main__":
    sys.exit(main())
