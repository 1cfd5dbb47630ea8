"""`kiqbridge enqueue`: push one job and print its id, or give an AWS event to the code of the enqueue function.

Of an event its jobs and the answer are printed. Exit 0 if all was enqueued (a duplicate counts), 2 if something is
refused, 3 if Redis cannot be reached.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kiqbridge.api.operator import user_name
from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.job_forms import described, parse_jobs
from kiqbridge.aws.push import HeldBack, looked_up
from kiqbridge.aws.record import Answering, Record, Result
from kiqbridge.client.client import Client
from kiqbridge.client.guarded_push import Enqueued
from kiqbridge.client.registry import default_registry
from kiqbridge.client.require import load_all
from kiqbridge.commands.arguments import add, add_changing, add_example, add_require
from kiqbridge.commands.output import answer, fields_of, warn
from kiqbridge.config.function_settings import ForFunctions
from kiqbridge.errors import ConfigError, EventError, PayloadError
from kiqbridge.runtime.redaction import shorten
from kiqbridge.schedule import ANSWERS, TEMPLATE
from kiqbridge.schedule.check import read_answers
from kiqbridge.schedule.template import ENQUEUE_CODE_URI, read_functions
from kiqbridge.wire import json_text
from kiqbridge.wire.guards import Identity

_REFUSES: Final = (
    ForFunctions.allowed_classes,
    ForFunctions.allowed_queues,
    ForFunctions.http_auth,
    ForFunctions.max_event_bytes,
    ForFunctions.mappings,
)
"""The settings of the function that decide what is refused."""
_OF_A_JOB: Final = {
    "queue": "--queue",
    "in_": "--in",
    "at": "--at",
    "jid": "--jid",
    "dedupe_key": "--dedupe-key",
}
"""Attribute → an option that goes with a CLASS."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two forms: CLASS with arguments, and --event."""
    add_example(parser, "kiqbridge enqueue Greeting '\"Ada\"' --queue default --in 60")
    add(parser, "[CLASS]", "enqueue a job of this class", dest="job_class")
    text = "arguments of the job, each as JSON, such as 5 or '\"a\"'"
    add(parser, "[JSON-ARG...]", text, dest="args")
    add_require(parser)
    add(
        parser,
        "--queue NAME",
        "its queue (default: the queue of its declaration with -r, else default)",
    )
    add(parser, "--in DURATION", "run it after 90, 90s, 15m, 2h or 1d")
    add(parser, "--at TIME", "run it at 2026-11-20T02:00:00Z, or epoch seconds", type=_time)
    add(parser, "--jid JID", "the job's id (default: a new one)")
    add(parser, "--dedupe-key KEY", "enqueue it once for this class and key")
    text = "an AWS event as JSON (- = standard input), handled as the enqueue function would: sources, mappings, and "
    text += "the allow-lists of its template, or KIQBRIDGE_ALLOWED_CLASSES and _QUEUES of this environment"
    add(parser, "--event FILE", text)
    add_function(parser)
    add_changing(parser)


def add_function(parser: argparse.ArgumentParser) -> None:
    """Of which function the code is; see `function_environ`."""
    text = "the SAM template of the function, whose allow-lists count, with the answers of `make deploy` beside it; "
    text += f"variables of this environment take precedence (default: {TEMPLATE}, if it is there)"
    add(parser, "--template FILE", text, type=Path)
    text = f"its mappings (default: KIQBRIDGE_MAPPINGS, or mappings.yml in {ENQUEUE_CODE_URI})"
    add(parser, "--mappings FILE", text, type=Path)


def function_folder(options: argparse.Namespace) -> Path:
    """Where the function lies: beside its template, else below the folder in which a project is worked on."""
    above = Path() if options.template is None else options.template.parent
    return Path(above, ENQUEUE_CODE_URI)


def function_environ(options: argparse.Namespace) -> dict[str, str]:
    """The environment; what it does not set of `_REFUSES` is that of the template's enqueue function.

    Raises:
        ConfigError: the template cannot be read, or only AWS knows what it says.
    """
    environ = {name: value for name, value in os.environ.items() if value}
    if options.mappings is not None:
        environ[ForFunctions.mappings.env[0]] = str(options.mappings.resolve())
    path = options.template or TEMPLATE
    if options.template is None and not path.is_file():
        return environ
    functions = read_functions(path, read_answers(path.parent / ANSWERS, path))
    function = next((each for each in functions if each.enqueues), None)
    if function is None:
        if options.template is not None:
            raise ConfigError(f"{path}: no function there has CodeUri: {ENQUEUE_CODE_URI}")
        return environ
    for setting in _REFUSES:
        [name] = setting.env
        if name in environ:
            continue
        if name in function.unknown:
            raise ConfigError(
                f"{path} {function.name}: {name} cannot be known without AWS; set that variable here"
            )
        if name in function.environment:
            environ[name] = function.environment[name]
    return environ


def run(options: argparse.Namespace) -> int:
    """Enqueue what is asked for.

    Raises:
        EventError, PayloadError: refused; nothing was pushed of it.
        RedisUnavailable: Redis cannot be reached.
    """
    if (options.event is None) == (options.job_class is None):
        raise EventError("enqueue: name a CLASS with its arguments, or give --event FILE")
    load_all(tuple(options.require or ()))
    if options.event is None:
        given = {name.strip("_"): getattr(options, name) for name in _OF_A_JOB}
        given = {name: value for name, value in given.items() if value is not None}
        args = [_argument(index, text) for index, text in enumerate(options.args)]
        declared = default_registry.find(options.job_class) if options.require else None
        if declared is not None:
            args = declared.bind(tuple(args), {})
            given.setdefault("queue", declared.options["queue"])
        [job], _ = parse_jobs({"class": options.job_class, "args": args, **given}, time.time())
        if options.dry_run:
            document = {"dry_run": True, "job": dict(job.item)}
            return answer(options, document, [f"would enqueue {described(job)}"])
        enqueued = Client().push_once(
            [{**job.item, "class": declared or job.item["class"]}], [job.dedupe_key]
        )
        if not enqueued:
            raise EventError(f"enqueue: client middleware stopped {options.job_class}")
        if enqueued[0].duplicate and not options.json:
            warn("this key has enqueued a job before; its id follows")
        return answer(options, enqueued_fields(enqueued[0]), [enqueued[0].jid])
    for name, flag in _OF_A_JOB.items():
        if getattr(options, name) is not None:
            raise EventError(f"enqueue: {flag} goes with a CLASS, not with --event")
    return _enqueue_event(options)


def _argument(index: int, text: str) -> Any:
    try:
        return json_text.loads(text.encode())
    except ValueError as error:  # a lone surrogate, too, as which a byte that is no UTF-8 arrives
        raise PayloadError(
            f"args[{index}]: {shorten(text)} is not JSON; a text has double quotes within the shell's "
            f"single ones: '\"text\"'"
        ) from error


def _time(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _enqueue_event(options: argparse.Namespace) -> int:
    event, environ = _event(options.event), function_environ(options)
    pusher = _DryPusher() if options.dry_run else None
    enqueuer = Enqueuer.from_environment(environ, function_folder(options), pusher)
    handled = enqueuer.handle(event, now=time.time(), by=f"kiqbridge enqueue by {user_name()}")
    records = [_shown(result, enqueuer, is_dry=options.dry_run) for result in handled.results]
    document = {
        "dry_run": options.dry_run,
        "source": handled.source,
        "ignored": handled.ignored or None,
        "records": records,
        "answer": None if handled.error is not None else handled.answer,
        "error": None if handled.error is None else str(handled.error),
    }
    answer(options, document, _lines(handled, records, is_dry=options.dry_run))
    if (error := _first_error(handled)) is not None:
        raise error
    return 0


class _DryPusher:
    """Answers as if all jobs were new, and needs no Redis."""

    def read_spilled(self, event: object) -> None:
        """There is no spill queue."""

    def push(
        self,
        records: Sequence[Record],
        answering: Answering,  # noqa: ARG002 - nothing fails
        by: str,  # noqa: ARG002 - nothing is written
    ) -> list[Result]:
        return [looked_up(record, [None] * len(record.jobs)) for record in records]


def _shown(result: Result, enqueuer: Enqueuer, *, is_dry: bool) -> dict[str, Any]:
    """A record and what became of it, as the answer in JSON has it."""
    record, tick = result.record, result.record.tick
    jobs = [enqueued_fields(job) for job in result.jobs]
    if is_dry and jobs:
        for shown, job in zip(jobs, record.jobs, strict=True):
            key = f"tick {tick.schedule} at {tick.instant}" if tick else job.dedupe_key
            shown |= {"args": job.item["args"], "once_for": _text(key)}
    return {
        **fields_of(record, "source origin"),
        "facets": dict(record.facets),
        "identity": _text(record.identity),
        "mapping": _mapping(enqueuer, record),
        "jobs": jobs,
        **{name: result.jobs_left_out(name) for name in _LEFT_OUT},
        "ignored": record.ignored or None,
        "error": None if result.error is None else str(result.error),
    }


_LEFT_OUT: Final = {
    "stale": "the tick is too old",
    "paused": "the schedule is paused",
    "skipped": "this tick was to be skipped",
}
"""`Result.left_out` → why a tick enqueues nothing."""


def _mapping(enqueuer: Enqueuer, record: Record) -> str | None:
    try:
        return enqueuer.mapping_of(record) or None
    except EventError:  # of a filter; it is the record's error as well
        return None


def enqueued_fields(job: Enqueued) -> dict[str, Any]:
    """A job that was enqueued, as JSON has it."""
    return {"class": job.job_class, **fields_of(job, "jid queue at duplicate")}


def _text(key: str | Identity | None) -> str | None:
    """What a repeated delivery is recognized by."""
    return " ".join([key.source, *key.parts]) if isinstance(key, Identity) else key


def _first_error(handled: Handled) -> Exception | None:
    if handled.error is not None:
        return handled.error
    errors = [result.error for result in handled.results if result.error is not None]
    return next((each for each in errors if not isinstance(each, HeldBack)), None)


def _lines(
    handled: Handled, records: Sequence[Mapping[str, Any]], *, is_dry: bool
) -> Iterator[str]:
    if handled.ignored:
        yield f"{handled.source}: no job: {handled.ignored}"
    for record in records:
        by = f", by {record['mapping']}" if record["mapping"] else ""
        yield " ".join(filter(None, [record["source"], record["origin"]])) + by
        for job in record["jobs"]:
            args = f" {json.dumps(job['args'], ensure_ascii=False)}" if "args" in job else ""
            at = f", at {job['at']:.3f}" if job["at"] is not None else ""
            verb = "would enqueue" if is_dry else "enqueued"
            did = "already enqueued" if job["duplicate"] else verb
            jid = "" if is_dry else f" as {job['jid']}"
            yield f"  {did} {job['class']}{args} into {job['queue']}{at}{jid}"
            if job.get("once_for"):
                yield f"    once for {job['once_for']}"
        # The first error ends the command, which prints it.
        refused = record["error"] if record["error"] != str(_first_error(handled)) else None
        left_out = [why for name, why in _LEFT_OUT.items() if record[name]]
        for why in filter(None, [refused, record["ignored"], *left_out]):
            yield f"  no job: {why}"
    if handled.error is None:
        yield f"answer: {json.dumps(handled.answer, ensure_ascii=False)}"


def _event(name: str) -> Any:
    try:
        text = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        return json_text.loads(text)
    except (OSError, ValueError) as error:
        raise EventError(f"--event {name}: this is not an event as JSON: {error}") from error
