"""`kiqbridge enqueue`: one job, or an event through the very code of the enqueue function."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from kiqbridge.api.operator import user_name
from kiqbridge.aws.enqueue import Enqueuer, Handled
from kiqbridge.aws.job_forms import JobRequest, parse_jobs
from kiqbridge.aws.mapping.check import described
from kiqbridge.aws.push import HeldBack, Pusher
from kiqbridge.aws.record import Record, Result
from kiqbridge.client.client import Client
from kiqbridge.client.guarded_push import Enqueued, TickOutcome
from kiqbridge.commands.arguments import add_changing, add_example, add_option, duration
from kiqbridge.commands.output import fields_of, write_json, write_line
from kiqbridge.config.function_settings import MAPPINGS
from kiqbridge.errors import EventError, PayloadError
from kiqbridge.wire import active_job, json_text
from kiqbridge.wire.guards import Identity
from kiqbridge.wire.payload import DEFAULT_OPTIONS, shorten

FUNCTION_FOLDER: Final = Path("lambdas/enqueue")
"""Where the function lies, from the folder in which a project is worked on."""
_STANDARD_INPUT: Final = "-"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two forms: CLASS with arguments, and --event."""
    add_example(parser, "kiqbridge enqueue Greeting '\"Ada\"' --queue default --in 60")
    add_option(parser, "job_class", "CLASS", "enqueue a job of this class", nargs="?")
    add_option(
        parser, "args", "JSON-ARG", "its arguments, each one JSON, such as 5 or '\"a\"'", nargs="*"
    )
    add_option(parser, "--queue", "NAME", "its queue (default: default)")
    add_option(
        parser,
        "--in",
        "DURATION",
        "run it after 90, 90s, 15m, 2h or 1d",
        dest="run_in",
        type=duration,
    )
    add_option(
        parser, "--at", "TIME", "run it at 2026-11-20T02:00:00Z, or epoch seconds", dest="run_at"
    )
    add_option(parser, "--jid", "JID", "its id (default: a new one)")
    add_option(parser, "--dedupe-key", "KEY", "enqueue it once for this class and key")
    add_option(
        parser,
        "--event",
        "FILE",
        "an AWS event as JSON (- = standard input), handled as the enqueue function would: sources, "
        "mappings, and KIQBRIDGE_ALLOWED_CLASSES and _QUEUES of this environment",
    )
    add_option(
        parser,
        "--mappings",
        "FILE",
        f"the mappings for it (default: KIQBRIDGE_MAPPINGS, or mappings.yml in {FUNCTION_FOLDER})",
        type=Path,
    )
    add_changing(parser)


def run(options: argparse.Namespace) -> int:
    """Enqueue what is asked for.

    Raises:
        EventError, PayloadError: refused; nothing was pushed of it.
        RedisUnavailable: Redis cannot be reached.
    """
    if (options.event is None) == (options.job_class is None):
        raise EventError("enqueue: name a CLASS with its arguments, or give --event FILE")
    if options.event is None:
        return _enqueue_job(options)
    if _of_a_job(options):
        raise EventError(f"enqueue: {_of_a_job(options)[0]} goes with a CLASS, not with --event")
    return _enqueue_event(options)


def _of_a_job(options: argparse.Namespace) -> list[str]:
    given = {
        "--queue": options.queue,
        "--in": options.run_in,
        "--at": options.run_at,
        "--jid": options.jid,
        "--dedupe-key": options.dedupe_key,
    }
    return [name for name, value in given.items() if value is not None]


def _enqueue_job(options: argparse.Namespace) -> int:
    now = time.time()
    [job] = parse_jobs(_item(options), now).jobs
    if options.dry_run:
        shown = {"dry_run": True, "job": dict(job.item)} if options.json else None
        return _print(shown, f"would enqueue {described(job)}")
    enqueued = Client().push_once([job.item], [job.dedupe_key])
    if not enqueued:
        raise EventError(f"enqueue: client middleware stopped {options.job_class}")
    answer = enqueued_fields(enqueued[0])
    if answer["duplicate"] and not options.json:
        sys.stderr.write("kiqbridge: this key has enqueued a job before; its id follows\n")
    return _print(answer if options.json else None, enqueued[0].jid)


def _item(options: argparse.Namespace) -> dict[str, Any]:
    item: dict[str, Any] = {
        "class": options.job_class,
        "args": [_argument(index, text) for index, text in enumerate(options.args)],
        "queue": options.queue,
        "jid": options.jid,
        "in": options.run_in,
        "at": None if options.run_at is None else _time(options.run_at),
        "dedupe_key": options.dedupe_key,
    }
    return {key: value for key, value in item.items() if value is not None}


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
    event = _event(options.event)
    environ = dict(os.environ)
    if options.mappings is not None:
        environ[MAPPINGS.env[0]] = str(options.mappings.resolve())
    dry = _DryClient()
    if options.dry_run:
        enqueuer = Enqueuer.with_mappings(Pusher(dry), environ, FUNCTION_FOLDER)
    else:
        enqueuer = Enqueuer.from_environment(environ, FUNCTION_FOLDER)
    handled = enqueuer.handle(event, now=time.time(), by=f"kiqbridge enqueue by {user_name()}")
    records = [_shown(result, enqueuer, dry.asked) for result in handled.results]
    if options.json:
        _print_json(handled, records, dry_run=options.dry_run)
    else:
        _print_text(handled, records, dry_run=options.dry_run)
    if (error := _first_error(handled)) is not None:
        raise error
    return 0


class _DryClient:
    """Answers as a client whose jobs are all new, and keeps what was asked for.

    Attributes:
        asked: by the id that stands in the answer.
    """

    def __init__(self) -> None:
        self.asked: dict[str, JobRequest] = {}

    def push_once(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: Sequence[str | Identity | None],
        **_options: object,
    ) -> list[Enqueued]:
        """An answer for each item."""
        return [
            self._enqueued(JobRequest(item=item, dedupe_key=key), index)
            for index, (item, key) in enumerate(zip(items, dedupe_keys, strict=True))
        ]

    def find_enqueued(
        self,
        items: Sequence[Mapping[str, Any]],
        dedupe_keys: Sequence[str | Identity | None],  # noqa: ARG002 - none is known, whatever it is
    ) -> list[str | None]:
        """None of them was enqueued before."""
        return [None] * len(items)

    def push_tick(
        self,
        schedule: str,
        instant: int,
        items: Sequence[Mapping[str, Any]],
        **_options: object,
    ) -> TickOutcome:
        """An answer for each item; the tick is new."""
        key = f"tick {schedule} at {instant}"
        asked = [JobRequest(item=item, dedupe_key=key) for item in items]
        jobs = [self._enqueued(job, index) for index, job in enumerate(asked)]
        return TickOutcome(kind="enqueued", jobs=jobs)

    def _enqueued(self, job: JobRequest, index: int) -> Enqueued:
        jid = str(job.item.get("jid") or f"dry-run-{len(self.asked)}")
        self.asked[jid] = job
        return Enqueued(
            index=index,
            jid=jid,
            job_class=job.item.get("class") or job.item[active_job.KEY],
            queue=job.item.get("queue", DEFAULT_OPTIONS["queue"]),
            at=job.item.get("at"),
            duplicate=False,
        )


def _shown(result: Result, enqueuer: Enqueuer, asked: Mapping[str, JobRequest]) -> dict[str, Any]:
    """A record and what became of it, as the answer in JSON has it."""
    record = result.record
    jobs = []
    for job in result.jobs:
        jobs.append(enqueued_fields(job))
        if job.jid in asked:
            jobs[-1] |= {"args": asked[job.jid].item["args"], "once_for": _name(asked[job.jid])}
    return {
        "source": record.source,
        "origin": record.origin,
        "facets": dict(record.facets),
        "identity": None if record.identity is None else _text(record.identity),
        "mapping": _mapping(enqueuer, record),
        "jobs": jobs,
        "stale": [dict(each) for each in result.stale],
        "paused": [dict(each) for each in result.paused],
        "skipped": [dict(each) for each in result.skipped],
        "ignored": result.ignored or None,
        "error": None if result.error is None else str(result.error),
    }


def _mapping(enqueuer: Enqueuer, record: Record) -> str | None:
    try:
        return enqueuer.mapping_of(record) or None
    except EventError:  # of a filter; it is the record's error as well
        return None


def enqueued_fields(job: Enqueued) -> dict[str, Any]:
    """A job that was enqueued, as JSON has it."""
    return {"class": job.job_class, **fields_of(job, "jid queue at duplicate")}


def _name(job: JobRequest) -> str | None:
    """What a repeated delivery of a job is recognized by."""
    key = job.dedupe_key
    return _text(key) if isinstance(key, Identity) else key


def _text(identity: Identity) -> str:
    return " ".join([identity.source, *identity.parts])


def _first_error(handled: Handled) -> Exception | None:
    if handled.error is not None:
        return handled.error
    errors = [result.error for result in handled.results if result.error is not None]
    return next((each for each in errors if not isinstance(each, HeldBack)), None)


def _print_json(handled: Handled, records: Sequence[Mapping[str, Any]], *, dry_run: bool) -> None:
    answer = {
        "dry_run": dry_run,
        "source": handled.source,
        "ignored": handled.ignored or None,
        "records": records,
        "answer": None if handled.error is not None else handled.answer,
        "error": None if handled.error is None else str(handled.error),
    }
    _print(answer, "")


def _print_text(handled: Handled, records: Sequence[Mapping[str, Any]], *, dry_run: bool) -> None:
    write = sys.stdout.write
    verb = "would enqueue" if dry_run else "enqueued"
    if handled.ignored:
        write(f"{handled.source}: no job: {handled.ignored}\n")
    for record in records:
        where = " ".join(filter(None, [record["source"], record["origin"]]))
        by = f", by {record['mapping']}" if record["mapping"] else ""
        write(f"{where}{by}\n")
        for job in record["jobs"]:
            args = f" {json.dumps(job['args'], ensure_ascii=False)}" if "args" in job else ""
            at = f", at {job['at']:.3f}" if job["at"] is not None else ""
            did = "already enqueued" if job["duplicate"] else verb
            jid = "" if dry_run else f" as {job['jid']}"
            write(f"  {did} {job['class']}{args} into {job['queue']}{at}{jid}\n")
            if job.get("once_for"):
                write(f"    once for {job['once_for']}\n")
        # The first error ends the command, which prints it.
        refused = record["error"] if record["error"] != str(_first_error(handled)) else None
        for why in filter(None, [refused, record["ignored"]]):
            write(f"  no job: {why}\n")
        if record["stale"]:
            write("  no job: the tick is too old\n")
        if record["paused"]:
            write("  no job: the schedule is paused\n")
        if record["skipped"]:
            write("  no job: this tick was to be skipped\n")
    if handled.error is None:
        write(f"answer: {json.dumps(handled.answer, ensure_ascii=False)}\n")


def _print(answer: object | None, line: str) -> int:
    if answer is None:
        write_line(line)
    else:
        write_json(answer)
    return 0


def _event(name: str) -> Any:
    try:
        text = sys.stdin.buffer.read() if name == _STANDARD_INPUT else Path(name).read_bytes()
        return json_text.loads(text)
    except (OSError, ValueError) as error:
        raise EventError(f"--event {name}: this is not an event as JSON: {error}") from error
