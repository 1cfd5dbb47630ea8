"""Prints what is refused, by which error and in which words, from real calls: the tables of docs/reference/api.md on the site."""

import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any
from uuid import UUID

from support.project import template_text

import kiqbridge
from kiqbridge import Client, Job, KiqbridgeError, job
from kiqbridge.aws.enqueue import Enqueuer
from kiqbridge.commands.cli import main as command_line
from kiqbridge.config import settings_file
from kiqbridge.config.merge import merge
from kiqbridge.features.mappings.check import main as check_mappings
from kiqbridge.schedule.template import read_schedules
from kiqbridge.schedule.yaml_nodes import TemplateError

NOWHERE = "redis://127.0.0.1:1/0"
NOW = 1_700_000_000.0

DECLARING = (
    '@job(name="Greet")\ndef twice(): ...',
    "@job\ndef only_by_keyword(*, day): ...",
    '@job(queue="")\ndef on_no_queue(): ...',
    "@job(tags={1, 2})\ndef with_a_set(): ...",
    "@job(max_retries=3)\ndef as_elsewhere(): ...",
    "@job(unique_for=600)\ndef as_in_enterprise(): ...",
    "@job\ndef rows(path): yield path",
    '@job(name="")\ndef without_a_name(): ...',
    '@job(queue="a b")\ndef on_two_queues(): ...',
    '@job(retry="five")\ndef as_a_word(): ...',
    '@job(timeout_s="1m")\ndef as_a_text(): ...',
    "job(lambda: None)",
    "class Mailer:\n    @job\n    def send(self, user): ...",
    "class Base(Job): ...\nBase.perform_async()",
)
ENQUEUING = (
    "greet.perform_async()",
    'greet.perform_async(name="Ada", copies=2)',
    "greet.perform_async(datetime(2026, 1, 1, tzinfo=UTC))",
    'greet.perform_async(float("nan"))',
    'greet.perform_async({"days": {1: "one"}})',
    'greet.perform_async("\\ud800")',
    'remind.perform_async("Ada", [])',
    'remind.perform_async("5d0a54ab-1f7a-4bd7-85a3-a0f15d0a54ab", ["2026-01-01", "soon"])',
    'greet.perform_in("5m", "Ada")',
    'greet.perform_at("tomorrow", "Ada")',
    'greet.perform_at(datetime(2026, 1, 1), "Ada")',
    'greet.perform_bulk(["Ada", "Grace"])',
    'greet.perform_bulk([["Ada"]], batch_size=0)',
    'greet.set(queue="").perform_async("Ada")',
    'greet.set(wait=1, wait_until=2).perform_async("Ada")',
    'greet.set(que="low").perform_async("Ada")',
    'Client().push({"class": "Greet"})',
    'Client().push({"class": 7, "args": []})',
    'Client().push({"class": "Greet", "args": "Ada"})',
    'Client().push({"class": "Greet", "args": [], "at": "08:30"})',
    'Client().push({"class": "Greet", "args": [], "jid": ""})',
    'Client().push({"class": "Greet", "args": [], "tags": "mail"})',
    'Client().push({"class": "Greet", "args": [], "retry_for": 2_000_000_000})',
    'Client(profile="8", max_payload_bytes=1000).push({"class": "Greet", "args": ["x" * 1000]})',
    'Client().push({"active_job": "", "args": []})',
    'Client().push({"active_job": "NightlyJob", "args": [{1, 2}]})',
    'Client().pause_queue("")',
    'Client().pause_queue("mailers", for_s=-1)',
    'Client().pause_class("Greet", until=datetime(2030, 1, 1))',
    'Client().pause_class("Greet", for_s=60, until=2_000_000_000)',
    'Client(profile="9")',
    "Client(max_payload_bytes=-1)",
    'Client("localhost:6379")',
    'Client("redis://localhost/abc")',
    'greet.perform_async("Ada")  # no server there',
)
MAPPINGS = (
    "mappings: [{match: {source: sqs}, class: Greet}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [detail.ordre]}]",
    "mappings: [{match: {source: shop}, class: Greet, args: detail.order}]",
    "mappings: [{match: {source: shop}, class: Greet, each: detail.lines}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [\"starts_with(detail.order, 'a')\"]}]",
    "mappings: [{match: {source: shop}, class: Greet, in: detail}]",
    "mappings: [{match: {source: shop}, class: Payroll}]",
    "mappings: [{match: {source: shop}, class: Greet}]\nallow: [{source: sqs, classes: [Greet], queues: [default]}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [detail.order]}]\nschemas: {Greet: {items: [{type: string}]}}",
    "mapping: []",
    "mappings: [{match: {source: shop}, clas: Greet}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [$.detail.order]}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [detail-type]}]",
    "mappings: [{match: {source: shop}, class: Greet, args: [lenth(detail)]}]",
    "mappings: [{match: {source: shop}, class: Greet, options: {tags: mail}}]",
    "mappings: [{match: {source: sqs}, class: Greet, example: event.json}]",
    "mappings: [{match: {source: shop}, class: Greet, example: nothing.json}]",
    "allow: [{classes: [Greet]}]",
    "schemas: {Greet: {type: strin}}",
    "schemas: {Greet: {$ref: 'https://example.com/greet.json'}}",
    "schemas: {Greet: {prefixItems: []}}",
    "mappings: [",
)
EVENTS = (
    "[1]",
    "{}",
    '{"class": "Payroll", "args": []}',
    '{"class": "Greet", "args": [], "queue": "vip"}',
    '{"jobs": []}',
    '{"jobs": [{"class": "Greet", "args": []}, {"class": "Greet", "args": {}}]}',
    '{"class": "Greet", "args": [], "in": "soon"}',
    '{"class": "Greet", "args": [], "at": "2026-01-01T08:30:00"}',
    '{"class": "Greet", "args": [], "in": 60, "at": 1700000000}',
    '{"class": "Greet", "args": [], "dedupe_key": ""}',
    '{"class": "Greet", "args": [], "jid": "<script>"}',
    '{"class": "Greet", "args": [], "created_at": "today"}',
    '{"class": "Greet", "args": [], "cattr": 5}',
    '{"class": "Greet", "args": [], "task_token": ""}',
    '{"class": "Greet", "args": [], "task_token": "AQC=", "task_heartbeat_s": "1m"}',
    '{"class": "Greet", "args": [], "tick": {"schedule": "shop/Greet"}}',
    '{"class": "Greet", "args": [], "tick": {"schedule": "shop/Greet", "at": "<aws.scheduler.scheduled-time>"}}',
    '{"source": "aws.events", "detail-type": "Scheduled Event", "id": "1", "time": "2026-11-20T02:00:00Z", "resources": ["arn:aws:events:eu-west-1:123456789012:rule/r"]}',
    '{"methodArn": "arn:aws:execute-api:eu-west-1:123456789012:api/test/POST/jobs", "type": "TOKEN"}',
    '{"Records": [{"eventSource": "aws:new"}]}',
)
FLAGS = (
    "worker -q mail,x",
    "worker -c 0",
    "worker -t soon",
    "worker -r nowhere",
    "worker -C missing.yml",
    "dev --template missing.yaml",
)
FILES = (
    "- concurrency: 5",
    "concurrency: many",
    "concurrency: [5]",
    "timeout: {seconds: 25}",
    "queues: 7",
    "queues: [mail, [low, heavy]]",
    "capsules: [single]",
    "capsules: {single: 1}",
    "capsules: {single: {queues: []}}",
    "capsules: {single: {queues: [single], concurency: 1}}",
    "capsules: {single: {queues: [single], concurrency: 0}}",
    "production: 5",
    "queues: [<%= `hostname` %>]",
    "queues: [mail",
    "!!python/object/apply:os.system [id]",
)
RULES = (
    ("cron(0 3 * * ? *)", "cron(0 3 * * * *)"),
    ("cron(0 3 * * ? *)", "cron(0 25 * * ? *)"),
    ("cron(0 3 * * ? *)", "rate(1 minutes)"),
    ("Europe/Paris", "Europe/Pariss"),
    ('"at": "<aws.scheduler.scheduled-time>"', '"at": "now"'),
    ('"args": [1],', '"args": 1,'),
)


def sections() -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Heading, and per row what was given, the error's class, and its message."""
    yield "Declaring a job", [(code, *raised_by(code)) for code in DECLARING]
    yield "Enqueuing", [(code, *raised_by(code)) for code in ENQUEUING]
    yield "Events of the enqueue function", [(event, *raised_by_event(event)) for event in EVENTS]
    yield (
        "The command line",
        [(f"kiqbridge {flags}", *said_about(flags)) for flags in FLAGS],
    )
    yield "Mappings of events", [(text, *said_about_mapping(text)) for text in MAPPINGS]
    yield "The settings file", [(text, *said_about_file(text)) for text in FILES]
    yield "Rules in template.yaml", [(new, "make check", problems(old, new)) for old, new in RULES]


def raised_by(code: str) -> tuple[str, str]:
    from datetime import UTC, datetime

    known = {"Client": Client, "Job": Job, "job": job, "datetime": datetime, "UTC": UTC}
    try:
        exec(code, known | {"greet": greet, "remind": remind, "__name__": "jobs"})
    except KiqbridgeError as error:
        return type(error).__name__, str(error)
    raise SystemExit(f"not refused: {code}")


def raised_by_event(text: str) -> tuple[str, str]:
    environ = {
        "REDIS_URL": NOWHERE,
        "KIQBRIDGE_ALLOWED_CLASSES": "Greet,Billing::*",
        "KIQBRIDGE_ALLOWED_QUEUES": "default,low",
    }
    try:
        Enqueuer.from_environment(environ).handle(json.loads(text), now=NOW).answer_or_raise()
    except KiqbridgeError as error:
        return type(error).__name__, str(error)
    raise SystemExit(f"not refused: {text}")


def said_about(flags: str) -> tuple[str, str]:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = command_line(flags.split())
    return f"exit {code}", said.getvalue().removeprefix("kiqbridge: ").strip()


def said_about_mapping(text: str) -> tuple[str, str]:
    """As `make check` reports the file, or as the function refuses the event that it would take."""
    event = {"id": "1", "detail-type": "Order placed", "source": "shop", "detail": {"order": 17}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mappings.yml")
        path.write_text(f"{text}\n", encoding="utf-8")
        (Path(folder) / "event.json").write_text(json.dumps(event), encoding="utf-8")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            if check_mappings([str(path)]) != 0:
                text = said.getvalue().replace(f"{folder}/", "").replace("error: ", "")
                return "make check", text.strip()
        environ = {
            "REDIS_URL": NOWHERE,
            "KIQBRIDGE_ALLOWED_CLASSES": "Greet",
            "KIQBRIDGE_ALLOWED_QUEUES": "default",
        }
        try:
            Enqueuer.from_environment(environ, Path(folder)).handle(
                event, now=NOW
            ).answer_or_raise()
        except KiqbridgeError as error:
            return type(error).__name__, str(error)
    raise SystemExit(f"not refused: {text}")


def said_about_file(text: str) -> tuple[str, str]:
    """Not by starting a worker: one whose file were accepted would wait for Redis for ever."""
    try:
        content = settings_file.parse(f"{text}\n", "kiqbridge.yml", {})
        flags = {"environment": "production"}
        merge(file=content, file_name="kiqbridge.yml", environ={}, flags=flags)
    except KiqbridgeError as error:
        return type(error).__name__, str(error)
    raise SystemExit(f"not refused: {text}")


def problems(old: str, new: str) -> str:
    """What is said of the template when the first `old` in it is `new`."""
    source = template_text()
    template = Path("template.yaml")
    template.write_text(source.replace(old, new, 1), encoding="utf-8")
    try:
        read_schedules(template)
    except TemplateError as error:
        said = "; ".join(str(problem) for problem in error.problems)
        return said.split(": ", 1)[1]  # without file and line
    raise SystemExit(f"not refused: {new}")


@job(name="Greet")
def greet(name: Any) -> None:
    """A declared job, for the calls above."""


@job(name="Remind")
def remind(user: UUID, days: Sequence[date]) -> None:
    """One whose arguments are converted."""


def document() -> str:
    text = ""
    for heading, rows in sections():
        text += f"\n## {heading}\n\n| given | error | message |\n|---|---|---|\n"
        text += "".join(
            f"| {code(given)} | `{kind}` | {cell(message)} |\n" for given, kind, message in rows
        )
    return text


def code(text: str) -> str:
    return "<br>".join(f"`{line}`".replace("|", "\\|") for line in text.split("\n"))


def cell(text: str) -> str:
    """Text that Markdown shows as it is, without places on this machine."""
    text = re.sub(rf"{re.escape(__file__)}:\d+", "greetings.py:7", text).replace(
        str(Path.cwd()), "/srv/shop"
    )
    escaped = "".join(f"\\{sign}" if sign in "\\|*<`" else sign for sign in text)
    return escaped.replace("\n", " ")


def main() -> None:
    for variable in [name for name in os.environ if name.startswith(("REDIS_", "KIQBRIDGE_"))]:
        del os.environ[variable]
    kiqbridge.configure(NOWHERE)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        text = document()
    logging.shutdown()
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
